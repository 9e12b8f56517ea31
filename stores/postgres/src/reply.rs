//! An answer of `tidegate.decide`, read back: whole numbers in braces.
//!
//! ```text
//! every answer     kind, now, then
//! 0 decision       verdict (0 admit, 1 not until, 2 never), its instant,
//!                  binding (from 1; 0 none), refused levels, shadowed,
//!                  the instant of a refund or NULL,
//!                  id, expiry, fence, repeated of the lease, or NULLs,
//!                  whether standings follow, for each that the key reaches:
//!                  remaining, debt, when the next is there, when all are (NULL
//!                  if nothing is used),
//!                  and last of a lease when it was granted
//! 9 partial        as 0, and then what was taken of each limit that the key reaches,
//!                  and of how many limits that is
//! 7 kept back     as 0: others are first
//! 1 settled        expired, repeated, for each use: uid, taken, used
//! 2 done
//! 4 more           call again: not all that is due was done
//! 6 looked         whether the row is more than "never seen", which nobody reads
//! 5 failed         0 unknown lease, 1 ended (and when), 2 duplicate
//! ```

use tidegate_store::core::{Span, Standing, Timestamp, Verdict};
use tidegate_store::{Decision, Granted, Partial, Plan, Reply, Settlement, StoreError, Use};

use crate::error::garbled;

/// What a call came to.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    /// The command was executed.
    Reply(Reply),
    /// It was refused, and somebody ahead in line waits for the same.
    Kept(Reply),
    /// Some of what was due was done: call again.
    More,
    /// The rows have been brought up to the plan.
    Looked,
}

/// Reads the answer to a command that was made at `asked_at` by its caller's
/// clock, for the limits of `plan`.
pub(crate) fn read(text: &str, plan: &Plan, asked_at: Timestamp) -> Result<Answer, StoreError> {
    let numbers = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let mut reader = Reader {
        words: numbers.ok_or_else(|| garbled("no list"))?.split(','),
        ahead: 0,
    };
    let kind: u8 = reader.number()?;
    let now: i64 = reader.number()?;
    reader.ahead = i128::from(now) - i128::from(asked_at.as_micros());
    match kind {
        0 => Ok(Answer::Reply(Reply::Decision(reader.decision(plan)?))),
        9 => {
            let amounts = reader.taken()?;
            let partial = Partial::new(plan, reader.decision(plan)?, &amounts);
            Ok(Answer::Reply(Reply::Partial(Box::new(partial))))
        }
        7 => Ok(Answer::Kept(Reply::Decision(reader.decision(plan)?))),
        1 => Ok(Answer::Reply(Reply::Settled(reader.settlement()?))),
        2 => Ok(Answer::Reply(Reply::Done)),
        4 => Ok(Answer::More),
        6 => Ok(Answer::Looked),
        5 => Err(reader.failure()?),
        _ => Err(garbled("unknown kind")),
    }
}

/// An instant by another clock, which the deciding one is so far ahead of; the
/// ends of time are the same for all.
pub(crate) fn translated(at: Timestamp, ahead: i128) -> Timestamp {
    if at == Timestamp::MAX || at == Timestamp::MIN {
        return at;
    }
    let by = Span::from_micros(u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX));
    if ahead >= 0 { at - by } else { at + by }
}

struct Reader<'t> {
    words: std::str::Split<'t, char>,
    /// How far the deciding clock is ahead of the caller's.
    ahead: i128,
}

impl Reader<'_> {
    fn some<T: std::str::FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        match self.words.next() {
            None => Err(garbled("too short")),
            Some("NULL") => Ok(None),
            Some(word) => word.parse().map(Some).map_err(|_| garbled("no number")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        self.some()?.ok_or_else(|| garbled("nothing"))
    }

    fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.number::<u8>()? != 0)
    }

    /// An instant, by the caller's clock.
    fn instant(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let at = self.some::<i64>()?.map(Timestamp::from_micros);
        Ok(at.map(|at| translated(at, self.ahead)))
    }

    /// When a lease was granted: the number at the end, by the clock that noted it.
    fn granted_at(&mut self) -> Result<Timestamp, StoreError> {
        let mut last = Reader {
            words: self.words.next_back().unwrap_or_default().split(','),
            ahead: 0,
        };
        last.instant()?.ok_or_else(|| garbled("no instant"))
    }

    /// What was taken of each limit: the numbers at the end, the last of which says how many.
    fn taken(&mut self) -> Result<Vec<u64>, StoreError> {
        let count = self.last()?;
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(self.last()?);
        }
        taken.reverse();
        Ok(taken)
    }

    /// The number at the end.
    fn last(&mut self) -> Result<u64, StoreError> {
        let word = self.words.next_back().ok_or_else(|| garbled("too short"))?;
        word.parse().map_err(|_| garbled("no number"))
    }

    fn decision(&mut self, plan: &Plan) -> Result<Decision, StoreError> {
        let (verdict, at) = (self.number::<u8>()?, self.instant()?);
        let verdict = match verdict {
            0 => Verdict::Admit,
            1 => Verdict::NotUntil(at.ok_or_else(|| garbled("no instant"))?),
            _ => Verdict::Never,
        };
        let binding = self.number::<usize>()?.checked_sub(1);
        let mut decision = Decision::bare(verdict, binding);
        decision.refused_levels = self.number()?;
        decision.shadowed = self.flag()?;
        decision.refund_at = self.instant()?;
        decision.lease = self.lease()?;
        if self.flag()? {
            let mut rest = self.words.clone().peekable();
            for limit in plan.limits() {
                let there = rest.peek().is_some();
                let capacity = limit.rule.capacity();
                let standing = there.then(|| self.standing(capacity)).transpose()?;
                decision.standings.push(standing);
                rest = self.words.clone().peekable();
            }
        }
        Ok(decision)
    }

    fn lease(&mut self) -> Result<Option<Granted>, StoreError> {
        let (id, expires_at) = (self.some()?, self.instant()?);
        let (fence, repeated) = (self.some()?, self.some::<u8>()?);
        let (Some(id), Some(expires_at), Some(fence)) = (id, expires_at, fence) else {
            return Ok(None);
        };
        Ok(Some(Granted {
            id,
            granted_at: self.granted_at()?,
            expires_at,
            fence,
            repeated: repeated == Some(1),
        }))
    }

    fn standing(&mut self, limit: u64) -> Result<Standing, StoreError> {
        Ok(Standing {
            limit,
            remaining: self.number()?,
            debt: self.number()?,
            replenish_at: self.instant()?,
            full_at: self.instant()?,
        })
    }

    fn settlement(&mut self) -> Result<Settlement, StoreError> {
        let (expired, repeated) = (self.flag()?, self.flag()?);
        let mut uses = smallvec::SmallVec::new();
        while self.words.clone().next().is_some() {
            uses.push(Use {
                uid: self.number()?,
                taken: self.number()?,
                used: self.number()?,
            });
        }
        Ok(Settlement {
            expired,
            repeated,
            uses,
        })
    }

    fn failure(&mut self) -> Result<StoreError, StoreError> {
        let (code, at) = (self.number::<u8>()?, self.instant()?);
        match code {
            0 => Ok(StoreError::UnknownLease),
            1 => Ok(StoreError::LeaseEnded(at.unwrap_or(Timestamp::MIN))),
            2 => Ok(StoreError::DuplicateLease),
            _ => Err(garbled("unknown failure")),
        }
    }
}
