//! Every command, as it is looked up.

use super::shape::{Command, Group, Run};
use super::{client, greeting, info, small, tg, throttle};

const MANY: usize = usize::MAX;
const CALL: Group = Group::Key {
    position: 1,
    write: true,
};
const WRITE: Group = Group::Key {
    position: 2,
    write: true,
};
const READ: Group = Group::Key {
    position: 2,
    write: false,
};

/// A table row. (A function would need a name for each of eight arguments.)
macro_rules! commands {
    ($($name:literal $fewest:literal..=$most:tt $group:ident $auth:ident $manner:ident $($run:path),*: $usage:literal, $summary:literal;)*) => {
        &[$(Command {
            name: $name,
            arguments: ($fewest, $most),
            usage: $usage,
            summary: $summary,
            group: group!($group),
            before_auth: auth!($auth),
            run: run!($manner $($run),*),
        }),*]
    };
}
macro_rules! run {
    (describe) => {
        Run::Describe
    };
    (now $run:path) => {
        Run::Now($run)
    };
    (call $parse:path) => {
        Run::Call($parse)
    };
    (rate $parse:path, $tell:path) => {
        Run::Rate($parse, $tell)
    };
    (later $run:path) => {
        Run::Later(|session, arguments| Box::pin($run(session, arguments)))
    };
}
macro_rules! group {
    (connection) => {
        Group::Connection
    };
    (call) => {
        CALL
    };
    (write) => {
        WRITE
    };
    (read) => {
        READ
    };
}
macro_rules! auth {
    (anyone) => {
        true
    };
    (known) => {
        false
    };
}

