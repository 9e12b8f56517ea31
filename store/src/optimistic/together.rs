//! Several commands of one root over one load and one write: each by an [`Attempt`] of its own,
//! over what was found and what those before it have changed, all at one instant.
//!
//! It is for those that are no business of a lease: takes without one, debits and looks. Whatever
//! else is met (a command about a lease, a step that needs more than was loaded) ends it before
//! that command, which is then for an attempt by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::attempt::{Attempt, Step};
use super::clock::Clock;
use super::exchange::{LoadReply, LoadRequest, RowWrite, UsageWrite, WriteSet};
use super::owned_key_command::OwnedKeyCommand;
use super::revision::PlanRevision;
use crate::error::StoreError;
use crate::reply::Answer;

/// What is known of each row by now.
type RowsByKey = BTreeMap<Box<[u8]>, Option<Vec<u8>>>;

/// Several commands of one root, each by an [`Attempt`] of its own over one load and one write.
///
/// It is for takes without a lease, debits and looks. Whatever else is met ends it before
/// that command, which is then for an attempt by itself.
#[derive(Debug)]
pub struct Together<'r> {
    requests: &'r [OwnedKeyCommand],
    own: Arc<PlanRevision>,
    clock: Clock,
    /// How many rows and hours of usage may be written.
    room: usize,
    wanted: LoadRequest,
}

/// What they came to.
#[derive(Debug)]
pub enum Decided {
    /// Make these revisions known, and decide again: nothing was.
    Revisions(Vec<u32>),
    /// Write this, if anything, with the same care as what an [`Attempt`] wants written; then these
    /// are the answers to the first of the commands. There are none if the first is to be
    /// decided by itself.
    Answers(Vec<Answer>, Option<WriteSet>),
}

/// What one of them came to.
enum One {
    Revisions(Vec<u32>),
    Answer(Answer, Option<Box<WriteSet>>),
    /// It is for an attempt by itself.
    Alone,
}

impl<'r> Together<'r> {
    /// As many of `requests` as may be decided together, from the first on; `None` if these are
    /// fewer than two. All are of one root and by the plan of which `own` is the revision. A
    /// write has no more rows and hours of usage of a row than `room`.
    ///
    /// # Errors
    /// A key is none under the plan's levels.
    pub fn of(
        requests: &'r [OwnedKeyCommand],
        own: Arc<PlanRevision>,
        clock: Clock,
        room: usize,
    ) -> Result<Option<Self>, StoreError> {
        let plain = requests
            .iter()
            .take_while(|request| !request.is_about_leases());
        let requests = &requests[..plain.count()];
        let mut wanted = LoadRequest::default();
        let mut seen = BTreeMap::new();
        let mut count = 0;
        for request in requests {
            let mut attempt = Attempt::new(request, Arc::clone(&own), Arc::default(), clock);
            let first = attempt.begin()?;
            let new = first.rows.iter().filter(|row| !seen.contains_key(*row));
            if seen.len() + new.count() > room {
                break;
            }
            for row in first.rows {
                if seen.insert(row.clone(), ()).is_none() {
                    wanted.rows.push(row);
                }
            }
            wanted.due = first.due;
            count += 1;
        }
        Ok((count > 1).then(|| Self {
            requests: &requests[..count],
            own,
            clock,
            room,
            wanted,
        }))
    }

    /// The commands that may be decided.
    #[must_use]
    pub const fn requests(&self) -> &'r [OwnedKeyCommand] {
        self.requests
    }

    /// What is loaded: the rows of all keys and their ancestors, the root's first, and the next
    /// leases that are due.
    #[must_use]
    pub const fn wanted(&self) -> &LoadRequest {
        &self.wanted
    }

    /// Decides them by what was `found`, as of its instant. `known` are revisions that may be met.
    #[must_use]
    pub fn decide(
        &self,
        found: LoadReply,
        known: &Arc<BTreeMap<u32, Arc<PlanRevision>>>,
    ) -> Decided {
        let keys = self.wanted.rows.iter().cloned();
        let mut rows: RowsByKey = keys.zip(found.rows.iter().cloned()).collect();
        let (mut answers, mut writes) = (Vec::new(), Writes::default());
        for request in self.requests {
            match self.one(request, &found, &rows, known) {
                One::Revisions(numbers) if answers.is_empty() => {
                    return Decided::Revisions(numbers);
                }
                // Those before it are decided: where only so many revisions are known, to learn
                // its own may forget what they needed.
                One::Revisions(_) | One::Alone => break,
                One::Answer(answer, None) => answers.push(answer),
                One::Answer(answer, Some(write)) => {
                    // What changes a lease is not seen by those behind it.
                    let is_last = !write.leases.is_empty();
                    if is_last && !answers.is_empty() || !writes.have_room(&write, self.room) {
                        break;
                    }
                    for row in &write.rows {
                        rows.insert(row.key.clone(), row.bytes.clone());
                    }
                    writes.add(*write);
                    answers.push(answer);
                    if is_last {
                        break;
                    }
                }
            }
        }
        Decided::Answers(answers, writes.all)
    }

    fn one(
        &self,
        request: &OwnedKeyCommand,
        found: &LoadReply,
        rows: &RowsByKey,
        known: &Arc<BTreeMap<u32, Arc<PlanRevision>>>,
    ) -> One {
        let (own, known) = (Arc::clone(&self.own), Arc::clone(known));
        let mut attempt = Attempt::new(request, own, known, self.clock).with_room(self.room);
        let wanted = match attempt.begin() {
            Ok(wanted) => wanted,
            Err(error) => return One::Answer(Err(error), None),
        };
        let row = |key| rows.get(key).cloned().flatten();
        let step = attempt.found(LoadReply {
            now: found.now,
            version: found.version,
            rows: wanted.rows.iter().map(row).collect(),
            leases: found.leases.clone(),
            due: found.due.clone(),
        });
        match step {
            Step::Done(answer) => One::Answer(answer, None),
            Step::Write(write, Some(answer)) => One::Answer(answer, Some(Box::new(write))),
            Step::Revisions(numbers) => One::Revisions(numbers),
            Step::Load(_) | Step::Write(_, None) => One::Alone,
        }
    }
}

