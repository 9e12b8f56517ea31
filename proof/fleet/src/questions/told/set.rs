//! Overrides, cool-downs, applied policies.

use super::both::{Setting, limit_is, row};
use super::policies::policies;
use crate::questions::common::{expect, until};
use crate::talk::{Call, Verb, Word};

pub(super) const SETTINGS: &[Setting] = &[
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
    row(
        "override set, of the key alone",
        Verb::SetOverride,
        |both| {
            let set = Call::of(Verb::SetOverride, "told", &both.key).amount("gpu", 3);
            both.done(&set.measured("calls", "400d").added())?;
            let one = |verb| Call::of(verb, "told", &both.key).amount("units", 1);
            let (peek, check) = (one(Verb::Peek), one(Verb::Check));
            both.until_other("it has the limit", &peek, |said| {
                said.number("gpu.limit") == Some(3)
            })?;
            for _ in 0..3 {
                both.other_says(&Word::Admitted, &check)?;
            }
            let refused = both.other_says(&Word::Refused, &check)?;
            let binds = refused
                .facts
                .get("binding")
                .is_some_and(|name| name == "gpu");
            expect(binds, || format!("{refused:?}"))?;
            let removed = Call::of(Verb::RemoveOverride, "told", &both.key);
            both.done(&removed)?;
            both.until_other("it has the limit no more", &peek, |said| {
                said.admitted() && said.number("gpu.limit").is_none()
            })?;
            both.other_says(&Word::Admitted, &check).map(drop)
        },
    ),
];
