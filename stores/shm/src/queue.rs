//! Those who wait for something of a root, of all processes, in order of arrival. Nobody
//! overtakes who waits for a row of his path; others under the same root may pass.
//!
//! A place is taken and given back in the step that decides: so the order of arrival is
//! that of the decisions. One whose process was killed is nobody's any more.

use std::collections::HashSet;

use tidegate_store::KeyPath;
use tidegate_store::core::{Span, Timestamp};

use crate::error::Fault;
use crate::kept::Waiter;
use crate::keys::{kind, parse};
use crate::process::{self, Process, There};
use crate::root::{Root, place_bytes, place_of};
use crate::segment::Segment;
use crate::txn::Txn;
use crate::wakeup;

/// A place in the queue, or the wish for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// What it is known by.
    pub(crate) id: u128,
    /// How much earlier than it did it counts as having come.
    pub(crate) ahead: Span,
    /// The wakeup slot of its process, and which of its requests is woken when its turn
    /// may have come.
    pub(crate) wakeup_slot: u32,
    pub(crate) number: u32,
}

/// When one counts as having come, then the order of coming.
type Place = (Timestamp, u64);

/// A request that comes to wait watches the processes of so many at most that keep it back.
const WATCHED: usize = 64;

/// So many more requests than are first it looks at for that: several may be of one process.
const LOOKED_AT: usize = 512;

/// Who is before a take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// The levels of its path for whose rows others wait, who are first.
    pub(crate) levels: u8,
    /// Whose those are that keep it back, or will once those before them are gone.
    pub(crate) processes: HashSet<Process>,
    /// Its own place, if it has one, and what is kept of it.
    own: Option<(Place, Waiter)>,
}

