//! A key of a store's table as a player.

use std::sync::Arc;

use tidegate_core::{Amount, Rule, Standing, Timestamp, Verdict};
use tidegate_store::{
    AtomicBucket, Detail, Ending, KeyCommand, KeyPath, Plan, Reply, Table as StoreTable, Terms,
    Verb,
};

use super::booking::{Booking, LONG, OWN};
use super::table::{Deed, Step, Table};
use crate::table_ext::TableExt;

/// A key of a store's table, and what each step so far took.
pub(super) struct Player {
    pub(super) booking: Booking,
    kept: Arc<dyn StoreTable>,
    plan: Arc<Plan>,
    /// Of two levels, a key with an ancestor; each player has its own.
    key: String,
    /// Where the limit stands in the plan.
    own: usize,
    bucket: Option<Arc<AtomicBucket>>,
    taken: Vec<Amount>,
}

impl Player {
    /// `None` if it is to ask by an atomic bucket and there is none.
    pub(super) fn new(
        booking: Booking,
        kept: &Arc<dyn StoreTable>,
        plan: &Arc<Plan>,
        now: Timestamp,
    ) -> Option<Self> {
        let key = format!("{booking:?}/k");
        let bucket = match booking {
            Booking::Pinned => Some(kept.pin(plan, key.as_bytes(), now)?),
            _ => None,
        };
        Some(Self {
            booking,
            kept: Arc::clone(kept),
            plan: Arc::clone(plan),
            key,
            own: plan.position(OWN).expect("the limit itself"),
            bucket,
            taken: Vec::new(),
        })
    }

    /// Plays `table`; answers how many steps that were.
    pub(super) fn play(&mut self, table: &Table, how: &str) -> usize {
        for step in &table.steps {
            let (answer, standing) = self.act(step);
            step.must_be(answer, &standing, how);
        }
        if let Some(bucket) = self.bucket.take() {
            self.kept.unpin(self.key.as_bytes(), bucket);
        }
        table.steps.len()
    }

    /// The answer, and where the limit stands after it.
    fn act(&mut self, step: &Step) -> (Option<Verdict>, Standing) {
        let (mut taken, asks) = (0, |amount| self.amounts(amount, 1));
        let (answer, said) = match step.deed {
            Deed::Request(amount) => {
                taken = amount;
                self.take(step.at, &asks(amount))
            }
            Deed::Peek(amount) => {
                let amounts = &asks(amount);
                self.decide(step.at, Verb::Peek { amounts })
            }
            Deed::Charge(amount) => {
                let amounts = &self.amounts(amount, 0);
                let (_, said) = self.decide(step.at, Verb::Debit { amounts });
                (None, said)
            }
            Deed::Refund(earlier, back) => {
                let mut used = vec![None; self.plan.limits().len()];
                used[self.own] = Some(self.taken[earlier] - back);
                self.end(step.at, earlier, Ending::Settle(&used));
                (None, None)
            }
            Deed::Release(earlier) => {
                self.end(step.at, earlier, Ending::Release);
                (None, None)
            }
        };
        self.taken.push(taken);
        (answer, said.unwrap_or_else(|| self.look(step.at)))
    }

    /// So much of the limit itself, and `others` of each that stands beside it.
    fn amounts(&self, own: Amount, others: Amount) -> Vec<Amount> {
        let mut amounts = vec![others; self.plan.limits().len()];
        amounts[self.own] = own;
        amounts
    }

    fn take(&self, now: Timestamp, amounts: &[Amount]) -> (Option<Verdict>, Option<Standing>) {
        let lease = match self.booking {
            Booking::Leased => Some(self.terms(now)),
            Booking::ForGood => None,
            Booking::VerdictOnly | Booking::Pinned => {
                return (Some(self.admit(now, amounts)), None);
            }
        };
        let verb = Verb::Take {
            amounts,
            lease,
            detail: Detail::Always,
        };
        self.decide(now, verb)
    }

    /// As a set admits: by the atomic bucket, by the short verb of a single limit, or by that of many.
    fn admit(&self, now: Timestamp, amounts: &[Amount]) -> Verdict {
        let by_bucket = self
            .bucket
            .as_ref()
            .map(|bucket| bucket.admit(amounts[0], now));
        let answer = match by_bucket {
            Some(Ok(verdict)) => Ok(verdict),
            _ if amounts.len() == 1 => {
                let key = self.key.as_bytes();
                self.kept.admit_one(&self.plan, key, amounts[0], now)
            }
            _ => self.kept.admit(&self.plan, &self.path(), amounts, now),
        };
        answer.expect("an answer")
    }

    /// A lease is numbered by its step.
    fn terms(&self, now: Timestamp) -> Terms<'static> {
        let ttl = match &self.plan.limits()[self.own].rule {
            Rule::Slots(slots) => slots.ttl(),
            _ => LONG,
        };
        Terms {
            id: self.taken.len() as u128,
            expires_at: now + ttl,
            idempotency: None,
            least: None,
        }
    }

    fn end(&self, now: Timestamp, lease: usize, ending: Ending<'_>) {
        let verb = Verb::End {
            id: lease as u128,
            ending,
            remember: false,
        };
        let reply = self.ask(now, verb);
        assert!(matches!(reply, Reply::Settled(_)), "{reply:?} to an end");
    }

    fn look(&self, now: Timestamp) -> Standing {
        let (_, standing) = self.decide(now, Verb::Peek { amounts: &[] });
        standing.expect("a peek says where everything stands")
    }

    /// The verdict, and where the limit itself stands.
    fn decide(&self, now: Timestamp, verb: Verb<'_>) -> (Option<Verdict>, Option<Standing>) {
        match self.ask(now, verb) {
            Reply::Decision(decision) => {
                let standing = decision.standings.get(self.own).copied().flatten();
                (Some(decision.verdict), standing)
            }
            reply => panic!("{verb:?} is answered by {reply:?}"),
        }
    }

    fn ask(&self, now: Timestamp, verb: Verb<'_>) -> Reply {
        let command = KeyCommand {
            plan: &self.plan,
            key: self.path(),
            now,
            calendars: &[],
            verb,
        };
        let reply = self.kept.one(&command);
        reply.unwrap_or_else(|error| panic!("{error} to {verb:?}"))
    }

    fn path(&self) -> KeyPath<'_> {
        KeyPath::new(self.key.as_bytes(), self.plan.levels()).expect("a key")
    }
}
