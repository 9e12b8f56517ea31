//! What most policies do: takes, with and without a lease, and the ends of leases, of plain
//! limits without levels. A take of one bucket has a script of its own (`lua/single_bucket.lua`), all
//! else one that goes straight (`lua/straight.lua`): a server defines anew for every call
//! what a script has, and the whole is made for anything.

use std::sync::Arc;

use redis::Value;
use tidegate_net::SingleBucket;
use tidegate_store::core::{Align, Amount, MAX_AMOUNT, Rule, Span, Timestamp};
use tidegate_store::{
    Detail, Ending, Granted, KeyCommand, OwnedPath, OwnedVerb, Plan, PlanLimit, Reply, StoreError,
    Terms, Verb,
};

use crate::error::garbled;
use crate::keys::Names;
use crate::options::Clock;
use crate::script::{self, Needs, Script, Scripts};
use crate::wire;
use crate::wire::reply::{self, Answer};

/// Below this, everything that is computed of a bucket fits a double.
const PLAIN: u128 = 1 << 52;

/// The most limits: a row of so many begins with one byte that says how many.
const MOST_LIMITS: usize = 15;

/// Limits as the scripts are told of them.
#[derive(Debug)]
pub(crate) struct Plain {
    revision: i64,
    /// Drain, weight, brim and capacity, if it is one bucket.
    single_bucket: Option<[i64; 4]>,
    /// As `lua/straight.lua` reads it.
    bytes: Arc<[u8]>,
    takes: Script,
    leases: Script,
    /// For how long what is used is kept, and what the limits are called, if it is counted.
    usage: Option<(Span, Vec<Arc<str>>)>,
}

/// What the scripts may do: all of it that is needed once the caller is gone.
#[derive(Debug)]
pub(crate) struct PlainCall {
    plan: Arc<Plan>,
    path: OwnedPath,
    now: Timestamp,
    verb: OwnedVerb,
    /// What it is, if it is a take of a single bucket.
    single_bucket: Option<(SingleBucket, Amount)>,
    /// Whether a lease is given or ended.
    is_of_lease: bool,
    /// The row, the order of those who wait; of a lease the ledger, its order of time; where usage is
    /// counted, its records and their order.
    keys: Vec<Vec<u8>>,
}

impl Plain {
    /// `None` for a plan that is more than plain limits.
    pub(crate) fn of(plan: &Plan, revision: i64, scripts: &Scripts) -> Option<Self> {
        let limits: Option<Vec<_>> = plan.limits().iter().map(numbers).collect();
        let limits = limits.filter(|limits| plan.levels() <= 1 && limits.len() <= MOST_LIMITS)?;
        let keep = plan.keep().as_micros().min(1 << 53) as i64;
        let numbers = [revision, keep].into_iter();
        let numbers = numbers.chain(limits.iter().flatten().copied());
        let needs = Needs::of(plan);
        let single_bucket = match (&limits[..], plan.limits()) {
            ([[_, _, capacity, drain, weight, brim]], [limit]) => {
                let bucket = limit.simple_bucket();
                bucket.map(|_| [*drain, *weight, *brim, *capacity])
            }
            _ => None,
        };
        Some(Self {
            revision,
            single_bucket,
            bytes: doubles(numbers).collect(),
            takes: scripts.straight(needs, false, plan.usage().is_some()),
            leases: scripts.straight(needs, true, plan.usage().is_some()),
            usage: plan.usage().map(|keep| {
                let names = plan.limits().iter().map(|limit| Arc::clone(&limit.name));
                (keep, names.collect())
            }),
        })
    }

    /// Whether `call` is for the script that decides about one bucket.
    pub(crate) const fn is_alone(&self, call: &PlainCall) -> bool {
        self.single_bucket.is_some() && call.single_bucket.is_some()
    }

    /// The script that decides about `call`, and what it is told; `clock` says whether
    /// the caller's decides.
    pub(crate) fn call<'s>(
        &'s self,
        call: &PlainCall,
        clock: Clock,
        scripts: &'s Scripts,
    ) -> (&'s Script, Vec<Arc<[u8]>>) {
        let counted = self.usage.as_ref();
        let counted =
            counted.map(|(keep, names)| counted_by(*keep, names, call.path.lend().bytes()));
        match (&self.single_bucket, &call.single_bucket) {
            (Some(bucket), Some((_, amount))) => {
                let mut arguments = vec![self.alone(bucket, call, *amount, clock)];
                let script = match &counted {
                    None => &scripts.single_bucket,
                    Some(_) => &scripts.single_bucket_counted,
                };
                arguments.extend(counted);
                (script, arguments)
            }
            _ => {
                let mut arguments = vec![Arc::clone(&self.bytes), call.encode(clock).into()];
                arguments.extend(counted);
                if call.is_of_lease {
                    arguments.resize(3, Arc::default());
                    arguments.push(call.path.lend().bytes().into());
                }
                let script = if call.is_of_lease {
                    &self.leases
                } else {
                    &self.takes
                };
                (script, arguments)
            }
        }
    }

    /// Eight doubles, as `lua/single_bucket.lua` says. All are whole, and below 2^53.
    fn alone(
        &self,
        bucket: &[i64; 4],
        call: &PlainCall,
        amount: Amount,
        clock: Clock,
    ) -> Arc<[u8]> {
        let is_callers = i64::from(clock == Clock::Caller);
        let now = if clock == Clock::Caller {
            wire::instant(call.now)
        } else {
            0
        };
        let first = [is_callers, now, self.revision].into_iter();
        doubles(first.chain(*bucket).chain([amount as i64])).collect()
    }
}

