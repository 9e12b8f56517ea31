//! An answer of the script, read back. All numbers are whole.
//!
//! ```text
//! every answer     kind, now, then
//! 0 decision       verdict (0 admit, 1 not until, 2 never, 3 others are first),
//!                  its instant,
//!                  binding (-1 none), refused levels, shadowed,
//!                  whether there is an instant of a refund, which,
//!                  0 or the lease: [id, expiry, fence, repeated, granted] and, where it may
//!                  be partial, of how many limits the key reaches what was taken, and how much,
//!                  whether standings follow, for each that the key reaches: remaining, debt, whether anything is used,
//!                  when the next is there, when all are
//! 1 settled        expired, repeated, for each use: uid, taken, used
//! 2 done
//! 3 revisions       the numbers of revisions that wrote what is there
//! 4 more           owners of leases whose rows are needed; call again
//! 5 failed         0 unknown lease, 1 ended (and when), 2 duplicate
//! 6 looked         whether the row is more than "never seen"
//! 7 queued         call again with a script that knows of those who wait
//! 8 plain          verdict, its instant, binding (-1 none), then standings, or none
//! 9 unknown        nothing was done: what wrote a row is lost, and whoever wrote it is there
//! 10 granted       a plain lease: expiry, fence, then standings, or none
//! 11 not plain     nothing was done: call the whole script
//! 12 partial       a plain lease that may be partial: expiry, fence, how much of each limit,
//!                  then standings
//! ```
//!
//! A plain take that is admitted, and whose standings nobody wants, is answered by
//! now alone.

use redis::Value;
use tidegate_store::core::{Span, Standing, Timestamp, Verdict};
use tidegate_store::{Decision, Granted, Partial, Plan, Reply, Settlement, StoreError, Use};

use super::timestamp;
use crate::error::garbled;

/// What a call came to.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    /// The command was executed.
    Reply(Reply),
    /// Nothing was done: call again with these revisions, which were met at this
    /// instant of the deciding clock.
    Revisions(Vec<i64>, i64),
    /// Some of what was due was done: call again, with the rows of these keys.
    More(Vec<Vec<u8>>),
    /// Whether the row is more than "never seen".
    Looked(bool),
    /// Refused since others were first.
    Kept(Reply),
    /// Nothing was done: somebody waits.
    Queued,
    /// Nothing was done: it is for the whole script.
    NotPlain,
}

/// Reads the answer to a command that was made at `asked_at` by its caller's
/// clock, for the limits of `plan`.
pub(crate) fn read(value: Value, plan: &Plan, asked_at: Timestamp) -> Result<Answer, StoreError> {
    if let Value::Int(_) = value {
        let decision = Decision::bare(Verdict::Admit, None);
        return Ok(Answer::Reply(Reply::Decision(decision)));
    }
    let (mut reader, kind) = Reader::of(value, asked_at)?;
    match kind {
        0 => {
            let (decision, amounts, is_kept) = reader.decision(plan)?;
            let reply = match amounts {
                None => Reply::Decision(decision),
                Some(amounts) => Reply::Partial(Box::new(Partial::new(plan, decision, &amounts))),
            };
            Ok(match is_kept {
                true => Answer::Kept(reply),
                false => Answer::Reply(reply),
            })
        }
        1 => reader.settlement().map(Reply::Settled).map(Answer::Reply),
        2 => Ok(Answer::Reply(Reply::Done)),
        3 => {
            let now = reader.ahead.saturating_add(super::instant(asked_at));
            let found = reader.rest(Reader::int)?;
            Ok(Answer::Revisions(found, now))
        }
        4 => reader.rest(Reader::bytes).map(Answer::More),
        5 => Err(reader.failure()?),
        6 => reader.flag().map(Answer::Looked),
        7 => Ok(Answer::Queued),
        8 => {
            let decision = reader.plain(plan)?;
            Ok(Answer::Reply(Reply::Decision(decision)))
        }
        9 => Err(StoreError::Unavailable(UNTOLD.to_owned())),
        10 => {
            let decision = reader.granted(plan, asked_at)?;
            Ok(Answer::Reply(Reply::Decision(decision)))
        }
        11 => Ok(Answer::NotPlain),
        12 => {
            let partial = reader.partial(plan, asked_at)?;
            Ok(Answer::Reply(Reply::Partial(Box::new(partial))))
        }
        _ => Err(garbled("unknown kind")),
    }
}

