//! The answer is the library's, at either server and at both in turn.

use std::time::{Duration, Instant};

use super::common::{Work, at_once, expect};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Answer, Call, Client, Library, PROTOCOLS, Protocol, Verb, Word};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "answers",
    holds: "The answers are those of the library in one process, on memory: at either server, and\n\
            at both in turn.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// Nothing of what they grant comes back while a test runs.
pub const POLICIES: &str = "
[policy.plain.limits]
units = { rate = 10, per = '400d' }
[policy.calls.limits]
calls = { calls = 10, per = '400d' }
[policy.every.limits]
bucket = { calls = 7, per = '400d' }
window = { calls = 8, per = '400d', algorithm = 'fixed_window' }
first = { calls = 9, per = '400d', algorithm = 'first_use_window' }
slide = { calls = 10, per = '400d', algorithm = 'sliding_window' }
log = { calls = 6, per = '400d', algorithm = 'sliding_log' }
[policy.slots.limits]
running = { concurrency = 3, ttl = '1h' }
[policy.job.limits]
tokens = { rate = 100, per = '400d' }
running = { concurrency = 3, ttl = '1h' }
[policy.both.limits]
input = { rate = 100, per = '400d' }
output = { rate = 100, per = '400d' }
running = { concurrency = 3, ttl = '1h' }
[policy.deep]
key = 'org/user'
[policy.deep.limits]
org = { calls = 6, per = '400d', level = 'org' }
user = { calls = 4, per = '400d' }
[policy.pool]
balancer = 'first_available'
[policy.pool.member.eu.limits]
running = { concurrency = 2, ttl = '1h' }
[policy.pool.member.us.limits]
running = { concurrency = 1, ttl = '2h' }
";

/// Policies whose tables had one name.
const NAMES: &str = "
[policy.search]
key = 'org'
[policy.search.limits]
a = { calls = 5, per = '400d', level = 'org' }
[policy.'search/org'.limits]
a = { calls = 3, per = '400d' }
";

const NAMED: &str = "check, policies search and search/org";

