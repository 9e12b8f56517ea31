//! Two servers, of which the other is told what is set at one.

use std::time::Duration;

use crate::questions::common::{expect, until};
use crate::talk::{Answer, Call, Client, Protocol, Verb, Word};

/// Something that is set, and how the other server shows it.
pub(super) struct Setting {
    pub(super) case: &'static str,
    pub(super) verb: Verb,
    pub(super) tell: fn(&mut Both<'_>) -> Result<(), String>,
}

pub(super) const fn row(
    case: &'static str,
    verb: Verb,
    tell: fn(&mut Both<'_>) -> Result<(), String>,
) -> Setting {
    Setting { case, verb, tell }
}

/// Both servers, and the key of one cell.
pub(super) struct Both<'a> {
    pub(super) one: Box<dyn Client>,
    pub(super) other: Box<dyn Client>,
    pub(super) protocol: &'a Protocol,
    pub(super) key: String,
    pub(super) within: Duration,
    /// Whether the store can remove what a namespace has.
    pub(super) purges: bool,
}

impl Both<'_> {
    pub(super) fn set(&mut self, units: u64) -> Result<(), String> {
        let call = Call::of(Verb::SetOverride, "told", &self.key);
        self.done(&call.amount("units", units).measured("rate", "400d"))
    }

    pub(super) fn done(&mut self, call: &Call) -> Result<(), String> {
        let answer = self.one.ask(call)?;
        expect(answer.word == Word::Done, || {
            format!("{:?}: {answer:?}", call.verb)
        })
    }

    /// Asks the other server, until it says so.
    pub(super) fn until_other(
        &mut self,
        what: &str,
        call: &Call,
        so: impl Fn(&Answer) -> bool,
    ) -> Result<(), String> {
        at_last(&mut *self.other, what, self.within, call, so)
    }

    /// The other server's answer has this word.
    pub(super) fn other_says(&mut self, word: &Word, call: &Call) -> Result<Answer, String> {
        let answer = self.other.ask(call)?;
        expect(answer.word == *word, || {
            format!("{:?}: {answer:?}", call.verb)
        })?;
        Ok(answer)
    }

    /// Until the other server goes by so many units.
    pub(super) fn shown(&mut self, units: u64) -> Result<(), String> {
        let (key, other) = (&self.key, &mut self.other);
        until(&format!("{units} at the other server"), self.within, || {
            limit_is(&mut **other, key, units)
        })
    }
}

pub(super) fn limit_is(client: &mut dyn Client, key: &str, units: u64) -> Result<bool, String> {
    let peeked = client.ask(&Call::of(Verb::Peek, "told", key).amount("units", 1))?;
    Ok(peeked.number("units.limit") == Some(units))
}

fn at_last(
    client: &mut dyn Client,
    what: &str,
    within: Duration,
    call: &Call,
    so: impl Fn(&Answer) -> bool,
) -> Result<(), String> {
    let mut last = Answer::default();
    let done = until(what, within, || {
        last = client.ask_all(call)?;
        Ok(so(&last))
    });
    done.map_err(|why| format!("{why}: {last:?}"))
}
