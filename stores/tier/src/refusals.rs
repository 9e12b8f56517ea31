//! The table that remembers refusals, and asks its store for all else.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Rule, Timestamp, Verdict};
use tidegate_store::sync::Mutex;
use tidegate_store::{
    Answer, Command, Decision, Detail, Execution, Item, KeyPath, Op, Out, Plan, Reply, StoreFuture,
    Table, Timer, Verb,
};

use crate::answers;
use crate::batch;
use crate::counters::{Counters, TierStatistics, count};
use crate::settings::Tier;

/// The most refusals that are remembered by one lock; none is while there is no room.
const MOST_OF_SHARD: usize = 1_024;

/// Locks of their own: more than there are threads that ask at once.
const SHARDS: usize = 64;

/// Refuses by what its table has refused a moment ago. What is asked for with an idempotency
/// key, or may wait for its turn, is that table's, and so is all else.
pub struct RefusalTable {
    table: Arc<dyn Table>,
    refusals: Arc<Refusals>,
}

/// What is remembered of all keys.
struct Refusals {
    tier: Tier,
    timer: Arc<dyn Timer>,
    counters: Counters,
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::fast::RandomState,
}

#[derive(Default)]
struct Shard {
    by_key: HashMap<Box<[u8]>, Refusal, foldhash::fast::RandomState>,
    /// How often something may have been given back: what was asked for before is not remembered
    /// after.
    freed: u64,
}

/// As much of one limit, or more, is refused until then.
struct Refusal {
    /// The version of the limits that refused.
    version: u64,
    limit: usize,
    amount: Amount,
    until: Timestamp,
    decision: Decision,
}

/// A take of which a refusal can be remembered.
struct Asked {
    key: Box<[u8]>,
    amounts: SmallVec<[Amount; 3]>,
    plan: Arc<Plan>,
    /// Before it was sent.
    now: Timestamp,
    /// What [`Shard::freed`] was then.
    freed: u64,
    detail: Detail,
}

impl RefusalTable {
    /// `table`, whose refusals are remembered as `tier` says. `timer` is the clock by which it
    /// is asked, and never steps back.
    #[must_use]
    pub fn new(table: Arc<dyn Table>, tier: Tier, timer: Arc<dyn Timer>) -> Self {
        Self {
            table,
            refusals: Arc::new(Refusals {
                tier,
                timer,
                counters: Counters::default(),
                shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
                hasher: foldhash::fast::RandomState::default(),
            }),
        }
    }

    /// The table whose refusals are remembered.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Table> {
        &self.table
    }

    /// What it has counted, and remembers.
    #[must_use]
    pub fn statistics(&self) -> TierStatistics {
        TierStatistics {
            keys: self.refusals.count(),
            ..self.refusals.counters.read()
        }
    }

    fn take(
        &self,
        command: &Command<'_>,
        (path, verb): Item<'_>,
        asked: Asked,
        mut out: Out<'_>,
    ) -> Execution {
        let about = command.about(Op::One(path, asked.with_its_refusal(verb)));
        let execution = self.table.execute(&about, out.lend());
        if execution.is_ready() {
            let answer = self.refusals.note(&asked, out.take());
            return out.ready(answer);
        }
        let refusals = Arc::clone(&self.refusals);
        execution.map(|later| StoreFuture::new(async move { refusals.note(&asked, later.await) }))
    }

    /// A command that may give something back to these keys: what is remembered of them ends before
    /// it is sent, and when it is answered.
    fn give_back<'k>(
        &self,
        command: &Command<'_>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        out: Out<'_>,
    ) -> Execution {
        let keys: SmallVec<[Box<[u8]>; 1]> = keys.into_iter().map(Box::from).collect();
        keys.iter().for_each(|key| self.refusals.forget(key));
        let execution = self.table.execute(command, out);
        if execution.is_ready() {
            keys.iter().for_each(|key| self.refusals.forget(key));
            return execution;
        }
        let refusals = Arc::clone(&self.refusals);
        execution.map(|later| {
            StoreFuture::new(async move {
                let answer = later.await;
                keys.iter().for_each(|key| refusals.forget(key));
                answer
            })
        })
    }

    /// The reply to one of a batch, if it is refused by what is remembered.
    fn remembered(&self, command: &Command<'_>, (path, verb): Item<'_>) -> Option<Reply> {
        let (amounts, detail) = is_ours(&verb)?;
        self.refusals.find(command, &path, amounts, detail).ok()
    }
}

impl Table for RefusalTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        match command.op {
            Op::One(path, verb) => {
                if gives_back(&verb) {
                    return self.give_back(command, [path.bytes()], out);
                }
                let asked = is_ours(&verb).filter(|_| command.patience.is_none());
                let Some((amounts, detail)) = asked else {
                    return self.table.execute(command, out);
                };
                match self.refusals.find(command, &path, amounts, detail) {
                    Ok(reply) => out.ready(Ok(reply)),
                    Err(freed) => {
                        let asked = Asked {
                            key: path.bytes().into(),
                            amounts: amounts.into(),
                            plan: Arc::clone(command.plan),
                            now: command.now,
                            freed,
                            detail,
                        };
                        self.take(command, (path, verb), asked, out)
                    }
                }
            }
            Op::Batch(items) => {
                let freed = items.iter().filter(|(_, verb)| gives_back(verb));
                let freed: Vec<&[u8]> = freed.map(|(path, _)| path.bytes()).collect();
                if !freed.is_empty() {
                    return self.give_back(command, freed, out);
                }
                let at_hand = |item: Item<'_>| self.remembered(command, item);
                batch::execute(&*self.table, command, items, at_hand, out)
            }
            Op::Adopt | Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => {
                self.table.execute(command, out)
            }
        }
    }
}

