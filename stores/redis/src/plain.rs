//! The plainest takes, of buckets without levels: scripts of their own, for one bucket
//! (`lua/lone.lua`) and for several (`lua/plain.lua`), since a server defines anew for
//! every call what a script has.

use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;
use tidegate_net::Lone;
use tidegate_store::core::{Amount, Timestamp};
use tidegate_store::{Detail, KeyCommand, KeyPath, Plan, PlanLimit, Reply, StoreError, Verb};

use crate::error::garbled;
use crate::keys::Names;
use crate::options::Clock;
use crate::script::{Script, Scripts};
use crate::wire;
use crate::wire::pack::Pack;
use crate::wire::reply::{self, Answer};

/// Below this, everything that is computed of a bucket fits a double.
const PLAIN: u128 = 1 << 52;

/// Buckets as the script is told of them.
#[derive(Debug)]
pub(crate) struct Plain {
    revision: i64,
    /// Drain, weight, brim and capacity of each.
    buckets: Box<[[i64; 4]]>,
}

/// A take that the script may do: all of it that is needed once the caller is gone.
#[derive(Debug)]
pub(crate) struct Take {
    plan: Arc<Plan>,
    key: Box<[u8]>,
    now: Timestamp,
    amounts: SmallVec<[Amount; 4]>,
    detail: Detail,
    /// What it is, if it is one of a lone bucket.
    lone: Option<Lone>,
    /// Its row, and the order of those who wait.
    pub(crate) keys: [Vec<u8>; 2],
}

impl Plain {
    /// `None` for a plan that is more than plain buckets.
    pub(crate) fn of(plan: &Plan, revision: i64) -> Option<Self> {
        let buckets: Option<Box<_>> = plan.limits().iter().map(numbers).collect();
        let buckets = buckets.filter(|_| plan.levels() <= 1)?;
        Some(Self { revision, buckets })
    }

    /// The script that decides about `take`, and what it is told; `clock` says whether
    /// the caller's decides.
    pub(crate) fn call<'s>(
        &self,
        take: &Take,
        clock: Clock,
        scripts: &'s Scripts,
    ) -> (&'s Script, Arc<[u8]>) {
        match &*self.buckets {
            [bucket] if take.lone.is_some() => (&scripts.lone, self.alone(bucket, take, clock)),
            _ => (&scripts.plain, self.argument(take, clock)),
        }
    }

    /// Eight doubles, as `lua/lone.lua` says. All are whole, and below 2^53.
    fn alone(&self, bucket: &[i64; 4], take: &Take, clock: Clock) -> Arc<[u8]> {
        let is_callers = i64::from(clock == Clock::Caller);
        let now = if clock == Clock::Caller {
            wire::instant(take.now)
        } else {
            0
        };
        let amount = take.amounts[0] as i64;
        let first = [is_callers, now, self.revision].into_iter();
        let numbers = first.chain(*bucket).chain([amount]);
        numbers
            .flat_map(|number| (number as f64).to_le_bytes())
            .collect()
    }

    /// What the script about several is told.
    fn argument(&self, take: &Take, clock: Clock) -> Arc<[u8]> {
        let mut pack = Pack::default();
        pack.array(3 + 5 * self.buckets.len());
        match clock {
            Clock::Caller => pack.int(wire::instant(take.now)),
            Clock::Server => pack.bool(false),
        };
        pack.int(match take.detail {
            Detail::Verdict => 0,
            Detail::OnRefusal => 1,
            Detail::Always => 2,
        });
        pack.int(self.revision);
        for (bucket, &amount) in self.buckets.iter().zip(&take.amounts) {
            for &number in bucket {
                pack.int(number);
            }
            pack.amount(amount);
        }
        pack.done().into()
    }
}

/// `None` for what is no plain bucket, or has numbers that are not.
fn numbers(limit: &PlanLimit) -> Option<[i64; 4]> {
    let bucket = limit.simple_bucket()?;
    let (drain, weight, brim) = (bucket.drain(), bucket.weight(), bucket.brim());
    let most = brim + u128::from(weight);
    if most.max(u128::from(drain)) >= PLAIN {
        return None;
    }
    let capacity = limit.rule.capacity();
    Some([drain as i64, weight as i64, brim as i64, capacity as i64])
}

impl Take {
    /// `None` for what is more than a take, or of a key with limits of its own.
    pub(crate) fn of(command: &KeyCommand<'_>, names: &Names) -> Option<Self> {
        let Verb::Take {
            amounts,
            lease: None,
            detail,
        } = command.verb
        else {
            return None;
        };
        let (path, plan) = (&command.key, command.plan);
        let is_common = path.depth() == 1 && plan.overrides().get(path.bytes()).is_none();
        let takes = is_common && amounts.iter().any(|&amount| amount > 0);
        takes.then(|| Self {
            plan: Arc::clone(plan),
            key: path.bytes().into(),
            now: command.now,
            amounts: amounts.into(),
            detail,
            lone: lone(plan, amounts, detail, command.now),
            keys: names.plain(path),
        })
    }

    /// By what it is decided.
    pub(crate) const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The command that it was: such a plan follows no calendar.
    pub(crate) fn command(&self) -> Result<KeyCommand<'_>, StoreError> {
        let key = KeyPath::new(&self.key, self.plan.levels());
        Ok(KeyCommand {
            plan: &self.plan,
            key: key.map_err(|_| garbled("a take of no key"))?,
            now: self.now,
            calendars: &[],
            verb: Verb::Take {
                amounts: &self.amounts,
                lease: None,
                detail: self.detail,
            },
        })
    }

    /// Reads what the script answered. `None`: it is not as plain as that.
    pub(crate) fn read(&self, answer: Value) -> Result<Option<Reply>, StoreError> {
        if answer == Value::Nil {
            return Ok(None);
        }
        if let (Some(lone), Value::Int(level)) = (&self.lone, &answer) {
            let decision = match *level {
                level @ 1.. => lone.admitted(level.unsigned_abs()),
                level => lone.refused(level.unsigned_abs())?,
            };
            return Ok(Some(Reply::Decision(decision)));
        }
        match reply::read(answer, &self.plan, self.now)? {
            Answer::Reply(reply) => Ok(Some(reply)),
            _ => Err(garbled("no reply")),
        }
    }
}

/// The take of a lone bucket that a take is, if it is one.
fn lone(plan: &Plan, amounts: &[Amount], detail: Detail, now: Timestamp) -> Option<Lone> {
    let ([limit], [amount]) = (plan.limits(), amounts) else {
        return None;
    };
    Lone::new(limit.simple_bucket()?, *amount, detail, now)
}
