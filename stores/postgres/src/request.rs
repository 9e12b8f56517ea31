//! A command on its way: all of it that is needed once its caller has gone on.

use std::ops::Range;
use std::sync::Arc;

use tidegate_store::core::{Amount, Bounds, MAX_AMOUNT, Timestamp};
use tidegate_store::{Detail, Ending, KeyCommand, KeyPath, Plan, Verb};

use crate::plan;

/// What brings rows up to the plan and does nothing else.
const LOOK: i32 = 7;

/// A take.
pub(crate) const TAKE: i32 = 0;

/// A take as a lease.
pub(crate) const LEASE: i32 = 1;

/// The end of a lease.
pub(crate) const END: i32 = 4;

/// A longer key is not in the index as it is (`tidegate.short`).
const INDEXED: usize = 255;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) plan: Arc<Plan>,
    /// The plan with the limits that the keys of the path have of their own.
    pub(crate) deciding: Arc<Plan>,
    /// Its numbers, if that is another, and which levels have any.
    pub(crate) rules: Option<String>,
    pub(crate) own: Vec<bool>,
    pub(crate) now: Timestamp,
    pub(crate) bounds: Box<[Option<Bounds>]>,
    pub(crate) key: Vec<u8>,
    /// Where each of its ancestors ends, and it itself.
    pub(crate) ends: Vec<i32>,
    /// Where the outermost is in it.
    root: Range<usize>,
    pub(crate) calendars: Vec<Option<i64>>,
    pub(crate) verb: i32,
    pub(crate) amounts: Vec<i64>,
    /// How much is to be said, as it is and as a number.
    pub(crate) wanted: Detail,
    pub(crate) detail: i32,
    pub(crate) id: Option<String>,
    pub(crate) until: i64,
    pub(crate) idempotency: Option<Vec<u8>>,
    pub(crate) ending: i32,
    /// What was used of each limit, or for a failure whether it comes back; of a take that may
    /// be partial the least.
    pub(crate) used: Vec<Option<i64>>,
    pub(crate) remember: bool,
}

impl Request {
    /// The outermost ancestor of its key.
    pub(crate) fn root(&self) -> &[u8] {
        &self.key[self.root.clone()]
    }

    /// Whether it asks for a lease.
    pub(crate) const fn makes_lease(&self) -> bool {
        self.verb == LEASE
    }

    /// Whether its key is in the index as it is.
    pub(crate) const fn is_indexed(&self) -> bool {
        self.key.len() <= INDEXED
    }

    pub(crate) fn new(command: &KeyCommand<'_>) -> Self {
        let (plan, calendars) = (command.plan, command.calendars);
        let mut request = Self::look(plan, &command.key, command.now, calendars);
        request.ask_for(&command.verb);
        request
    }

    /// A look at the rows of `key`, which brings them up to `plan`.
    pub(crate) fn look(
        plan: &Arc<Plan>,
        key: &KeyPath<'_>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
    ) -> Self {
        let deciding = plan.at(key);
        let own = match &deciding {
            Some(_) => plan::own_levels(plan, key),
            None => Vec::new(),
        };
        let is_moved = |deciding: &Plan| plan.moved(deciding, key).next().is_some();
        let has_own = own.contains(&true) || deciding.as_deref().is_some_and(is_moved);
        Self {
            plan: Arc::clone(plan),
            rules: deciding.as_deref().filter(|_| has_own).map(plan::numbers),
            deciding: deciding.unwrap_or_else(|| Arc::clone(plan)),
            own,
            now,
            bounds: calendars.into(),
            key: key.bytes().to_vec(),
            ends: key.segments().map(|segment| segment.end as i32).collect(),
            root: key.segments().next().unwrap_or_default(),
            calendars: plan::calendars(calendars),
            verb: LOOK,
            amounts: Vec::new(),
            wanted: Detail::Verdict,
            detail: 0,
            id: None,
            until: 0,
            idempotency: None,
            ending: 0,
            used: Vec::new(),
            remember: false,
        }
    }

    fn ask_for(&mut self, verb: &Verb<'_>) {
        match *verb {
            Verb::Take {
                amounts,
                lease,
                detail,
            } => {
                (self.verb, self.amounts, self.wanted) = (TAKE, whole(amounts), detail);
                self.detail = number_of(detail);
                if let Some(terms) = lease {
                    self.verb = LEASE;
                    self.id = Some(terms.id.to_string());
                    self.until = terms.expires_at.as_micros();
                    self.idempotency = terms.idempotency.map(<[u8]>::to_vec);
                    if let Some(least) = terms.least {
                        self.detail = number_of(Detail::Always);
                        self.used = least.iter().map(|&least| Some(amount(least))).collect();
                        // That there is any says that it may be partial.
                        self.used.resize(amounts.len(), Some(0));
                    }
                }
            }
            Verb::Debit { amounts } => (self.verb, self.amounts) = (2, whole(amounts)),
            Verb::Peek { amounts } => (self.verb, self.amounts) = (3, whole(amounts)),
            Verb::End {
                id,
                ending,
                remember,
            } => {
                (self.verb, self.id, self.remember) = (END, Some(id.to_string()), remember);
                (self.ending, self.used) = ended(ending);
            }
            Verb::Renew { id, until } => {
                (self.verb, self.id) = (5, Some(id.to_string()));
                self.until = until.as_micros();
            }
            Verb::Adjust {
                id,
                to,
                overdraw,
                detail,
            } => {
                (self.verb, self.id) = (8, Some(id.to_string()));
                (self.ending, self.used) = (i32::from(overdraw), numbers(to));
                (self.wanted, self.detail) = (detail, number_of(detail));
            }
            Verb::Reset => self.verb = 6,
        }
    }
}

fn ended(ending: Ending<'_>) -> (i32, Vec<Option<i64>>) {
    match ending {
        Ending::Settle(used) => (0, numbers(used)),
        Ending::Release => (1, Vec::new()),
        Ending::Fail(back) => (2, back.iter().map(|&b| Some(i64::from(b))).collect()),
        Ending::Cancel => (3, Vec::new()),
    }
}

const fn number_of(detail: Detail) -> i32 {
    match detail {
        Detail::Verdict => 0,
        Detail::OnRefusal => 1,
        Detail::Always => 2,
    }
}

fn numbers(amounts: &[Option<Amount>]) -> Vec<Option<i64>> {
    amounts.iter().map(|number| number.map(amount)).collect()
}

fn whole(amounts: &[Amount]) -> Vec<i64> {
    amounts.iter().map(|&number| amount(number)).collect()
}

/// No amount is larger than 2^53 - 1.
fn amount(number: Amount) -> i64 {
    number.min(MAX_AMOUNT) as i64
}