/// Whether a command may give something back to its key of which a refusal is remembered. A
/// renewal moves when slots come back, and of those none is.
const fn gives_back(verb: &Verb<'_>) -> bool {
    verb.gives_back() && !matches!(verb, Verb::Renew { .. })
}

/// What is asked for by a take that may be refused here.
fn is_ours<'c>(verb: &Verb<'c>) -> Option<(&'c [Amount], Detail)> {
    match *verb {
        Verb::Take {
            amounts,
            lease,
            detail,
        } if lease.is_none_or(|lease| lease.idempotency.is_none() && lease.least.is_none()) => {
            Some((amounts, detail))
        }
        _ => None,
    }
}

impl Asked {
    /// The same take, answered in full where it is refused.
    fn with_its_refusal<'c>(&self, verb: Verb<'c>) -> Verb<'c> {
        match verb {
            Verb::Take {
                amounts,
                lease,
                detail: Detail::Verdict,
            } => Verb::Take {
                amounts,
                lease,
                detail: Detail::OnRefusal,
            },
            verb => verb,
        }
    }
}

impl Refusals {
    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(key);
        &self.shards[hash as usize % SHARDS]
    }

    /// The refusal that is remembered of as much, or less; or else what [`Shard::freed`] is.
    fn find(
        &self,
        command: &Command<'_>,
        path: &KeyPath<'_>,
        amounts: &[Amount],
        detail: Detail,
    ) -> Result<Reply, u64> {
        let shard = self.shard(path.bytes()).lock();
        let Some(refusal) = shard.by_key.get(path.bytes()) else {
            return Err(shard.freed);
        };
        let is_as_much = amounts
            .get(refusal.limit)
            .is_some_and(|&amount| amount >= refusal.amount);
        let holds = refusal.version == command.plan.version() && command.now < refusal.until;
        if !(holds && is_as_much) {
            return Err(shard.freed);
        }
        count(&self.counters.refused);
        Ok(answers::refused(&refusal.decision, detail))
    }

    /// Remembers what was refused; the answer as it was asked for.
    fn note(&self, asked: &Asked, answer: Answer) -> Answer {
        let decision = match answer {
            Ok(Reply::Decision(decision)) => decision,
            Ok(Reply::One(verdict, level)) => {
                if let Ok(decision) = Reply::One(verdict, level).decision() {
                    self.remember(asked, &decision);
                }
                return answer;
            }
            answer => return answer,
        };
        self.remember(asked, &decision);
        Ok(match asked.detail {
            Detail::Verdict if decision.lease.is_none() => Reply::Verdict(decision.verdict),
            _ => Reply::Decision(decision),
        })
    }

    fn remember(&self, asked: &Asked, decision: &Decision) {
        if let Some(refusal) = self.refusal(asked, decision) {
            self.keep(asked, refusal);
        }
    }

    /// What is remembered of a decision: that a limit refused which nothing but time makes
    /// admit again, or a refund. Slots are released at any time, and an adaptive limit moves.
    fn refusal(&self, asked: &Asked, decision: &Decision) -> Option<Refusal> {
        let at_most = asked.now + self.tier.idle_span();
        let until = match decision.verdict {
            Verdict::Admit => return None,
            Verdict::NotUntil(at) => at.min(at_most),
            Verdict::Never => at_most,
        };
        let limit = decision.binding?;
        let binding = asked.plan.limits().get(limit)?;
        let amount = *asked.amounts.get(limit)?;
        let lasts = !matches!(binding.rule, Rule::Slots(_)) && binding.adaptive.is_none();
        lasts.then(|| Refusal {
            version: asked.plan.version(),
            limit,
            amount,
            until,
            decision: decision.clone(),
        })
    }

    fn keep(&self, asked: &Asked, refusal: Refusal) {
        let mut shard = self.shard(&asked.key).lock();
        if shard.freed != asked.freed {
            return;
        }
        let by_key = &mut shard.by_key;
        if by_key.len() >= MOST_OF_SHARD && !by_key.contains_key(&asked.key) {
            by_key.retain(|_, kept| asked.now < kept.until);
            if by_key.len() >= MOST_OF_SHARD {
                return;
            }
        }
        by_key.insert(asked.key.clone(), refusal);
    }

    /// Ends what is remembered of a key: something may have been given back to it.
    fn forget(&self, key: &[u8]) {
        let mut shard = self.shard(key).lock();
        shard.by_key.remove(key);
        shard.freed += 1;
    }

    /// How many keys a refusal is remembered of.
    fn count(&self) -> u64 {
        let now = self.timer.now();
        let of_shard = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            let kept = shard.by_key.values();
            kept.filter(|kept| now < kept.until).count() as u64
        };
        self.shards.iter().map(of_shard).sum()
    }
}