/// All of them; the hot ones first, for they are looked for from the front.
pub(super) const COMMANDS: &[Command] = commands! {
    "CL.THROTTLE" 5..=6 call known rate throttle::read_cell, throttle::tell_cell: "key max_burst count period [quantity]", "Decides by a rate that comes with the call, as redis-cell does";
    "TG.CHECK" 3..=MANY write known call tg::check: "policy key [COST n] [AMOUNT limit n]... [ENTITY]", "Takes what is requested, if it fits";
    "THROTTLE" 5..=6 call known rate throttle::read_crab, throttle::tell_crab: "key max_burst count period [quantity]", "Decides by a rate that comes with the call, as throttlecrab does";
    "TG.ACQUIRE" 3..=MANY write known call tg::acquire: "policy key [COST n] [AMOUNT limit n]... [WAIT ms] [REFUNDS] [TTL ms] [PRIORITY n] [IDEMPOTENCY k] [ENTITY]", "Takes what is requested as a lease, and may wait for it";
    "TG.GRANT" 3..=MANY write known call tg::grant: "policy key [COST n] [AMOUNT limit n]... [LEAST limit n]... [HOLD ms] [LEASE id] [ENTITY]", "Units to spend without asking";
    "TG.RETURN" 4..=MANY write known call tg::return_: "policy key lease [COST n] [USED limit n]... [ENTITY]", "Gives back what is left of a grant";
    "TG.RELEASE" 4..=9 write known call tg::release: "policy key lease [OUTCOME succeeded|ignored|dropped] [COOLDOWN ms] [ENTITY]", "Ends a lease: what it took was used";
    "TG.SETTLE" 4..=MANY write known call tg::settle: "policy key lease [COST n] [USED limit n]... [OUTCOME succeeded|ignored|dropped] [COOLDOWN ms] [ENTITY]", "Ends a lease with what was really used";
    "TG.CANCEL" 4..=9 write known call tg::cancel: "policy key lease [OUTCOME succeeded|ignored|dropped] [COOLDOWN ms] [ENTITY]", "Ends a lease: the work did not start";
    "TG.RENEW" 4..=6 write known call tg::renew: "policy key lease [ttl_ms] [ENTITY]", "Moves a lease's expiry";
    "TG.ADJUST" 4..=MANY write known call tg::adjust: "policy key lease [COST n] [AMOUNT limit n]... [OVERDRAW] [ENTITY]", "Changes how much a lease has taken";
    "TG.DEBIT" 3..=MANY write known call tg::debit: "policy key [COST n] [AMOUNT limit n]... [MEMBER name] [ENTITY]", "Charges what was used already";
    "TG.PEEK" 3..=MANY read known call tg::peek: "policy key [COST n] [AMOUNT limit n]... [MEMBER name] [ENTITY]", "What a check would answer; changes nothing";
    "TG.FORECAST" 3..=MANY read known call tg::forecast: "policy key [COST n] [AMOUNT limit n]... [MEMBER name] [ENTITY]", "How many such requests fit, and when one does";
    "TG.RESET" 3..=4 write known call tg::reset: "policy key [ENTITY]", "Forgets a key";
    "TG.KEYS" 2..=MANY connection known call tg::keys: "policy [KEY key|PREFIX text] [CURSOR c] [COUNT n]", "The keys in use, and where they stand";
    "TG.LEASES" 2..=MANY connection known call tg::leases: "policy [KEY key|PREFIX text] [CURSOR c] [COUNT n]", "The leases that are held";
    "TG.USAGE" 2..=MANY connection known call tg::usage: "policy [KEY key|PREFIX text|ENTITY id] [SINCE us] [UNTIL us] [BY HOUR|DAY|MONTH] [CURSOR c] [COUNT n]", "What was used, by hour, day or month";
    "TG.REVOKE" 4..=5 write known call tg::revoke: "policy key handle [ENTITY]", "Ends the lease of a handle";
    "TG.OVERRIDE" 2..=MANY connection known call tg::override_: "SET|SHOW|REMOVE|LIST [POLICY name] [KEY key] [IFVERSION n] [REASON text] [EXPIRES ms] [LIMIT name field value...]... [CURSOR c] [COUNT n]", "Limits in place of what the policies say";
    "TG.ENTITY" 2..=MANY connection known call tg::entity: "CREATE|SHOW|CHANGE|DELETE|LIST|CHILDREN [id] [PARENT id] [NAME text] [META word text]... [NOMETA] [CHARGEPARENTS yes|no] [IFVERSION n] [REASON text] [CURSOR c] [COUNT n]", "Creates, shows, changes, deletes and lists entities";
    "TG.NAMESPACE" 2..=MANY connection known call tg::namespace: "CREATE|SHOW|DELETE|RESTORE|PURGE|LIST [name] [REASON text] [CURSOR c] [COUNT n]", "Parts of the store that share nothing";
    "TG.USE" 2..=2 connection known now tg::use_: "namespace", "Answers what follows in a namespace";
    "TG.AUDIT" 1..=MANY connection known call tg::audit: "[POLICY name] [KEY key] [ENTITY id] [SINCE us] [UNTIL us] [CURSOR c] [COUNT n]", "What was changed, and by whom";
    "TG.POLICIES" 1..=1 connection known call tg::policies: "", "The policies with their limits";
    "PING" 1..=2 connection known now small::ping: "[message]", "Answers";
    "ECHO" 2..=2 connection known now small::echo: "message", "Answers the message";
    "HELLO" 1..=MANY connection anyone now greeting::hello: "[2|3 [AUTH user token] [SETNAME name]]", "Chooses the protocol";
    "AUTH" 2..=3 connection anyone now greeting::auth: "[user] token", "Authenticates";
    "CLIENT" 2..=MANY connection known now client::client: "ID|INFO|GETNAME|SETNAME name|SETINFO attribute value|NO-EVICT|NO-TOUCH|LIST", "What a client says about itself";
    "COMMAND" 1..=MANY connection known describe: "[COUNT|LIST|INFO [name...]|DOCS [name...]]", "Describes the commands";
    "SELECT" 2..=2 connection known now small::select: "0", "There is one database";
    "INFO" 1..=MANY connection known later info::info: "[section...]", "About the server";
    "QUIT" 1..=MANY connection anyone now small::quit: "", "Ends the conversation";
    "RESET" 1..=1 connection anyone now small::reset: "", "Begins the conversation anew";
};

/// The command called `name`, in capitals or not.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut commands = COMMANDS.iter();
    commands.find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/reference/resp.md");

    #[test]
    fn every_command_is_in_the_manual() {
        for command in COMMANDS {
            let named = [format!("`{}`", command.name), format!("`{} ", command.name)];
            let found = named.iter().any(|name| MANUAL.contains(name));
            assert!(found, "{}", command.name);
        }
    }

    #[test]
    fn a_command_is_found_however_it_is_written() {
        for name in ["CL.THROTTLE", "cl.throttle", "Cl.Throttle"] {
            assert_eq!(find(name.as_bytes()).unwrap().name, "CL.THROTTLE");
        }
        assert!(find(b"CL.THROTTL").is_none() && find(b"").is_none());
    }
}