/// What `usage.count` of `lua/hours.lua` is told: for how long records are kept, and for each limit what
/// its field has behind the hour, after its length.
fn counted_by(keep: Span, names: &[Arc<str>], key: &[u8]) -> Arc<[u8]> {
    let mut bytes: Vec<u8> = doubles([keep.as_micros().min(1 << 53) as i64].into_iter()).collect();
    for name in names {
        let length = 4 + key.len() + name.len();
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend((key.len() as u32).to_be_bytes());
        bytes.extend([key, name.as_bytes()].concat());
    }
    bytes.into()
}

fn doubles(numbers: impl Iterator<Item = i64>) -> impl Iterator<Item = u8> {
    numbers.flat_map(|number| (number as f64).to_le_bytes())
}

/// The first `limits` of `amounts`; 0 stands for what is not there.
fn amounts_of(amounts: &[Amount], limits: usize) -> impl Iterator<Item = u8> {
    let amount = |at| amounts.get(at).copied().unwrap_or(0);
    doubles((0..limits).map(move |at| amount(at).min(MAX_AMOUNT) as i64))
}

/// Uid, kind, capacity, and what else its kind has; `None` for what is no plain limit, or
/// has numbers that are not.
fn numbers(limit: &PlanLimit) -> Option<[i64; 6]> {
    let [first, second, third] = match limit.rule {
        _ if !limit.is_simple() => return None,
        Rule::Bucket(bucket) => {
            let (drain, weight, brim) = (bucket.drain(), bucket.weight(), bucket.brim());
            let most = brim + u128::from(weight);
            if most.max(u128::from(drain)) >= PLAIN {
                return None;
            }
            [drain as i64, weight as i64, brim as i64]
        }
        Rule::Window(window) => match window.align() {
            Align::Epoch(period) => [0, period.as_micros() as i64, 0],
            Align::FirstUse(period) => [1, period.as_micros() as i64, 0],
            Align::Calendar => return None,
        },
        Rule::Slots(slots) => [slots.ttl().as_micros() as i64, 0, 0],
        Rule::Ring(_) | Rule::Log(_) => return None,
    };
    let (kind, capacity) = (script::kind(&limit.rule), limit.rule.capacity());
    let (uid, kind) = (i64::from(limit.uid), i64::from(kind));
    Some([uid, kind, capacity as i64, first, second, third])
}

impl PlainCall {
    /// `None` for what is more than a take or an end, or of a key with limits of its own.
    pub(crate) fn of(command: &KeyCommand<'_>, names: &Names) -> Option<Self> {
        let (path, plan) = (&command.key, command.plan);
        let is_of_lease = match command.verb {
            Verb::Take {
                lease: None,
                amounts,
                ..
            } => amounts.iter().any(|&amount| amount > 0).then_some(false)?,
            Verb::Take {
                lease: Some(terms), ..
            } => terms.idempotency.is_none().then_some(true)?,
            Verb::End { .. } => true,
            _ => return None,
        };
        let is_common = path.depth() == 1 && plan.overrides().get(path.bytes()).is_none();
        is_common.then(|| Self {
            plan: Arc::clone(plan),
            path: OwnedPath::of(path),
            now: command.now,
            verb: OwnedVerb::of(command.verb),
            single_bucket: single_bucket(command),
            is_of_lease,
            keys: names.plain(path, is_of_lease, plan.usage().is_some()),
        })
    }

    /// The root under which it may use something that is counted, and for how long that is kept.
    pub(crate) fn counted(&self) -> Option<(&[u8], Span)> {
        let keep = self.plan.usage()?;
        let may_use = matches!(self.verb.lend(), Verb::Take { .. });
        may_use.then(|| (self.path.lend().root(), keep))
    }

    /// When it is asked, by the caller's clock.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// By what it is decided.
    pub(crate) const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What it is about.
    pub(crate) fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// Whether it is one of a single bucket.
    pub(crate) const fn is_single_bucket(&self) -> bool {
        self.single_bucket.is_some()
    }

