//! Verbs of policies, keys and leases, and what a server tells of itself.

use super::talk::{Scenario, Talk, at_one, row};
use crate::talk::{Call, Verb};

pub(super) const SCENARIOS: &[Scenario] = &[
    row("check", Verb::Check, |talk| {
        talk.often(12, |key| Call::of(Verb::Check, "calls", key))?;
        talk.often(8, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 3)
        })?;
        talk.say(Call::of(Verb::Check, "plain", &talk.key).amount("units", 11))?;
        Ok(())
    }),
    row("check, every algorithm", Verb::Check, |talk| {
        talk.often(10, |key| Call::of(Verb::Check, "every", key))
    }),
    row("check, keys with levels", Verb::Check, |talk| {
        talk.often(5, |key| {
            Call::of(Verb::Check, "deep", &format!("{key}/ann"))
        })?;
        talk.often(5, |key| {
            Call::of(Verb::Check, "deep", &format!("{key}/bob"))
        })
    }),
    row("check-many", Verb::CheckMany, |talk| {
        talk.batches(Verb::CheckMany)
    }),
    row("check-stream", Verb::CheckStream, |talk| {
        talk.batches(Verb::CheckStream)
    }),
    row("auth", Verb::Auth, |talk| {
        talk.often(12, |key| Call::of(Verb::Auth, "calls", key))
    }),
    row("throttle", Verb::Throttle, |talk| {
        talk.often(12, |key| Call::of(Verb::Throttle, "", key))
    }),
    row("acquire", Verb::Acquire, |talk| {
        talk.often(5, |key| Call::of(Verb::Acquire, "slots", key))?;
        talk.often(5, |key| {
            Call::of(Verb::Acquire, "job", key).amount("tokens", 20)
        })
    }),
    row("acquire, waits", Verb::Acquire, |talk| {
        talk.often(3, |key| Call::of(Verb::Acquire, "slots", key).wait(20_000))?;
        talk.often(1, |key| Call::of(Verb::Acquire, "slots", key).wait(20))
    }),
    row("acquire, waits in vain", Verb::Acquire, |talk| {
        talk.often(1, |key| {
            Call::of(Verb::Acquire, "job", key).amount("tokens", 90)
        })?;
        let waits = |key: &str, wait| {
            let acquire = Call::of(Verb::Acquire, "job", key).amount("tokens", 20);
            acquire.wait(wait)
        };
        // Refused at once: a server would hold it for four minutes.
        talk.often(1, |key| waits(key, 240_000))?;
        talk.often(1, |key| waits(key, 20).for_refunds())
    }),
    row("acquire, of a pool", Verb::Acquire, |talk| {
        talk.often(4, |key| Call::of(Verb::Acquire, "pool", key))
    }),
    row("grant", Verb::Grant, |talk| {
        let grant = |policy, amounts: &[(&str, u64)]| {
            let grant = Call::of(Verb::Grant, policy, &talk.key);
            let grant = amounts
                .iter()
                .fold(grant, |grant, (name, amount)| grant.amount(name, *amount));
            held(grant)
        };
        let calls = [
            grant("plain", &[("units", 6)]),
            // Of four.
            grant("plain", &[("units", 6)]),
            grant("plain", &[("units", 6)]),
            grant("every", &[("bucket", 3), ("window", 9), ("log", 0)]),
            grant("calls", &[]),
            grant("calls", &[("calls", 20)]),
            // It holds slots.
            grant("job", &[("tokens", 5)]),
            grant("pool", &[]),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))?;
        talk.peek_of("plain", "units")
    }),
    row("return", Verb::Return, |talk| {
        let wish = |talk: &Talk<'_>, units| {
            held(Call::of(Verb::Grant, "plain", &talk.key).amount("units", units))
        };
        let back = |talk: &Talk<'_>, lease: &str, units| {
            let back = Call::of(Verb::Return, "plain", &talk.key).lease(lease);
            back.amount("units", units)
        };
        let lease = talk.lease(wish(talk, 6))?;
        talk.say(back(talk, &lease, 2))?;
        talk.say(back(talk, &lease, 5))?;
        talk.peek_of("plain", "units")?;
        let lease = talk.lease(wish(talk, 8))?;
        talk.say(Call::of(Verb::Return, "plain", &talk.key).lease(&lease))?;
        talk.peek_of("plain", "units")?;
        // More than was granted.
        let lease = talk.lease(wish(talk, 4))?;
        talk.say(back(talk, &lease, 10))?;
        talk.peek_of("plain", "units")?;
        talk.say(back(talk, "0123456789abcdef0123456789abcdef", 1))
            .map(drop)
    }),
    row("settle", Verb::Settle, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "job", &talk.key).amount("tokens", 20))?;
        let settle = Call::of(Verb::Settle, "job", &talk.key)
            .lease(&lease)
            .amount("tokens", 5);
        talk.say(settle.clone())?;
        talk.say(settle)?;
        talk.peek("job")?;
        let lease = talk.lease(Call::of(Verb::Acquire, "job", &talk.key).amount("tokens", 20))?;
        talk.say(
            Call::of(Verb::Settle, "job", &talk.key)
                .lease(&lease)
                .amount("tokens", 60),
        )?;
        talk.peek("job")
    }),
    row("settle, by a cost", Verb::Settle, |talk| {
        let both = |verb| Call::of(verb, "both", &talk.key);
        let (acquire, settle) = (both(Verb::Acquire).cost(20), both(Verb::Settle).cost(60));
        let lease = talk.lease(acquire.clone())?;
        talk.say(settle.clone().lease(&lease))?;
        let lease = talk.lease(acquire)?;
        let settle = settle.amount("output", 5).lease(&lease);
        talk.say(settle.clone())?;
        talk.say(settle)?;
        talk.peek_of("both", "input")
    }),
    row("release", Verb::Release, |talk| talk.ends(Verb::Release)),
    row("cancel", Verb::Cancel, |talk| talk.ends(Verb::Cancel)),
    row("release, of a pool", Verb::Release, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "pool", &talk.key))?;
        talk.say(Call::of(Verb::Release, "pool", &talk.key).lease(&lease))?;
        talk.say(Call::of(Verb::Release, "pool", &talk.key).lease(&lease))?;
        talk.lease(Call::of(Verb::Acquire, "pool", &talk.key))
            .map(drop)
    }),
    row("renew", Verb::Renew, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "slots", &talk.key))?;
        let mut renew = Call::of(Verb::Renew, "slots", &talk.key).lease(&lease);
        renew.ttl = Some(60_000);
        talk.say(renew.clone())?;
        talk.say(renew.clone())?;
        talk.say(Call::of(Verb::Release, "slots", &talk.key).lease(&lease))?;
        talk.say(renew)?;
        Ok(())
    }),
    row("adjust", Verb::Adjust, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "job", &talk.key).amount("tokens", 20))?;
        for (tokens, running) in [(60, 2), (60, 2), (101, 2), (70, 4), (90, 3), (10, 1)] {
            talk.say(
                Call::of(Verb::Adjust, "job", &talk.key)
                    .lease(&lease)
                    .amount("tokens", tokens)
                    .amount("running", running),
            )?;
        }
        talk.peek("job")?;
        talk.say(
            Call::of(Verb::Settle, "job", &talk.key)
                .lease(&lease)
                .amount("tokens", 40),
        )?;
        talk.peek("job")?;
        talk.say(
            Call::of(Verb::Adjust, "job", &talk.key)
                .lease(&lease)
                .amount("tokens", 50),
        )?;
        Ok(())
    }),
    row("adjust, by a cost", Verb::Adjust, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "both", &talk.key).cost(20))?;
        for cost in [60, 60, 101, 70, 10] {
            let adjust = Call::of(Verb::Adjust, "both", &talk.key).lease(&lease);
            talk.say(adjust.clone().cost(cost))?;
            talk.say(adjust.cost(cost).amount("input", 30))?;
        }
        talk.peek_of("both", "output")
    }),
    row("debit", Verb::Debit, |talk| {
        talk.often(4, |key| {
            Call::of(Verb::Debit, "plain", key).amount("units", 4)
        })?;
        talk.peek_of("plain", "units")
    }),
    row("peek", Verb::Peek, |talk| {
        talk.peek_of("plain", "units")?;
        talk.often(4, |key| Call::of(Verb::Check, "calls", key))?;
        talk.often(3, |key| Call::of(Verb::Peek, "calls", key))?;
        talk.often(2, |key| Call::of(Verb::Peek, "every", key))?;
        talk.often(2, |key| Call::of(Verb::Peek, "pool", key).member("us"))
    }),
    row("forecast", Verb::Forecast, |talk| {
        talk.often(3, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 1)
        })?;
        talk.often(2, |key| {
            Call::of(Verb::Forecast, "plain", key).amount("units", 2)
        })?;
        talk.often(2, |key| Call::of(Verb::Forecast, "every", key))
    }),
    row("reset", Verb::Reset, |talk| {
        talk.often(11, |key| Call::of(Verb::Check, "calls", key))?;
        talk.say(Call::of(Verb::Reset, "calls", &talk.key))?;
        talk.often(2, |key| Call::of(Verb::Check, "calls", key))
    }),
    row("keys", Verb::Keys, |talk| {
        talk.often(3, |key| Call::of(Verb::Check, "calls", key))?;
        talk.often(2, |key| Call::of(Verb::Keys, "calls", key))
    }),
    row("capacity", Verb::Capacity, |talk| {
        talk.often(3, |key| Call::of(Verb::Check, "calls", key))?;
        talk.often(2, |key| Call::of(Verb::Capacity, "calls", key))
    }),
    row("leases", Verb::Leases, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "job", &talk.key).amount("tokens", 7))?;
        talk.often(2, |key| Call::of(Verb::Leases, "job", key))?;
        talk.say(Call::of(Verb::Release, "job", &talk.key).lease(&lease))?;
        talk.often(2, |key| Call::of(Verb::Leases, "job", key))
    }),
    row("revoke", Verb::Revoke, |talk| {
        let lease = talk.lease(Call::of(Verb::Acquire, "slots", &talk.key))?;
        let handle = talk.lease(Call::of(Verb::Leases, "slots", &talk.key))?;
        talk.say(Call::of(Verb::Revoke, "slots", &talk.key).lease(&handle))?;
        let mut renew = Call::of(Verb::Renew, "slots", &talk.key).lease(&lease);
        renew.ttl = Some(60_000);
        talk.say(renew)?;
        talk.often(3, |key| Call::of(Verb::Acquire, "slots", key).wait(20_000))?;
        talk.often(1, |key| Call::of(Verb::Acquire, "slots", key).wait(20))
    }),
    at_one("override set", Verb::SetOverride, |talk| {
        talk.often(3, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 1)
        })?;
        talk.say(
            Call::of(Verb::SetOverride, "plain", &talk.key)
                .amount("units", 5)
                .measured("rate", "400d"),
        )?;
        talk.often(4, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 1)
        })
    }),
    at_one(
        "override set, of the key alone",
        Verb::SetOverride,
        |talk| {
            let one = |talk: &Talk<'_>| Call::of(Verb::Check, "own", &talk.key).amount("units", 1);
            talk.say(one(talk))?;
            let set = Call::of(Verb::SetOverride, "own", &talk.key).amount("gpu", 3);
            talk.say(set.measured("calls", "400d").added())?;
            (0..4).try_for_each(|_| talk.say(one(talk)).map(drop))?;
            talk.peek_of("own", "units")?;

            talk.say(Call::of(Verb::RemoveOverride, "own", &talk.key))?;
            talk.say(one(talk))?;
            talk.peek_of("own", "units")
        },
    ),
    at_one("override shown", Verb::GetOverride, |talk| {
        talk.say(Call::of(Verb::GetOverride, "plain", &talk.key))?;
        talk.say(
            Call::of(Verb::SetOverride, "plain", &talk.key)
                .amount("units", 5)
                .measured("rate", "400d"),
        )?;
        talk.say(Call::of(Verb::GetOverride, "plain", &talk.key))?;
        Ok(())
    }),
    at_one("override removed", Verb::RemoveOverride, |talk| {
        talk.say(Call::of(Verb::RemoveOverride, "plain", &talk.key))?;
        talk.say(
            Call::of(Verb::SetOverride, "plain", &talk.key)
                .amount("units", 2)
                .measured("rate", "400d"),
        )?;
        talk.often(3, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 1)
        })?;
        talk.say(Call::of(Verb::RemoveOverride, "plain", &talk.key))?;
        talk.often(10, |key| {
            Call::of(Verb::Check, "plain", key).amount("units", 1)
        })
    }),
    at_one("overrides listed", Verb::ListOverrides, |talk| {
        talk.say(Call::of(Verb::ListOverrides, "slots", &talk.key))?;
        talk.say(
            Call::of(Verb::SetOverride, "slots", &talk.key)
                .amount("running", 5)
                .measured("concurrency", ""),
        )?;
        talk.say(Call::of(Verb::ListOverrides, "slots", &talk.key))?;
        Ok(())
    }),
    row("policies", Verb::Policies, |talk| {
        talk.often(2, |key| Call::of(Verb::Policies, "", key))
    }),
    row("policy", Verb::Policy, |talk| {
        talk.runs(Call::of(Verb::Policy, "calls", ""))
    }),
    row("denied", Verb::Denied, |talk| {
        talk.runs(Call::of(Verb::Denied, "calls", ""))
    }),
    row("info", Verb::Info, |talk| {
        talk.runs(Call::of(Verb::Info, "", ""))
    }),
    row("health", Verb::Health, |talk| {
        talk.runs(Call::of(Verb::Health, "", ""))
    }),
    row("ready", Verb::Ready, |talk| {
        talk.runs(Call::of(Verb::Ready, "", ""))
    }),
    row("metrics", Verb::Metrics, |talk| {
        talk.runs(Call::of(Verb::Metrics, "", ""))
    }),
];

/// Longer than a test takes.
fn held(mut grant: Call) -> Call {
    grant.ttl = Some(60_000);
    grant
}
