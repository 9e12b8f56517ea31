//! A call, and its answer, as no protocol writes them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Nothing takes so long, on however busy a machine, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What can be asked. A protocol without it says so ([`Protocol::speaks`](super::Protocol::speaks)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[expect(
    missing_docs,
    reason = "docs/server.md and docs/reference/resp.md have the verbs"
)]
pub enum Verb {
    #[default]
    Check,
    CheckMany,
    CheckStream,
    Auth,
    Throttle,
    Acquire,
    Grant,
    Return,
    Settle,
    Release,
    Cancel,
    Renew,
    Adjust,
    Debit,
    Peek,
    Forecast,
    Reset,
    Keys,
    Capacity,
    Leases,
    Revoke,
    Denied,
    SetOverride,
    GetOverride,
    RemoveOverride,
    ListOverrides,
    CreateEntity,
    ShowEntity,
    ChangeEntity,
    DeleteEntity,
    ListEntities,
    ListChildren,
    Usage,
    Audit,
    CreateNamespace,
    ShowNamespace,
    DeleteNamespace,
    RestoreNamespace,
    PurgeNamespace,
    ListNamespaces,
    Policies,
    Policy,
    Apply,
    Info,
    Health,
    Ready,
    Metrics,
}

/// What is asked: the fields that a verb does not know stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// What for.
    pub verb: Verb,
    /// The policy's name.
    pub policy: String,
    /// The key; of an entity, its id; of a namespace, its name.
    pub key: String,
    /// Whether the key is the id of an entity that is asked.
    pub is_entity: bool,
    /// To whom an entity is to belong.
    pub parent: Option<String>,
    /// The metadata of an entity.
    pub words: Vec<(String, String)>,
    /// Whether an entity's ancestors are asked and charged, where that is said.
    pub charge_parents: Option<bool>,
    /// Which version of an entity has to be there.
    pub version: Option<u64>,
    /// Amounts by limit: of a settlement, what was used; of an override, what the limits
    /// become.
    pub amounts: Vec<(String, u64)>,
    /// How much of every rate that is not named.
    pub cost: Option<u64>,
    /// How long to wait, in milliseconds.
    pub wait: Option<u64>,
    /// Whether it waits where its rates cannot admit it in time.
    pub for_refunds: bool,
    /// How long the lease lasts, or a grant is held, in milliseconds.
    pub ttl: Option<u64>,
    /// The idempotency key.
    pub name: Option<String>,
    /// The lease that is meant; of a revocation, its handle.
    pub lease: String,
    /// The member of a pool that is meant.
    pub member: Option<String>,
    /// For how long the member of a pool is passed over, in milliseconds.
    pub cool_down: Option<u64>,
    /// Where a listing goes on.
    pub cursor: Option<Vec<u8>>,
    /// The calls of a batch.
    pub each: Vec<Self>,
    /// A file of policies.
    pub text: String,
    /// The word and the time of an override's limits: `rate`, `400d`.
    pub measure: Option<(&'static str, &'static str)>,
    /// Whether an override's limits are of this key alone.
    pub is_added: bool,
    /// Whether what a lease is to have taken was used already, and becomes debt.
    pub overdraw: bool,
    /// In which namespace it is asked.
    pub namespace: Option<String>,
    /// Whether a refusal's reason is compared, too.
    pub asks_why: bool,
}

impl Call {
    /// `verb` about `key` of `policy`.
    #[must_use]
    pub fn of(verb: Verb, policy: &str, key: &str) -> Self {
        Self {
            verb,
            policy: policy.to_owned(),
            key: key.to_owned(),
            ..Self::default()
        }
    }

    /// About an entity, by its id.
    #[must_use]
    pub fn entity(verb: Verb, id: &str) -> Self {
        Self::of(verb, "", id)
    }

    /// Its key is the id of an entity.
    #[must_use]
    pub fn by_id(mut self) -> Self {
        self.is_entity = true;
        self
    }

    /// Of an entity that belongs to this one.
    #[must_use]
    pub fn below(mut self, parent: &str) -> Self {
        self.parent = Some(parent.to_owned());
        self
    }

    /// Of an entity whose ancestors are charged, or not.
    #[must_use]
    pub fn charging_parents(mut self, charge: bool) -> Self {
        self.charge_parents = Some(charge);
        self
    }