    /// The same as any limits.
    pub(crate) const fn not_single_bucket(mut self) -> Self {
        self.single_bucket = None;
        self
    }

    /// The command that it was: such a plan follows no calendar.
    pub(crate) fn command(&self) -> KeyCommand<'_> {
        KeyCommand {
            plan: &self.plan,
            key: self.path.lend(),
            now: self.now,
            calendars: &[],
            verb: self.verb.lend(),
        }
    }

    /// As `lua/straight.lua` reads it.
    fn encode(&self, clock: Clock) -> Vec<u8> {
        let verb = self.verb.lend();
        let is_end = matches!(verb, Verb::End { .. });
        let least = verb.terms().and_then(|terms| terms.least);
        let kind = if least.is_some() { 2 } else { u8::from(is_end) };
        let mut bytes = vec![kind, u8::from(clock == Clock::Caller)];
        let limits = self.plan.limits().len();
        let number = |number: i64| (number as f64).to_le_bytes();
        bytes.extend(number(wire::instant(self.now)));
        match verb {
            Verb::Take {
                amounts,
                lease,
                detail,
            } => {
                bytes.push(match detail {
                    // Until when it is good is told by how its limits stand.
                    _ if least.is_some() => 2,
                    Detail::Verdict => 0,
                    Detail::OnRefusal => 1,
                    Detail::Always => 2,
                });
                bytes.extend(amounts_of(amounts, limits));
                if let Some(Terms { id, expires_at, .. }) = lease {
                    bytes.extend(number(wire::instant(expires_at)));
                    bytes.extend(id.to_be_bytes());
                }
                if let Some(least) = least {
                    bytes.extend(amounts_of(least, limits));
                }
            }
            Verb::End {
                id,
                ending,
                remember,
            } => {
                bytes.push(u8::from(remember));
                bytes.extend(id.to_be_bytes());
                bytes.extend(doubles((0..limits).map(|at| used(ending, at))));
            }
            _ => {}
        }
        bytes
    }

    /// Reads what the script answered.
    pub(crate) fn read(&self, answer: Value) -> Result<Plainly, StoreError> {
        if answer == Value::Nil {
            return Ok(Plainly::Seldom);
        }
        if let (Some((single_bucket, _)), Value::Int(level)) = (&self.single_bucket, &answer) {
            let decision = match *level {
                level @ 1.. => single_bucket.admitted(level.unsigned_abs()),
                level => single_bucket.refused(level.unsigned_abs())?,
            };
            return Ok(Plainly::Reply(Reply::Decision(decision)));
        }
        match reply::read(answer, &self.plan, self.now)? {
            Answer::Reply(reply) => Ok(Plainly::Reply(self.named(reply))),
            Answer::NotPlain => Ok(Plainly::Once),
            _ => Err(garbled("no reply")),
        }
    }

    /// The script does not repeat which lease it was asked for.
    fn named(&self, mut reply: Reply) -> Reply {
        let decision = match &mut reply {
            Reply::Decision(decision) => Some(decision),
            Reply::Partial(partial) => Some(&mut partial.decision),
            _ => None,
        };
        if let (
            Some(decision),
            Verb::Take {
                lease: Some(terms), ..
            },
        ) = (decision, self.verb.lend())
            && let Some(granted) = &mut decision.lease
        {
            *granted = Granted {
                id: terms.id,
                ..*granted
            };
        }
        reply
    }
}

/// What a plain call came to.
pub(crate) enum Plainly {
    Reply(Reply),
    /// It was not as plain as that: nothing was done.
    Once,
    /// Nor is the next likely to be.
    Seldom,
}

/// What an ending says was used of the limit at `position`; -1 stands for what was taken.
fn used(ending: Ending<'_>, position: usize) -> i64 {
    let of_limit = match ending {
        Ending::Settle(used) => used.get(position).copied().flatten(),
        Ending::Fail(back) => back.get(position).copied().unwrap_or(false).then_some(0),
        Ending::Release => None,
        Ending::Cancel => Some(0),
    };
    of_limit.map_or(-1, |used| used.min(MAX_AMOUNT) as i64)
}

/// The take of a single bucket that a command is, if it is one.
fn single_bucket(command: &KeyCommand<'_>) -> Option<(SingleBucket, Amount)> {
    let Verb::Take {
        amounts: [amount],
        lease: None,
        detail,
    } = command.verb
    else {
        return None;
    };
    let [limit] = command.plan.limits() else {
        return None;
    };
    let single_bucket = SingleBucket::new(limit.simple_bucket()?, *amount, detail, command.now)?;
    Some((single_bucket, *amount))
}
