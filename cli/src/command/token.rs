//! `tidegate token`: a token, and what to write into the server's file for it.

use std::fmt::Write as _;
use std::io::{self, Write};

use rand::Rng;
use tidegate_service::{Credential, Scope};

use crate::args::Token;
use crate::trouble::{Outcome, Trouble};

/// Prints the token and its entry.
pub fn token(args: &Token) -> Outcome<()> {
    for scope in &args.scopes {
        if Scope::named(scope).is_none() {
            let known = Scope::ALL.map(Scope::name).join(", ");
            return Err(Trouble::usage(format!(
                "there is no scope `{scope}`; there is {known}"
            )));
        }
    }
    let mut bits = [0; 32];
    rand::rng().fill_bytes(&mut bits);
    let token = format!("tg_{}", hex(&bits));
    let entry = entry(args, &token);
    writeln!(
        io::stdout().lock(),
        "# The token, shown this once. Keep it where its user finds it:\n#   {token}\n\n{entry}"
    )
    .map_err(Trouble::failure)
}

fn entry(args: &Token, token: &str) -> String {
    let list = |words: &[String]| {
        let quoted = words.iter().map(|word| format!("{word:?}"));
        quoted.collect::<Vec<_>>().join(", ")
    };
    let mut entry = format!(
        "[[token]]\nname = {:?}\nsha256 = \"{}\"\nscopes = [{}]",
        args.name,
        hex(&Credential::hash(token)),
        list(&args.scopes)
    );
    if !args.policies.is_empty() {
        let _ = write!(entry, "\npolicies = [{}]", list(&args.policies));
    }
    entry
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use tidegate_policy::parse_config;

    use super::entry;
    use crate::args::Token;

    #[test]
    fn what_is_printed_lets_the_token_in() {
        let args = Token {
            name: "ci \"1\"".into(),
            scopes: vec!["decide".into()],
            policies: vec!["chat".into()],
        };
        let policy = "[policy.chat.limits]\nrpm = { calls = 1, per = '1s' }\n";
        let text = format!("{}\n{policy}", entry(&args, "tg_secret"));
        let config = parse_config("t", &text).unwrap_or_else(|e| panic!("{e}"));
        let service = tidegate_service::Service::builder().credentials(config.credentials);
        let service = service.build(&config.policies).unwrap();
        assert_eq!(service.enter(Some("tg_secret")).unwrap().name(), "ci \"1\"");
        assert!(service.enter(Some("tg_other")).is_err());
    }
}
