//! A plain root that a process has at hand: what an attempt knew of it when it ended. If
//! nobody has written to the root since, the next plain command is decided on that, and
//! nothing is loaded or decoded for it.
//!
//! A root is plain if its plan has one level, no calendars, no capacities that move, no
//! limits for single keys, counts no usage, and gives nothing back when a lease expires. A command is plain
//! if it takes, as a lease or not and under no idempotency key, or ends a lease that need
//! not be remembered. Any other is for an [`Attempt`](super::Attempt), and so is all that is due.

use std::sync::Arc;

use tidegate_core::{State, Timestamp};

use crate::bytes::encode_record;
use crate::command::{KeyCommand, Verb};
use crate::decide::{self, Row};
use crate::ledger::{LeaseStage, Ledger, Record};
use crate::optimistic::answer;
use crate::optimistic::clock::Clock;
use crate::optimistic::owned_key_command::moved;
use crate::optimistic::revision::PlanRevision;
use crate::optimistic::stored_row::{self, RootHeader};
use crate::owned::OwnedKey;
use crate::plan::{Plan, PlanLimit};
use crate::reply::{Answer, Reply};

/// So many leases of a root are known at most; of one that has more, nothing is at hand.
const MOST_LEASES: usize = 4_096;

/// What an attempt knew of a root that is plain: its plan has one level, no calendars, no
/// capacities that move, no limits for single keys, counts no usage, and gives nothing back when
/// a lease expires. As long as nobody has written to the root since, [`decide`](Self::decide) needs nothing
/// loaded.
#[derive(Debug)]
pub struct RootAtHand {
    own: Arc<PlanRevision>,
    clock: Clock,
    head: RootHeader,
    /// When its row was written last.
    latest: Timestamp,
    states: Row,
    /// Those of its leases that are known.
    ledger: Ledger<OwnedKey>,
    /// No lease is due before, known or not.
    due_from: Timestamp,
    /// It has no other leases than these.
    knows_all: bool,
    /// Whether a limit of it is held: then the end of another process may admit.
    is_held: bool,
    /// The row's bytes as they are kept.
    row: Vec<u8>,
    bytes: Vec<u8>,
}

/// What a command comes to at a root at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// An attempt is to decide it. What is at hand is good for nothing any more.
    Unknown,
    /// Nothing is to be written.
    None,
    /// The row is to be written, and the lease that was made, if one was.
    Taken(Option<NewLease>),
    /// The row is to be written, and the lease of this id is no more.
    Ended(u128),
}

/// A lease that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewLease {
    /// Its id.
    pub id: u128,
    /// When it is to be looked at.
    pub due: Timestamp,
    /// Its position among those that are due at the same instant.
    pub sequence: u64,
}

/// The row of a root at hand, as it is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowAtHand<'r> {
    /// As of a [`RowWrite`](super::RowWrite).
    pub forget_at: Timestamp,
    /// As of a [`RowWrite`](super::RowWrite).
    pub keep_until: Timestamp,
    /// Its bytes.
    pub bytes: &'r [u8],
}

impl RootAtHand {
    /// What an attempt by `own` knew: the root's row as it was written last, at `latest`, and
    /// leases before which no other is due until `unknown`; `None` where the plan is not plain,
    /// or there are too many leases.
    pub(crate) fn new(
        (own, clock): (Arc<PlanRevision>, Clock),
        head: RootHeader,
        (latest, states): (Timestamp, Row),
        (mut ledger, unknown): (Ledger<OwnedKey>, Timestamp),
    ) -> Option<Self> {
        if !is_plain(&own.plan) || ledger.len() > MOST_LEASES {
            return None;
        }
        ledger.stop_noting();
        let known = ledger.next_due().unwrap_or(Timestamp::MAX);
        let limits = own.plan.limits();
        let mut at_hand = Self {
            is_held: limits.iter().any(|limit| limit.rule.is_held()),
            own,
            clock,
            head,
            latest,
            states,
            ledger,
            due_from: unknown.min(known),
            knows_all: unknown == Timestamp::MAX,
            row: Vec::new(),
            bytes: Vec::new(),
        };
        let mut row = Vec::new();
        at_hand.encode(&mut row);
        at_hand.row = row;
        Some(at_hand)
    }

    /// Whether this is the plan that it goes by.
    #[must_use]
    pub fn is_by(&self, plan: &Arc<Plan>) -> bool {
        Arc::ptr_eq(&self.own.plan, plan)
    }