/// A verb, and a conversation in which it is asked.
pub(super) struct Scenario {
    pub(super) case: &'static str,
    verb: Verb,
    /// What it needs beside: a protocol without it has no such row.
    besides: &'static [Verb],
    /// Whether the servers can be asked in turn; where one has to be told by the other
    /// first, another question asks for that.
    in_turn: bool,
    play: fn(&mut Talk<'_>) -> Result<(), String>,
}

const fn row(
    case: &'static str,
    verb: Verb,
    play: fn(&mut Talk<'_>) -> Result<(), String>,
) -> Scenario {
    Scenario {
        case,
        verb,
        besides: &[],
        in_turn: true,
        play,
    }
}

const fn at_one(
    case: &'static str,
    verb: Verb,
    play: fn(&mut Talk<'_>) -> Result<(), String>,
) -> Scenario {
    Scenario {
        in_turn: false,
        ..row(case, verb, play)
    }
}

const SCENARIOS: &[Scenario] = &[
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
    row("entity created", Verb::CreateEntity, |talk| {
        let (root, team) = (talk.key.clone(), format!("{} team", talk.key));
        let create = |id: &str| Call::entity(Verb::CreateEntity, id);
        talk.say(create(&team).below(&root))?;
        talk.say(create(&root).word("tier", "gold"))?;
        talk.say(create(&root))?;
        talk.say(create(&team).below(&root))?;
        talk.say(create("..").below(&root))?;
        talk.say(Call::entity(Verb::ShowEntity, &team))?;
        Ok(())
    }),
    row("entity shown", Verb::ShowEntity, |talk| {
        let (root, team) = talk.family()?;
        for id in [&root, &team, "nobody"] {
            talk.say(Call::entity(Verb::ShowEntity, id))?;
        }
        Ok(())
    }),
    row("entity changed", Verb::ChangeEntity, |talk| {
        let (root, team) = talk.family()?;
        let change = |id: &str, says| Call::entity(Verb::ChangeEntity, id).word("tier", says);
        talk.say(change(&root, "gold"))?;
        talk.say(change(&root, "silver"))?;
        talk.say(change(&root, "tin").on_version(u64::MAX / 4))?;
        talk.say(change("nobody", "gold"))?;
        talk.say(Call::entity(Verb::ShowEntity, &root))?;
        talk.say(Call::entity(Verb::ShowEntity, &team)).map(drop)
    }),
    row("entity deleted", Verb::DeleteEntity, |talk| {
        let (root, team) = talk.family()?;
        let delete = |id: &str| Call::entity(Verb::DeleteEntity, id);
        talk.say(delete(&root))?;
        talk.say(delete(&team).on_version(u64::MAX / 4))?;
        talk.say(delete(&team))?;
        talk.say(delete(&team))?;
        talk.say(delete(&root))?;
        talk.say(Call::entity(Verb::ShowEntity, &root)).map(drop)
    }),
    row("entities listed", Verb::ListEntities, |talk| {
        let (_, team) = talk.family()?;
        talk.say(Call::entity(Verb::ListEntities, ""))?;
        talk.say(Call::entity(Verb::DeleteEntity, &team))?;
        talk.say(Call::entity(Verb::ListEntities, "")).map(drop)
    }),
    row("children listed", Verb::ListChildren, |talk| {
        let (root, team) = talk.family()?;
        for id in [&root, &team, "nobody"] {
            talk.say(Call::entity(Verb::ListChildren, id))?;
        }
        talk.say(Call::entity(Verb::DeleteEntity, &team))?;
        talk.say(Call::entity(Verb::ListChildren, &root)).map(drop)
    }),
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("check, by an entity's id", Verb::Check, |talk| {
            let (_, team) = talk.family()?;
            talk.often(5, |_| Call::of(Verb::Check, "deep", &team).by_id())?;
            talk.often(2, |_| Call::of(Verb::Peek, "deep", &team).by_id())?;
            talk.say(Call::of(Verb::Check, "deep", "nobody").by_id())?;
            talk.say(Call::of(Verb::Reset, "deep", &team).by_id())?;
            talk.say(Call::of(Verb::Check, "deep", &team).by_id())
                .map(drop)
        })
    },
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("acquire, by an entity's id", Verb::Acquire, |talk| {
            let (root, _) = talk.family()?;
            let of = |verb| Call::of(verb, "job", &root).by_id();
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(Call::entity(Verb::DeleteEntity, &root))?;
            talk.say(of(Verb::Adjust).lease(&lease).amount("tokens", 30))?;
            talk.say(of(Verb::Settle).lease(&lease).amount("tokens", 5))?;
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(of(Verb::Release).lease(&lease))?;
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(of(Verb::Cancel).lease(&lease)).map(drop)
        })
    },
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

/// A conversation about one key with one client after the other, noted as it goes.
struct Talk<'a> {
    clients: &'a mut [Box<dyn Client>],
    turn: usize,
    key: String,
    noted: Vec<String>,
    /// A pool was so slow that its next member may have been asked beside the first.
    is_late: bool,
}

/// A member of a pool that takes longer is late (300 ms, and what it takes to get there).
const LATE: Duration = Duration::from_millis(250);

/// So often a conversation is begun anew in which a pool was late.
const ATTEMPTS: usize = 20;

impl Talk<'_> {
    #[expect(
        clippy::disallowed_methods,
        reason = "which member of a pool answers depends on how long the first one takes"
    )]
    fn say(&mut self, call: Call) -> Result<Answer, String> {
        let client = self.turn % self.clients.len();
        self.turn += 1;
        let asked_at = Instant::now();
        let mut answer = self.clients[client].ask(&call)?;
        if call.verb == Verb::ListEntities {
            // The others' are no part of this conversation.
            let ours = format!("entity {}", self.key);
            answer.facts.retain(|name, _| name.starts_with(&ours));
        }
        self.is_late |= call.policy == "pool" && asked_at.elapsed() > LATE;
        let noted = format!("{:?}: {answer:?}", call.verb);
        self.noted.push(noted.replace(&self.key, "KEY"));
        Ok(answer)
    }

    fn often(&mut self, times: usize, call: impl Fn(&str) -> Call) -> Result<(), String> {
        (0..times).try_for_each(|_| self.say(call(&self.key)).map(drop))
    }

    /// The lease that is granted, or the handle of one that is listed.
    fn lease(&mut self, mut call: Call) -> Result<String, String> {
        // The row of acquire asks without patience.
        call.wait = (call.verb == Verb::Acquire).then_some(20_000);
        let answer = self.say(call)?;
        answer
            .lease
            .clone()
            .ok_or_else(|| format!("no lease: {answer:?}"))
    }

    /// A root, and one that belongs to it.
    fn family(&mut self) -> Result<(String, String), String> {
        let (root, team) = (self.key.clone(), format!("{} team", self.key));
        self.say(Call::entity(Verb::CreateEntity, &root))?;
        self.say(Call::entity(Verb::CreateEntity, &team).below(&root))?;
        Ok((root, team))
    }

    fn peek(&mut self, policy: &str) -> Result<(), String> {
        self.peek_of(policy, "tokens")
    }

    fn peek_of(&mut self, policy: &str, limit: &str) -> Result<(), String> {
        self.say(Call::of(Verb::Peek, policy, &self.key).amount(limit, 1))
            .map(drop)
    }

    fn batches(&mut self, verb: Verb) -> Result<(), String> {
        for _ in 0..3 {
            let each = vec![Call::of(Verb::Check, "calls", &self.key); 4];
            self.say(Call {
                each,
                ..Call::of(verb, "", "")
            })?;
        }
        Ok(())
    }

    fn ends(&mut self, verb: Verb) -> Result<(), String> {
        let lease = self.lease(Call::of(Verb::Acquire, "job", &self.key).amount("tokens", 20))?;
        self.peek("job")?;
        self.say(Call::of(verb, "job", &self.key).lease(&lease))?;
        self.say(Call::of(verb, "job", &self.key).lease(&lease))?;
        self.peek("job")?;
        let unknown = "0123456789abcdef0123456789abcdef";
        self.say(Call::of(verb, "job", &self.key).lease(unknown))
            .map(drop)
    }

    /// What it tells is the server's own: that it is answered is all that is held.
    fn runs(&mut self, call: Call) -> Result<(), String> {
        for _ in 0..2 {
            let answer = self.say(call.clone())?;
            expect(answer.word == Word::Done, || format!("{answer:?}"))?;
            self.noted.clear();
        }
        Ok(())
    }
}