impl Root<'_> {
    /// Who is before a take of `path`, which waits by `turn` or does not. Places
    /// of processes that were killed are given up on the way.
    pub(crate) fn ahead(
        &mut self,
        txn: &mut Txn<'_>,
        (path, levels): (&KeyPath<'_>, usize),
        turn: Option<&Turn>,
        now: Timestamp,
    ) -> Result<Ahead, Fault> {
        let mut ahead = Ahead::default();
        if self.overview.waiting == 0 {
            return Ok(ahead);
        }
        if let Some(turn) = turn {
            ahead.own = self.place(txn, turn.id)?;
        }
        let until = match (&ahead.own, turn) {
            (Some((place, _)), _) => *place,
            (None, Some(turn)) => (now - turn.ahead, u64::MAX),
            (None, None) => (Timestamp::MAX, u64::MAX),
        };
        let (mut there, mut gone) = (There::default(), Vec::new());
        let every: u8 = u8::MAX >> (8 - path.depth());
        let mut more = match (turn, &ahead.own) {
            (Some(_), None) => LOOKED_AT,
            _ => 0,
        };
        self.each(txn, |place, waiter| {
            let is_enough = more == 0 || ahead.processes.len() >= WATCHED;
            if place >= until || (ahead.levels == every && is_enough) {
                return Ok(false);
            }
            more -= usize::from(ahead.levels == every);
            let met = meeting(&waiter, path, levels)?;
            // Who keeps nothing more back is not looked at, since this has the lock; but watched: it
            // may be killed when it is first, and was woken.
            if met & !ahead.levels == 0 {
                if met != 0 {
                    ahead.processes.insert(waiter.process);
                }
                return Ok(true);
            }
            if !there.is(waiter.process) {
                gone.push((place, waiter.turn));
                return Ok(true);
            }
            ahead.levels |= met;
            ahead.processes.insert(waiter.process);
            Ok(true)
        })?;
        for (place, turn) in gone {
            self.remove(txn, place, turn)?;
        }
        Ok(ahead)
    }

    /// The place of a turn.
    pub(crate) fn place(
        &self,
        txn: &Txn<'_>,
        turn: u128,
    ) -> Result<Option<(Place, Waiter)>, Fault> {
        let turn = self.keys.of(kind::TURN, &turn.to_be_bytes());
        let Some(place) = txn.look_up(self.keys.bucket, &turn)? else {
            return Ok(None);
        };
        let kept = txn.look_up(self.keys.bucket, &self.keys.of(kind::PLACE, &place))?;
        let kept = kept.ok_or(Fault::Corrupt("a turn has no place"))?;
        Ok(Some((place_of(&place)?, Waiter::decode(&kept)?)))
    }

    /// Shows everyone who waits, in order, until `see` has seen enough.
    fn each(
        &self,
        txn: &Txn<'_>,
        mut see: impl FnMut(Place, Waiter) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let beginning = self.keys.of(kind::PLACE, &[]);
        let mut from = beginning.clone();
        while let Some(record) = txn.seek(self.keys.bucket, &from, true)? {
            from = txn.key(record)?;
            if !from.starts_with(&beginning) {
                break;
            }
            let rest = parse(&from).map(|parsed| parsed.rest);
            let place = place_of(rest.unwrap_or_default())?;
            if !see(place, Waiter::decode(&txn.value(record)?)?)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes its place in the queue for the rows of these levels of `path`; whether it waits for
    /// fewer than before, so that others may have their turn.
    pub(crate) fn enqueue(
        &mut self,
        txn: &mut Txn<'_>,
        (path, turn): (&KeyPath<'_>, &Turn),
        (ahead, levels): (&Ahead, u8),
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let waiter = Waiter {
            turn: turn.id,
            process: process::me(),
            wakeup_slot: turn.wakeup_slot,
            number: turn.number,
            levels,
            key: path.bytes().to_vec(),
        };
        let place = match &ahead.own {
            Some((_, kept)) if *kept == waiter => return Ok(false),
            Some((place, _)) => *place,
            None => {
                self.overview.next += 1;
                self.overview.waiting += 1;
                (now - turn.ahead, self.overview.next)
            }
        };
        let (place, bucket) = (place_bytes(place), self.keys.bucket);
        let turn = self.keys.of(kind::TURN, &turn.id.to_be_bytes());
        txn.put(bucket, &turn, &place)?;
        txn.put(bucket, &self.keys.of(kind::PLACE, &place), &waiter.encode())?;
        let before = ahead.own.as_ref().map_or(0, |(_, kept)| kept.levels);
        Ok(before & !levels != 0)
    }

    /// Leaves the queue; whether it stood there.
    pub(crate) fn leave(&mut self, txn: &mut Txn<'_>, ahead: &Ahead) -> Result<bool, Fault> {
        match &ahead.own {
            Some((place, waiter)) => {
                self.remove(txn, *place, waiter.turn)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Gives the place of a turn up; whether it had one.
    pub(crate) fn give_up(&mut self, txn: &mut Txn<'_>, turn: u128) -> Result<bool, Fault> {
        match self.place(txn, turn)? {
            Some((place, _)) => {
                self.remove(txn, place, turn)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn remove(&mut self, txn: &mut Txn<'_>, place: Place, turn: u128) -> Result<(), Fault> {
        let place = self.keys.of(kind::PLACE, &place_bytes(place));
        let was_there = txn.remove(self.keys.bucket, &place)?;
        let turn = self.keys.of(kind::TURN, &turn.to_be_bytes());
        txn.remove(self.keys.bucket, &turn)?;
        self.overview.waiting = self.overview.waiting.saturating_sub(u32::from(was_there));
        Ok(())
    }

    /// Wakes everyone before whom nobody waits for a row of his path. Called before the step
    /// is done: whoever is woken waits for the lock, and so finds the step done, or whoever
    /// did it killed.
    pub(crate) fn wake_first(
        &mut self,
        txn: &mut Txn<'_>,
        segment: &Segment,
        levels: usize,
    ) -> Result<(), Fault> {
        if self.overview.waiting == 0 {
            return Ok(());
        }
        let mut blocked: HashSet<Vec<u8>> = HashSet::new();
        let (mut there, mut gone, mut first) = (There::default(), Vec::new(), Vec::new());
        let root = self.keys.root().to_vec();
        self.each(txn, |place, waiter| {
            if blocked.contains(&root) {
                return Ok(false);
            }
            let Ok(path) = KeyPath::stored(&waiter.key, levels) else {
                return Err(Fault::Corrupt("one that waits has no path"));
            };
            if path.rows().any(|row| blocked.contains(&*row)) {
                return Ok(true);
            }
            if !there.is(waiter.process) {
                gone.push((place, waiter.turn));
                return Ok(true);
            }
            first.push((waiter.wakeup_slot, waiter.number));
            let rows = path.rows().enumerate();
            let waited_for = rows.filter(|(level, _)| waiter.levels >> level & 1 == 1);
            blocked.extend(waited_for.map(|(_, row)| row.into_owned()));
            Ok(true)
        })?;
        for (place, turn) in gone {
            self.remove(txn, place, turn)?;
        }
        for (slot, number) in first {
            wakeup::wake_request(segment, slot, number);
        }
        Ok(())
    }
}

/// The levels of `path` for whose rows one waits.
fn meeting(waiter: &Waiter, path: &KeyPath<'_>, levels: usize) -> Result<u8, Fault> {
    let theirs = KeyPath::stored(&waiter.key, levels);
    let theirs = theirs.map_err(|_| Fault::Corrupt("one that waits has no path"))?;
    let both = 0..path.depth().min(theirs.depth());
    let is_met =
        |level: &usize| waiter.levels >> level & 1 == 1 && theirs.row(*level) == path.row(*level);
    Ok(both.filter(is_met).fold(0, |met, level| met | 1 << level))
}
