//! What is set at one server holds at the other.

use std::time::Duration;

use super::common::{Work, at_once, expect, until};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Call, Client, PROTOCOLS, Protocol, Verb, Word};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "told",
    holds: "What is set at one server holds at the other within a second (Redis, PostgreSQL) or\n\
            five (MariaDB, DynamoDB): overrides, cool-downs, applied policies.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// How much later a busy machine may tell it.
const SLACK: Duration = Duration::from_secs(4);

/// Something that is set, and how the other server shows it.
struct Setting {
    case: &'static str,
    verb: Verb,
    tell: fn(&mut Both<'_>) -> Result<(), String>,
}

const fn row(
    case: &'static str,
    verb: Verb,
    tell: fn(&mut Both<'_>) -> Result<(), String>,
) -> Setting {
    Setting { case, verb, tell }
}

const SETTINGS: &[Setting] = &[
    row("override set", Verb::SetOverride, |both| {
        both.set(5)?;
        both.shown(5)
    }),
    row("override replaced", Verb::SetOverride, |both| {
        both.set(5)?;
        both.set(40)?;
        both.shown(40)
    }),
    row("override removed", Verb::RemoveOverride, |both| {
        both.set(5)?;
        both.shown(5)?;
        let removed = Call::of(Verb::RemoveOverride, "told", &both.key);
        both.done(&removed)?;
        both.shown(10)
    }),
    row(
        "override removed at the other",
        Verb::RemoveOverride,
        |both| {
            both.set(5)?;
            let (key, within) = (both.key.clone(), both.within);
            let other = &mut both.other;
            until("the other server removes it", within, || {
                let removed = other.ask(&Call::of(Verb::RemoveOverride, "told", &key))?;
                Ok(removed.word == Word::Done)
            })?;
            let one = &mut both.one;
            until("it is gone at the first", within, || {
                limit_is(&mut **one, &key, 10)
            })
        },
    ),
    row("overrides listed", Verb::ListOverrides, |both| {
        both.set(5)?;
        let (key, within) = (both.key.clone(), both.within);
        let other = &mut both.other;
        until("the other server lists it", within, || {
            let listed = other.ask(&Call::of(Verb::ListOverrides, "told", &key))?;
            Ok(listed.number(&format!("told {key} units.rate")) == Some(5))
        })
    }),
    row("cool-down", Verb::Release, |both| {
        let pool = format!("cools {}", both.protocol.name);
        let lease = both
            .one
            .ask(&Call::of(Verb::Acquire, &pool, "k").wait(20_000))?;
        let id = lease
            .lease
            .clone()
            .ok_or_else(|| format!("no lease: {lease:?}"))?;
        let mut release = Call::of(Verb::Release, &pool, "k").lease(&id);
        release.cool_down = Some(3_600_000);
        both.done(&release)?;
        let (within, other) = (both.within, &mut both.other);
        until("the other server passes the member over", within, || {
            let lease = other.ask(&Call::of(Verb::Acquire, &pool, "k").wait(20_000))?;
            let id = lease
                .lease
                .clone()
                .ok_or_else(|| format!("no lease: {lease:?}"))?;
            other.ask(&Call::of(Verb::Cancel, &pool, "k").lease(&id))?;
            Ok(lease
                .facts
                .get("member")
                .is_some_and(|member| member == "us"))
        })
    }),
    row("policies applied", Verb::Apply, |both| {
        let mut apply = Call::of(Verb::Apply, "", "");
        apply.text = policies(30);
        both.done(&apply)?;
        let (within, other) = (both.within, &mut both.other);
        until("the other server has the new limits", within, || {
            let peeked = other.ask(&Call::of(Verb::Peek, "applied", "k"))?;
            Ok(peeked.number("calls.limit") == Some(30))
        })
    }),
];

fn policies(applied: u64) -> String {
    let mut text = format!(
        "[policy.told.limits]\nunits = {{ rate = 10, per = '400d' }}\n\
         [policy.applied.limits]\ncalls = {{ calls = {applied}, per = '400d' }}\n"
    );
    for protocol in PROTOCOLS {
        let pool = format!("policy.'cools {}'", protocol.name);
        text += &format!("[{pool}]\nbalancer = 'first_available'\n");
        for member in ["eu", "us"] {
            text += &format!(
                "[{pool}.member.{member}.limits]\nrunning = {{ concurrency = 2, ttl = '1h' }}\n"
            );
        }
    }
    text
}

/// Both servers, and the key of one cell.
struct Both<'a> {
    one: Box<dyn Client>,
    other: Box<dyn Client>,
    protocol: &'a Protocol,
    key: String,
    within: Duration,
}

impl Both<'_> {
    fn set(&mut self, units: u64) -> Result<(), String> {
        let call = Call::of(Verb::SetOverride, "told", &self.key);
        self.done(&call.amount("units", units).measured("rate", "400d"))
    }

    fn done(&mut self, call: &Call) -> Result<(), String> {
        let answer = self.one.ask(call)?;
        expect(answer.word == Word::Done, || {
            format!("{:?}: {answer:?}", call.verb)
        })
    }

    /// Until the other server goes by so many units.
    fn shown(&mut self, units: u64) -> Result<(), String> {
        let (key, other) = (&self.key, &mut self.other);
        until(&format!("{units} at the other server"), self.within, || {
            limit_is(&mut **other, key, units)
        })
    }
}

fn limit_is(client: &mut dyn Client, key: &str, units: u64) -> Result<bool, String> {
    let peeked = client.ask(&Call::of(Verb::Peek, "told", key).amount("units", 1))?;
    Ok(peeked.number("units.limit") == Some(units))
}

fn has(protocol: &Protocol, setting: &Setting) -> bool {
    protocol.has(setting.verb)
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        let settings = SETTINGS.iter().filter(|setting| has(protocol, setting));
        settings.map(|setting| Row {
            protocol: protocol.name,
            case: setting.case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("told", &policies(10), PATIENT)?;
    let within = house.store.told_within + SLACK;
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for setting in SETTINGS.iter().filter(|setting| has(protocol, setting)) {
            let pair = &pair;
            let does = move || is_told(pair, protocol, setting, within);
            work.push((protocol.name, setting.case, Box::new(does)));
        }
    }
    at_once(report, work.len(), work);
    Ok(())
}

fn is_told(
    pair: &Pair,
    protocol: &Protocol,
    setting: &Setting,
    within: Duration,
) -> Result<(), String> {
    let mut both = Both {
        one: pair.enter(protocol, 0)?,
        other: pair.enter(protocol, 1)?,
        protocol,
        key: format!("{} {}", protocol.name, setting.case),
        within,
    };
    (setting.tell)(&mut both)
}