/// Whoever looks after its own revision tells it within a second or two.
const UNTOLD: &str = "Redis has lost the limits of another server that decides about this \
                      key; that server writes them again in about 2 s: try again then";

pub(super) struct Reader {
    values: std::vec::IntoIter<Value>,
    /// How far the deciding clock is ahead of the caller's.
    ahead: i64,
}

/// A lease, and what was taken of each limit if the take might be partial.
type LeaseAndTaken = (Granted, Option<Vec<u64>>);

impl Reader {
    /// A reader of what comes after an answer's kind and instant, and the kind.
    fn of(value: Value, asked_at: Timestamp) -> Result<(Self, i64), StoreError> {
        let mut reader = Self::list_of(value)?;
        let kind = reader.int()?;
        reader.by(asked_at)?;
        Ok((reader, kind))
    }

    /// The same where the instant comes first, then a number.
    pub(super) fn told(value: Value, asked_at: Timestamp) -> Result<(Self, i64), StoreError> {
        let mut reader = Self::list_of(value)?;
        reader.by(asked_at)?;
        let number = reader.int()?;
        Ok((reader, number))
    }

    fn list_of(value: Value) -> Result<Self, StoreError> {
        let Value::Array(values) = value else {
            return Err(garbled("no list"));
        };
        let values = values.into_iter();
        Ok(Self { values, ahead: 0 })
    }

    /// The deciding clock's instant, when the caller's said `asked_at`.
    fn by(&mut self, asked_at: Timestamp) -> Result<(), StoreError> {
        self.ahead = self.int()?.saturating_sub(super::instant(asked_at));
        Ok(())
    }

    /// A list within the list.
    pub(super) fn list(&mut self) -> Result<Self, StoreError> {
        let list = self.values.next().ok_or_else(|| garbled("no list"))?;
        let ahead = self.ahead;
        Ok(Self {
            ahead,
            ..Self::list_of(list)?
        })
    }