/// Those that a protocol can have.
pub(super) fn scenarios(protocol: &Protocol) -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| has(protocol, scenario))
}

fn has(protocol: &Protocol, scenario: &Scenario) -> bool {
    protocol.has(scenario.verb) && scenario.besides.iter().all(|verb| protocol.has(*verb))
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        let cases = scenarios(protocol)
            .map(|scenario| scenario.case)
            .chain([NAMED]);
        cases.map(|case| Row {
            protocol: protocol.name,
            case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("answers", POLICIES, PATIENT)?;
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for scenario in scenarios(protocol) {
            let pair = &pair;
            let does = move || compare(("answers", pair), protocol, scenario, true);
            work.push((protocol.name, scenario.case, Box::new(does)));
        }
    }
    at_once(report, 3, work);
    let names = house.pair("names", NAMES, PATIENT);
    for protocol in PROTOCOLS {
        let names = names.as_ref().map_err(Clone::clone);
        report.note(
            protocol.name,
            NAMED,
            names.and_then(|names| are_two(names, protocol)),
        );
    }
    Ok(())
}

/// What one of them grants is not the other's.
fn are_two(pair: &Pair, protocol: &Protocol) -> Result<(), String> {
    for (policy, limit) in [("search", 5), ("search/org", 3)] {
        let mut admitted = 0;
        for turn in 0..8 {
            let check = Call::of(Verb::Check, policy, protocol.name);
            let answer = pair.enter(protocol, turn)?.ask(&check)?;
            admitted += usize::from(answer.admitted());
        }
        expect(admitted == limit, || {
            format!("{policy} of {limit} admitted {admitted}")
        })?;
    }
    Ok(())
}

/// Plays it at the servers, each by itself and `in_turn`, where that can be, and holds what they
/// say against the library. Each question has keys of its own: they share a store.
pub(super) fn compare(
    (question, pair): (&str, &Pair),
    protocol: &Protocol,
    scenario: &Scenario,
    in_turn: bool,
) -> Result<(), String> {
    let expected = play(
        scenario,
        "the library's key",
        &mut [Box::new(Library::of(POLICIES)?)],
    )?;
    let mut ways = vec![("at the first", vec![0])];
    if pair.servers.len() > 1 {
        ways.push(("at the second", vec![1]));
        if in_turn && scenario.in_turn {
            ways.push(("in turn", vec![0, 1]));
        }
    }
    for (way, turns) in ways {
        let clients = turns.iter().map(|turn| pair.enter(protocol, *turn));
        let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
        let key = format!("{question} {} {} {way}", protocol.name, scenario.case);
        let said = play(scenario, &key, &mut clients).map_err(|why| format!("{way}: {why}"))?;
        let pairs = said.iter().zip(&expected).enumerate();
        for (place, (said, expected)) in pairs {
            expect(said == expected, || {
                format!("{way}, {}: {said}, and not {expected}", place + 1)
            })?;
        }
    }
    Ok(())
}

fn play(
    scenario: &Scenario,
    key: &str,
    clients: &mut [Box<dyn Client>],
) -> Result<Vec<String>, String> {
    for attempt in 0..ATTEMPTS {
        let mut talk = Talk {
            clients: &mut *clients,
            turn: 0,
            key: format!("{key}, {attempt}"),
            noted: Vec::new(),
            is_late: false,
        };
        (scenario.play)(&mut talk)?;
        if !talk.is_late {
            return Ok(talk.noted);
        }
    }
    Err(format!(
        "in {ATTEMPTS} conversations an answer of the pool took longer than {LATE:?}"
    ))
}