/// What all of them want written, as one.
#[derive(Default)]
struct Writes {
    all: Option<WriteSet>,
}

impl Writes {
    /// Whether there is room for what is in `write` and not here yet. (For the first there is:
    /// an attempt by itself has it.)
    fn have_room(&self, write: &WriteSet, room: usize) -> bool {
        let Some(all) = &self.all else { return true };
        let new_rows = write.rows.iter().filter(|row| !has_row(all, &row.key));
        let new_hours = write.usage.iter().filter(|used| !has_hour(all, used));
        let hours = all.usage.chunk_by(is_of_one).count();
        all.rows.len() + new_rows.count() + hours + new_hours.count() <= room
    }

    fn add(&mut self, write: WriteSet) {
        let Some(all) = &mut self.all else {
            self.all = Some(write);
            return;
        };
        all.may_have_leases = write.may_have_leases;
        for row in write.rows {
            match all.rows.iter_mut().find(|known| known.key == row.key) {
                Some(known) => *known = row,
                None => all.rows.push(row),
            }
        }
        for used in write.usage {
            add_used(&mut all.usage, used);
        }
    }
}

fn has_row(all: &WriteSet, key: &[u8]) -> bool {
    all.rows.iter().any(|row: &RowWrite| *row.key == *key)
}

fn has_hour(all: &WriteSet, used: &UsageWrite) -> bool {
    all.usage.iter().any(|known| is_of_one(known, used))
}

/// Whether both are of one hour of one row.
fn is_of_one(one: &UsageWrite, other: &UsageWrite) -> bool {
    (&one.key, one.hour) == (&other.key, other.hour)
}

/// Each record stays once, and those of one hour of a row together.
fn add_used(all: &mut Vec<UsageWrite>, used: UsageWrite) {
    let same = |known: &&mut UsageWrite| is_of_one(known, &used) && known.limit == used.limit;
    if let Some(known) = all.iter_mut().find(same) {
        known.sum.add_all(used.sum);
        return;
    }
    let place = all.iter().rposition(|known| is_of_one(known, &used));
    all.insert(place.map_or(all.len(), |place| place + 1), used);
}

/// So many commands are executed by themselves once a line was met: each try together would load
/// all rows to be told so again.
const ALONE: usize = 32;

/// How far a batch has come: its instant, where the backend's clock decides, and how many of its
/// commands are next for attempts by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchProgress {
    first: Option<Timestamp>,
    alone: usize,
}

impl BatchProgress {
    /// The instant for what was loaded at `now` by the backend's clock: that of the first that were
    /// decided, if any were.
    #[must_use]
    pub fn instant(&self, now: Timestamp) -> Timestamp {
        self.first.map_or(now, |first| first.min(now))
    }

    /// Some were decided at this instant.
    pub fn decided(&mut self, at: Timestamp) {
        self.first.get_or_insert(at);
    }

    /// Requests wait for a key of the batch: what is next is executed by itself.
    pub const fn meet_line(&mut self) {
        self.alone = ALONE;
    }

    /// Whether the next one is executed by itself, without a try together.
    pub const fn is_next_alone(&mut self) -> bool {
        let is_alone = self.alone > 0;
        self.alone = self.alone.saturating_sub(1);
        is_alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first load gave it, also where its write was lost: what had come free until the next
    /// try was refused.
    #[test]
    fn a_batch_has_the_instant_of_the_first_that_were_decided() {
        let at = Timestamp::from_micros;
        let mut progress = BatchProgress::default();
        assert_eq!(progress.instant(at(5)), at(5));
        assert_eq!(progress.instant(at(9)), at(9));
        progress.decided(at(9));
        progress.decided(at(12));
        assert_eq!(
            (progress.instant(at(12)), progress.instant(at(7))),
            (at(9), at(7))
        );
    }

    /// Each command loaded all rows of the batch again.
    #[test]
    fn where_a_line_was_met_the_next_are_not_tried_together() {
        let mut progress = BatchProgress::default();
        assert!(!progress.is_next_alone());
        progress.meet_line();
        let alone = (0..1_000).filter(|_| progress.is_next_alone());
        assert_eq!(alone.count(), ALONE);
    }
}