    /// With a word of metadata.
    #[must_use]
    pub fn word(mut self, word: &str, says: &str) -> Self {
        self.words.push((word.to_owned(), says.to_owned()));
        self
    }

    /// If this version is there.
    #[must_use]
    pub fn on_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// With so much of a limit.
    #[must_use]
    pub fn amount(mut self, limit: &str, amount: u64) -> Self {
        self.amounts.push((limit.to_owned(), amount));
        self
    }

    /// With so much of every rate that is not named.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// About this lease.
    #[must_use]
    pub fn lease(mut self, lease: &str) -> Self {
        lease.clone_into(&mut self.lease);
        self
    }

    /// Waits so many milliseconds.
    #[must_use]
    pub fn wait(mut self, milliseconds: u64) -> Self {
        self.wait = Some(milliseconds);
        self
    }

    /// Waits also where its rates cannot admit it in time.
    #[must_use]
    pub fn for_refunds(mut self) -> Self {
        self.for_refunds = true;
        self
    }

    /// With an idempotency key.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// About a member of a pool.
    #[must_use]
    pub fn member(mut self, member: &str) -> Self {
        self.member = Some(member.to_owned());
        self
    }

    /// Limits as `word` counts them: `rate`, per `400d`.
    #[must_use]
    pub fn measured(mut self, word: &'static str, per: &'static str) -> Self {
        self.measure = Some((word, per));
        self
    }

    /// Limits that only this key has.
    #[must_use]
    pub fn added(mut self) -> Self {
        self.is_added = true;
        self
    }

    /// It was used already.
    #[must_use]
    pub fn into_debt(mut self) -> Self {
        self.overdraw = true;
        self
    }

    /// Asked in this namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Why not is a part of the answer.
    #[must_use]
    pub fn why(mut self) -> Self {
        self.asks_why = true;
        self
    }
}

/// The word of an answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Word {
    /// It may start.
    Admitted,
    /// Not now.
    Refused,
    /// Not ever.
    Never,
    /// What was asked is done, or told.
    #[default]
    Done,
    /// Too much at once.
    Busy,
    /// The store cannot tell.
    Unavailable,
    /// There is no such lease, or it has ended; no such entity or namespace, or it is in use, or
    /// deleted.
    Gone,
    /// Another version is there.
    Conflict,
    /// The request makes no sense.
    Invalid,
    /// Something else, in the protocol's own words.
    Other(String),
}

/// An answer, in words that are the same in every protocol, for the same state.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Yes, no, or why neither.
    pub word: Word,
    /// What can be compared: `units.remaining`: `4`.
    pub facts: BTreeMap<String, String>,
    /// What a listing tells in its order, a line each: audit events.
    pub items: Vec<String>,
    /// Where the next page of a listing begins, unless this is the last.
    pub next: Option<Vec<u8>>,
    /// The lease's id; the handle of the first lease of a listing.
    pub lease: Option<String>,
    /// When that lease was granted, in the protocol's own form.
    pub granted_at: Option<String>,
    /// What was said, for people.
    pub detail: String,
}

impl Answer {
    /// An answer without facts.
    #[must_use]
    pub fn new(word: Word) -> Self {
        Self {
            word,
            ..Self::default()
        }
    }

    /// One more fact.
    pub fn fact(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.insert(name.into(), value.to_string());
    }

    /// Admitted or refused.
    #[must_use]
    pub fn decided(admitted: bool) -> Self {
        Self::new(if admitted {
            Word::Admitted
        } else {
            Word::Refused
        })
    }