    pub(super) fn int(&mut self) -> Result<i64, StoreError> {
        match self.values.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(garbled("no number")),
        }
    }

    pub(super) fn amount(&mut self) -> Result<u64, StoreError> {
        u64::try_from(self.int()?).map_err(|_| garbled("a negative number"))
    }

    pub(super) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.int()? != 0)
    }

    /// An instant, by the caller's clock.
    pub(super) fn instant(&mut self) -> Result<Timestamp, StoreError> {
        let at = timestamp(self.int()?);
        if at == Timestamp::MAX {
            return Ok(at);
        }
        let ahead = Span::from_micros(self.ahead.unsigned_abs());
        Ok(if self.ahead >= 0 {
            at - ahead
        } else {
            at + ahead
        })
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.values.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(garbled("no bytes")),
        }
    }

    pub(super) fn rest<T>(
        mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        while self.values.len() > 0 {
            all.push(read(&mut self)?);
        }
        Ok(all)
    }

    /// A decision, what was taken of each limit if it may be partial, and whether others are
    /// first.
    fn decision(mut self, plan: &Plan) -> Result<(Decision, Option<Vec<u64>>, bool), StoreError> {
        let (kind, at) = (self.int()?, self.instant()?);
        let verdict = match kind {
            0 => Verdict::Admit,
            1 | 3 => Verdict::NotUntil(at),
            _ => Verdict::Never,
        };
        let mut decision = Decision::bare(verdict, usize::try_from(self.int()?).ok());
        decision.refused_levels = self.int()? as u8;
        decision.shadowed = self.flag()?;
        let (refunds, refund_at) = (self.flag()?, self.instant()?);
        decision.refund_at = refunds.then_some(refund_at);
        let (lease, amounts) = self.lease()?.unzip();
        decision.lease = lease;
        if self.flag()? {
            for limit in plan.limits() {
                let capacity = limit.rule.capacity();
                let some = self.values.len() > 0;
                let standing = some.then(|| self.standing(capacity)).transpose()?;
                decision.standings.push(standing);
            }
        }
        Ok((decision, amounts.flatten(), kind == 3))
    }

    /// A decision about plain limits, all of one level.
    fn plain(mut self, plan: &Plan) -> Result<Decision, StoreError> {
        let (kind, at, binding) = (self.int()?, self.instant()?, self.int()?);
        let verdict = match kind {
            0 => Verdict::Admit,
            1 => Verdict::NotUntil(at),
            _ => Verdict::Never,
        };
        let mut decision = Decision::bare(verdict, usize::try_from(binding).ok());
        decision.refused_levels = u8::from(kind != 0);
        self.standings(plan, &mut decision)?;
        Ok(decision)
    }

    /// A plain lease, whose id is not said.
    fn granted(mut self, plan: &Plan, asked_at: Timestamp) -> Result<Decision, StoreError> {
        let mut decision = self.plain_lease(asked_at)?;
        self.standings(plan, &mut decision)?;
        Ok(decision)
    }

    /// The same of one that may be partial.
    fn partial(mut self, plan: &Plan, asked_at: Timestamp) -> Result<Partial, StoreError> {
        let mut decision = self.plain_lease(asked_at)?;
        let amounts = plan.limits().iter().map(|_| self.amount());
        let amounts: Vec<_> = amounts.collect::<Result<_, _>>()?;
        self.standings(plan, &mut decision)?;
        Ok(Partial::new(plan, decision, &amounts))
    }

    fn plain_lease(&mut self, asked_at: Timestamp) -> Result<Decision, StoreError> {
        let now = self.ahead.saturating_add(super::instant(asked_at));
        let mut decision = Decision::bare(Verdict::Admit, None);
        decision.lease = Some(Granted {
            id: 0,
            granted_at: timestamp(now),
            expires_at: self.instant()?,
            fence: self.amount()?,
            repeated: false,
        });
        Ok(decision)
    }

    /// Those of all limits of one level, if they follow.
    fn standings(&mut self, plan: &Plan, decision: &mut Decision) -> Result<(), StoreError> {
        if self.values.len() > 0 {
            for limit in plan.limits() {
                let standing = self.standing(limit.rule.capacity())?;
                decision.standings.push(Some(standing));
            }
        }
        Ok(())
    }

    fn lease(&mut self) -> Result<Option<LeaseAndTaken>, StoreError> {
        if !matches!(self.values.as_slice().first(), Some(Value::Array(_))) {
            self.values.next();
            return Ok(None);
        }
        let mut lease = self.list()?;
        let id = lease.bytes()?.try_into().map_err(|_| garbled("no id"))?;
        let (expires_at, fence) = (lease.instant()?, lease.amount()?);
        let (repeated, granted_at) = (lease.flag()?, timestamp(lease.int()?));
        let granted = Granted {
            id: u128::from_be_bytes(id),
            granted_at,
            expires_at,
            fence,
            repeated,
        };
        let mut amounts = lease.rest(Reader::amount)?;
        let is_partial = !amounts.is_empty();
        Ok(Some((granted, is_partial.then(|| amounts.split_off(1)))))
    }

    fn standing(&mut self, limit: u64) -> Result<Standing, StoreError> {
        let (remaining, debt) = (self.amount()?, self.amount()?);
        let used = self.flag()?;
        let (replenish_at, full_at) = (self.instant()?, self.instant()?);
        Ok(Standing {
            limit,
            remaining,
            debt,
            replenish_at: used.then_some(replenish_at),
            full_at: used.then_some(full_at),
        })
    }

    fn settlement(mut self) -> Result<Settlement, StoreError> {
        let (expired, repeated) = (self.flag()?, self.flag()?);
        let uses = self.rest(|reader| {
            Ok(Use {
                uid: reader.amount()? as u32,
                taken: reader.amount()?,
                used: reader.amount()?,
            })
        })?;
        Ok(Settlement {
            expired,
            repeated,
            uses: uses.into(),
        })
    }

    fn failure(mut self) -> Result<StoreError, StoreError> {
        let (code, at) = (self.int()?, self.instant()?);
        match code {
            0 => Ok(StoreError::UnknownLease),
            1 => Ok(StoreError::LeaseEnded(at)),
            2 => Ok(StoreError::DuplicateLease),
            _ => Err(garbled("unknown failure")),
        }
    }
}