    /// Executes a command on the root's own key, as of the backend's clock: what is to be
    /// written for it. The answer is by the caller's clock.
    pub fn decide(
        &mut self,
        command: &KeyCommand<'_>,
        server: Timestamp,
        answer: &mut Answer,
    ) -> Change {
        let now = self.clock.instant(command.now, server, self.latest);
        let is_known = now < self.due_from && command.calendars.is_empty();
        if !is_known || !self.is_plain_verb(&command.verb) {
            return Change::Unknown;
        }
        let asked = command.now;
        let command = KeyCommand {
            now,
            verb: command.verb.translated(|at| moved(at, asked, now)),
            ..*command
        };
        let owner = || OwnedKey::new(command.key.bytes());
        let rows = std::slice::from_mut(&mut self.states);
        decide::execute(&command, rows, &mut self.ledger, owner, answer);
        let change = self.change(&command, now, answer);
        answer::by_the_callers_clock(answer, now, asked);
        change
    }

    fn is_plain_verb(&self, verb: &Verb<'_>) -> bool {
        match verb {
            Verb::Take { lease, .. } => lease.is_none_or(|terms| terms.idempotency.is_none()),
            Verb::End { id, remember, .. } => {
                let plain = self.ledger.get(*id).is_some_and(|record| {
                    matches!(record.stage, LeaseStage::Live) && record.idempotency().is_none()
                });
                plain && !remember
            }
            _ => false,
        }
    }

    /// What is to be written after a command.
    fn change(&mut self, command: &KeyCommand<'_>, now: Timestamp, answer: &Answer) -> Change {
        let change = match (answer, command.verb) {
            (Ok(Reply::Decision(decision)), _) if !decision.verdict.admitted() => {
                return self.nothing_but_a_step_back(self.is_held);
            }
            (Ok(_), Verb::Take { lease: None, .. }) => Change::Taken(None),
            (
                Ok(_),
                Verb::Take {
                    lease: Some(terms), ..
                },
            ) => Change::Taken(Some(self.made(terms.id, terms.expires_at))),
            (Ok(_), Verb::End { id, .. }) => Change::Ended(id),
            _ => return self.nothing_but_a_step_back(false),
        };
        self.latest = now;
        change
    }

    /// What a refusal or an error changes: of a clock that stepped back note is taken also there, by
    /// an attempt; so it is where another `may_admit`.
    fn nothing_but_a_step_back(&mut self, may_admit: bool) -> Change {
        match may_admit || !self.is_as_kept() {
            true => Change::Unknown,
            false => Change::None,
        }
    }

    fn made(&mut self, id: u128, due: Timestamp) -> NewLease {
        let sequence = self.head.sequence;
        self.head.sequence += 1;
        self.head.until = self.head.until.max(due + self.own.plan.keep());
        self.due_from = self.due_from.min(due);
        NewLease { id, due, sequence }
    }

    /// The root's row.
    pub fn row(&mut self) -> RowAtHand<'_> {
        let forget_at = forget_states_at(self.own.plan.limits(), &self.states);
        self.head.until = self.head.until.max(forget_at);
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        self.encode(&mut row);
        self.row = row;
        RowAtHand {
            forget_at,
            keep_until: match self.clock {
                Clock::Caller => Timestamp::MAX,
                Clock::Server => self.head.until,
            },
            bytes: &self.row,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let limits = stored_row::Limits {
            revision: self.own.number,
            own: None,
            retained: &[],
        };
        stored_row::encode(self.latest, Some(&self.head), &limits, &self.states, out);
    }

    fn is_as_kept(&mut self) -> bool {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        self.encode(&mut bytes);
        self.bytes = bytes;
        self.bytes == self.row
    }

    /// A lease of it that is known.
    #[must_use]
    pub fn lease(&self, id: u128) -> Option<&Record<OwnedKey>> {
        self.ledger.get(id)
    }

    /// Whether it has no other leases than those that are known.
    #[must_use]
    pub const fn knows_all_leases(&self) -> bool {
        self.knows_all
    }

    /// The record of a lease that was made.
    pub fn record(&mut self, id: u128) -> &[u8] {
        self.bytes.clear();
        if let Some(record) = self.ledger.get(id) {
            encode_record(record, &mut self.bytes);
        }
        &self.bytes
    }

    /// Whether it knows more leases than are kept at hand.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.ledger.len() > MOST_LEASES
    }
}

fn is_plain(plan: &Plan) -> bool {
    let stays = |limit: &PlanLimit| !limit.refund_on_expiry && limit.adaptive.is_none();
    let is_flat = plan.levels() == 1 && plan.overrides().is_empty();
    is_flat && plan.usage().is_none() && plan.limits().iter().all(stays)
}

/// From when on the states of these limits equal "never seen".
pub(crate) fn forget_states_at(limits: &[PlanLimit], states: &[State]) -> Timestamp {
    let states = limits.iter().zip(states);
    let instants = states.map(|(limit, state)| limit.rule.forget_at(state));
    instants.max().unwrap_or(Timestamp::MIN)
}