    /// What is told of an entity: of whom it is, and its metadata, word by word.
    pub(super) fn entity<'a>(
        &mut self,
        id: &str,
        parent: Option<&str>,
        metadata: impl Iterator<Item = (&'a str, &'a str)>,
        charge_parents: bool,
    ) {
        self.fact(format!("entity {id} of"), parent.unwrap_or("nobody"));
        self.fact(format!("entity {id} charges parents"), charge_parents);
        for (word, says) in metadata {
            self.fact(format!("entity {id} {word}"), says);
        }
    }

    /// So much more was used of a key's limit, in one hour or another.
    pub(super) fn used(&mut self, key: &str, limit: &str, amount: u64) {
        let name = used_of(key, limit);
        let before = self.number(&name).unwrap_or(0);
        self.fact(name, before + amount);
    }

    /// What the next page says is said, too.
    fn add(&mut self, page: Self) {
        for (name, value) in page.facts {
            let used = value.parse::<u64>().ok();
            match used.filter(|_| name.starts_with(USED)) {
                Some(more) => {
                    let before = self.number(&name).unwrap_or(0);
                    self.fact(name, before + more);
                }
                None => self.fact(name, value),
            }
        }
        self.items.extend(page.items);
        self.next = page.next;
    }

    /// Why not, for a call that asks for it.
    pub(super) fn explain(&mut self, call: &Call, why: &str) {
        if call.asks_why && matches!(self.word, Word::Gone | Word::Invalid | Word::Conflict) {
            self.fact("why", why);
        }
    }

    /// A fact as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.facts.get(name)?.parse().ok()
    }

    /// Whether it says yes.
    #[must_use]
    pub fn admitted(&self) -> bool {
        self.word == Word::Admitted
    }

    /// Whether the store could tell.
    #[must_use]
    pub fn told(&self) -> bool {
        !matches!(self.word, Word::Unavailable | Word::Other(_) | Word::Busy)
    }
}

/// What the fact is called that says how much was used of a key's limit.
#[must_use]
pub fn used_of(key: &str, limit: &str) -> String {
    format!("{USED}{key} {limit}")
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.word)?;
        for (name, value) in &self.facts {
            write!(f, " {name}={value}")?;
        }
        for item in &self.items {
            write!(f, " [{item}]")?;
        }
        match self.detail.is_empty() || self.told() {
            true => Ok(()),
            false => write!(f, " ({})", self.detail),
        }
    }
}

/// An audit event: what was done, to which policy, key or entity and by whom, what was there
/// before and is from then on.
pub(super) fn event_line(
    action: &str,
    of: [Option<&str>; 4],
    [before, after]: [Option<Answer>; 2],
) -> String {
    let [policy, key, entity, by] = of.map(|text| text.unwrap_or("-"));
    let value = |kept: Option<Answer>| match kept {
        Some(answer) => format!("{:?}", answer.facts),
        None => "nothing".to_owned(),
    };
    let (before, after) = (value(before), value(after));
    format!("{action} of {policy} {key} {entity} by {by}: {before}, then {after}")
}

/// Someone who asks.
pub trait Client: Send {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// If none comes within the patience, or it makes no sense.
    fn ask(&mut self, call: &Call) -> Result<Answer, String>;

    /// Asks, and goes on from page to page: what all of them say.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); if there is no end.
    fn ask_all(&mut self, call: &Call) -> Result<Answer, String> {
        let mut answer = self.ask(call)?;
        for _ in 0..PAGES {
            let Some(next) = answer.next.take() else {
                return Ok(answer);
            };
            let mut call = call.clone();
            call.cursor = Some(next);
            match self.ask(&call)? {
                page if page.word == Word::Done => answer.add(page),
                failed => return Ok(failed),
            }
        }
        Err(format!("{:?}: more than {PAGES} pages", call.verb))
    }

    /// How long an answer may take from now on.
    fn patience(&mut self, longest: Duration);
}

/// Which facts are what was used.
const USED: &str = "used ";

/// So many pages are read of a listing: one may be empty, and not the last.
const PAGES: usize = 1_000;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes as HTTP and RESP write a cursor: Base64 as URLs have it, without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut number = 0_u32;
        for place in 0..3 {
            number = number << 8 | u32::from(three.get(place).copied().unwrap_or(0));
        }
        for digit in 0..=three.len() {
            let place = number >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[place as usize]));
        }
    }
    text
}

/// The bytes of a cursor that HTTP or RESP has written; `None` if it is none.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes() {
        let place = DIGITS.iter().position(|one| *one == digit)?;
        bits = bits << 6 | u32::try_from(place).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for length in 0..10_u8 {
            let bytes: Vec<_> = (0..length).map(|byte| byte.wrapping_mul(97)).collect();
            assert_eq!(from_base64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(from_base64("a+"), None);
    }

    #[test]
    fn what_two_pages_say_was_used_is_added() {
        let mut answer = Answer::default();
        answer.used("a key", "units", 3);
        let mut page = Answer::default();
        page.used("a key", "units", 4);
        page.used("another", "units", 1);
        answer.add(page);
        assert_eq!(answer.number("used a key units"), Some(7));
        assert_eq!(answer.number("used another units"), Some(1));
    }
}
