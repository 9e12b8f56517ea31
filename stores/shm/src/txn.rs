//! One step on a shard: all of it, or nothing, wherever its process is killed.
//!
//! Before a word is changed its old value goes to the shard's journal, and then the number
//! of entries that count. A step is done when that number is zero again. Whoever finds
//! another number has the lock of one that was killed, and puts back what the entries say,
//! the last first. (So a step that finds no room half-way is taken back by the same code as
//! one whose process was killed, and whatever is read is read where it is.)
//!
//! New blocks are written without an entry: until the step is done nobody comes to them.
//! Those that a step frees are free after it.

use std::io;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_store::StoreError;
use tidegate_store::core::{Span, Timestamp};

use crate::clock;
use crate::error::Fault;
use crate::kill;
use crate::layout::{block, chunk, chunk_at, header, shard, shard_at};
use crate::lock::{self, Found};
use crate::mapping::Mapping;
use crate::patience;
use crate::segment::Segment;

/// The machine's clock may stand behind the last command: as far as this, time stands
/// still. Beyond, it was set back, and limits go on from there.
const PATIENCE: Span = Span::from_secs(10);

/// What a heap has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Heap {
    /// The first of the free blocks.
    free: u64,
    /// The rest of the chunk that was taken last.
    bump: u64,
    end: u64,
    /// How many rows are kept.
    rows: u64,
    /// How many blocks are free.
    left: u64,
}

const OUTSIDE: Fault = Fault::Corrupt("a link leads out of the segment");

/// So many blocks stay free in a shard for what gives something back, where there is no
/// chunk to be had.
pub(crate) const SPARE: u64 = 32;

/// A step on one shard, which this thread has locked. Dropped, nothing was done.
pub(crate) struct Txn<'s> {
    segment: &'s Segment,
    number: usize,
    base: usize,
    entries: usize,
    /// Where the journal goes on.
    more: Vec<usize>,
    heap: Heap,
    kept: Heap,
    /// First and last block of what was freed, and how many they are.
    freed: SmallVec<[(usize, usize, u64); 2]>,
    /// How many blocks were taken.
    used: u64,
    /// Whether it may use up what is spared.
    gives_back: bool,
    /// Chunks that were taken.
    taken: Vec<usize>,
    /// The bucket to whose tree it has written last.
    touched: Option<usize>,
    locked: Locked<'s>,
}

/// The lock of a shard.
struct Locked<'s> {
    mapping: &'s Mapping,
    base: usize,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        lock::unlock(self.mapping, self.base);
        #[cfg(test)]
        crate::process::looks::unlocked();
    }
}

impl<'s> Txn<'s> {
    /// Begins a step on the shard `number`, once its lock is given.
    ///
    /// # Errors
    /// It is not given in time.
    #[inline]
    pub(crate) fn begin(
        segment: &'s Segment,
        number: usize,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        kill::point();
        let (mapping, base) = (segment.mapping(), shard_at(number));
        let within = patience::within(deadline);
        let found = lock::lock(mapping, base, within).map_err(broken)?;
        let found = found.ok_or_else(|| {
            patience::was_not_given(within);
            held_for(deadline)
        })?;
        let locked = Locked { mapping, base };
        #[cfg(test)]
        crate::process::looks::locked();
        if found == Found::OwnerDied {
            recover(segment, number);
            lock::consistent(mapping, base);
        }
        let heap = Heap {
            free: mapping.get(base + shard::FREE),
            bump: mapping.get(base + shard::BUMP),
            end: mapping.get(base + shard::END),
            rows: mapping.get(base + shard::ROWS),
            left: mapping.get(base + shard::LEFT),
        };
        kill::point();
        Ok(Self {
            segment,
            number,
            base,
            entries: 0,
            more: Vec::new(),
            heap,
            kept: heap,
            freed: SmallVec::new(),
            used: 0,
            gives_back: false,
            taken: Vec::new(),
            touched: None,
            locked,
        })
    }

    fn mapping(&self) -> &'s Mapping {
        self.segment.mapping()
    }

    /// What keys are spread by.
    pub(crate) const fn seed(&self) -> u64 {
        self.segment.seed()
    }

    /// Where the head of a tree is.
    pub(crate) const fn bucket(&self, number: usize) -> usize {
        self.base + shard::BUCKETS_AT + number
    }

    /// A number that every step changes that writes to the tree of a bucket: as long as it
    /// is the same, everything in that tree is where it was, as it was.
    pub(crate) fn version(&self, bucket: usize) -> u64 {
        self.mapping().get(self.base + shard::VERSIONS_AT + bucket)
    }

    /// The tree of a bucket is written to.
    pub(crate) fn touch(&mut self, bucket: usize) -> Result<(), Fault> {
        match self.touching(bucket) {
            Some((at, next)) => self.write(at, next),
            None => Ok(()),
        }
    }

    /// The word that the caller changes, since it writes to the tree of a bucket, and to what;
    /// `None`: it was changed by this step already.
    pub(crate) fn touching(&mut self, bucket: usize) -> Option<(usize, u64)> {
        if self.touched == Some(bucket) {
            return None;
        }
        self.touched = Some(bucket);
        let next = self.version(bucket).wrapping_add(1);
        Some((self.base + shard::VERSIONS_AT + bucket, next))
    }

    /// The word at `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Result<u64, Fault> {
        match self.mapping().words().get(at) {
            Some(word) => Ok(word.load(Ordering::Relaxed)),
            None => Err(OUTSIDE),
        }
    }

    /// Changes the word at `at`.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, value: u64) -> Result<(), Fault> {
        let old = self.get(at)?;
        if old == value {
            return Ok(());
        }
        self.note(at, old)?;
        self.mapping().set(at, value);
        kill::point();
        Ok(())
    }

    /// Changes the words at some places. What each was is noted first, and that the notes
    /// count is written once for all of them.
    pub(crate) fn write_all(&mut self, changes: &[(usize, u64)]) -> Result<(), Fault> {
        if self.entries + changes.len() > shard::JOURNAL {
            let mut changes = changes.iter();
            return changes.try_for_each(|(at, value)| self.write(*at, *value));
        }
        let words = self.mapping().words();
        let (mut entry, mut noted) = (self.base + shard::JOURNAL_AT + 2 * self.entries, 0);
        for (at, value) in changes {
            let old = words.get(*at).ok_or(OUTSIDE)?.load(Ordering::Relaxed);
            if old != *value {
                words[entry].store(*at as u64, Ordering::Release);
                words[entry + 1].store(old, Ordering::Release);
                entry += 2;
                noted += 1;
            }
        }
        self.count_notes(noted);
        for (at, value) in changes {
            words[*at].store(*value, Ordering::Release);
            kill::point();
        }
        Ok(())
    }

    /// Fills a word at which nobody looks before this step is done: of a block that it has
    /// [taken](Self::block), or behind those that count.
    pub(crate) fn fill(&mut self, at: usize, value: u64) {
        self.mapping().set(at, value);
    }

    /// Notes what a word was.
    #[inline]
    fn note(&mut self, at: usize, old: u64) -> Result<(), Fault> {
        let entry = self.place_of_entry()?;
        let mapping = self.mapping();
        mapping.set(entry, at as u64);
        mapping.set(entry + 1, old);
        self.count_notes(1);
        Ok(())
    }

    /// So many more entries count, which were made.
    #[inline]
    fn count_notes(&mut self, more: usize) {
        kill::point();
        self.entries += more;
        // Entries count before a word is changed. No other processor looks before it
        // has the lock, or was told by the kernel that this one's owner is dead: so it is the
        // order of this thread's instructions that matters.
        compiler_fence(Ordering::SeqCst);
        let entries = self.base + shard::ENTRIES;
        self.mapping().set(entries, self.entries as u64);
        compiler_fence(Ordering::SeqCst);
        kill::point();
    }

    #[inline]
    fn place_of_entry(&mut self) -> Result<usize, Fault> {
        let beyond = self.entries.checked_sub(shard::JOURNAL);
        let Some(beyond) = beyond else {
            return Ok(self.base + shard::JOURNAL_AT + 2 * self.entries);
        };
        if beyond / chunk::ENTRIES >= self.more.len() {
            self.lengthen()?;
        }
        Ok(place_beyond(&self.more, beyond))
    }

    /// The journal goes on in another chunk.
    fn lengthen(&mut self) -> Result<(), Fault> {
        let number = self.claim(0)?;
        let at = chunk_at(self.segment.chunks(), number);
        let link = self.more.last().copied().unwrap_or(self.base + shard::MORE);
        let mapping = self.mapping();
        mapping.set(at, 0);
        compiler_fence(Ordering::SeqCst);
        mapping.set(link, at as u64);
        kill::point();
        self.more.push(at);
        Ok(())
    }

    /// Takes a chunk that is nobody's, for this step; none before the one of number `least`.
    fn claim(&mut self, least: usize) -> Result<usize, Fault> {
        let (chunks, mapping) = (self.segment.chunks(), self.mapping());
        let pending = chunk::PENDING | owner(self.number);
        let first = mapping.get(header::NEXT_CHUNK) as usize;
        let first = if first < chunks {
            first.max(least)
        } else {
            least
        };
        let words = &mapping.words()[chunk::TABLE..chunk::TABLE + chunks];
        for number in (first..chunks).chain(least..first) {
            let word = &words[number];
            let is_free = word.load(Ordering::Relaxed) == 0;
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if is_free && word.compare_exchange(0, pending, order.0, order.1).is_ok() {
                kill::point();
                self.taken.push(number);
                mapping.set(header::NEXT_CHUNK, number as u64 + 1);
                return match self.segment.provide(number) {
                    true => Ok(number),
                    false => Err(Fault::Full),
                };
            }
        }
        Err(Fault::Full)
    }

    /// It gives something back: it may use up what is spared for that.
    pub(crate) const fn may_use_up(&mut self) {
        self.gives_back = true;
    }

    /// A block for this step to [fill](Self::fill).
    pub(crate) fn block(&mut self) -> Result<usize, Fault> {
        self.used += 1;
        if self.heap.free != 0 {
            let at = self.heap.free as usize;
            let next = self.get(at)?;
            self.note(at, next)?;
            self.heap.free = next;
            self.heap.left = self.heap.left.saturating_sub(1);
            return Ok(at);
        }
        if self.heap.bump == self.heap.end {
            self.grow()?;
        }
        let at = self.heap.bump as usize;
        self.heap.bump += block::WORDS as u64;
        Ok(at)
    }

    /// The heap has another chunk.
    fn grow(&mut self) -> Result<(), Fault> {
        let number = self.claim(chunk::JOURNALS)?;
        self.write(chunk::TABLE + number, owner(self.number))?;
        let at = chunk_at(self.segment.chunks(), number) as u64;
        while self.heap.bump < self.heap.end {
            // The rest of the last one.
            let rest = self.heap.bump as usize;
            self.fill(rest + block::NEXT, self.heap.free);
            self.heap.free = rest as u64;
            self.heap.left += 1;
            self.heap.bump += block::WORDS as u64;
        }
        (self.heap.bump, self.heap.end) = (at, at + chunk::WORDS as u64);
        Ok(())
    }

    /// What makes the heap smaller leaves something to those who give back.
    fn spare(&mut self) -> Result<(), Fault> {
        let freed: u64 = self.freed.iter().map(|(_, _, count)| count).sum();
        let rest = (self.heap.end - self.heap.bump) / block::WORDS as u64;
        if self.gives_back || self.used <= freed || self.heap.left + freed + rest >= SPARE {
            return Ok(());
        }
        self.grow()
    }

    /// The blocks from `first` to `last`, so many, which hang together, are free after this
    /// step.
    pub(crate) fn free(&mut self, first: usize, last: usize, count: u64) {
        self.freed.push((first, last, count));
    }

    /// So many rows more or less are kept.
    pub(crate) const fn count_rows(&mut self, more: u64, less: u64) {
        self.heap.rows = (self.heap.rows + more).saturating_sub(less);
    }

    /// The instant of this step: the machine's clock, as far as time goes on here; in a batch that
    /// of its first step.
    pub(crate) fn now(&self) -> Timestamp {
        clock::of_batch(|| self.clock())
    }

    fn clock(&self) -> Timestamp {
        let (now, at) = (clock::now(), self.base + shard::LATEST);
        let latest = Timestamp::from_micros(self.mapping().get(at).cast_signed());
        if latest > now && latest.since(now) <= PATIENCE {
            return latest;
        }
        self.mapping().set(at, now.as_micros().cast_unsigned());
        now
    }

    /// Whether anything was changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.entries > 0 || !self.freed.is_empty() || self.heap != self.kept
    }

    /// All of it is done. The lock is given back when the step is dropped.
    pub(crate) fn commit(&mut self) -> Result<(), Fault> {
        self.spare()?;
        while let Some((first, last, count)) = self.freed.pop() {
            self.write(last + block::NEXT, self.heap.free)?;
            self.heap.free = first as u64;
            self.heap.left += count;
        }
        if self.heap != self.kept {
            self.write_heap()?;
        }
        compiler_fence(Ordering::SeqCst);
        self.mapping().set(self.base + shard::ENTRIES, 0);
        compiler_fence(Ordering::SeqCst);
        kill::point();
        self.entries = 0;
        self.give_chunks_back();
        Ok(())
    }

    fn write_heap(&mut self) -> Result<(), Fault> {
        let Heap {
            free,
            bump,
            end,
            rows,
            left,
        } = self.heap;
        let words = [
            (shard::FREE, free),
            (shard::BUMP, bump),
            (shard::END, end),
            (shard::ROWS, rows),
            (shard::LEFT, left),
        ];
        for (at, word) in words {
            self.write(self.base + at, word)?;
        }
        Ok(())
    }

    /// Chunks that are the step's alone, still, are nobody's again.
    fn give_chunks_back(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        self.mapping().set(self.base + shard::MORE, 0);
        for number in std::mem::take(&mut self.taken) {
            give_back(self.mapping(), self.number, number);
            kill::point();
        }
    }
}

impl Drop for Txn<'_> {
    /// What was not committed is taken back.
    fn drop(&mut self) {
        debug_assert_eq!(self.locked.base, self.base);
        if self.entries > 0 {
            put_back(self.mapping(), self.base, self.entries, &self.more);
        }
        self.give_chunks_back();
    }
}

/// How a shard is called in the table of chunks.
const fn owner(shard: usize) -> u64 {
    shard as u64 + 1
}

fn place_beyond(more: &[usize], beyond: usize) -> usize {
    more[beyond / chunk::ENTRIES] + 2 + 2 * (beyond % chunk::ENTRIES)
}

/// Puts back what the first `entries` of a journal say, the last first.
fn put_back(mapping: &Mapping, base: usize, entries: usize, more: &[usize]) {
    for entry in (0..entries).rev() {
        let place = match entry.checked_sub(shard::JOURNAL) {
            None => base + shard::JOURNAL_AT + 2 * entry,
            Some(beyond) => place_beyond(more, beyond),
        };
        let (at, old) = (mapping.get(place), mapping.get(place + 1));
        if let Some(word) = mapping.words().get(at as usize) {
            word.store(old, Ordering::Relaxed);
        }
        kill::point();
    }
    compiler_fence(Ordering::SeqCst);
    mapping.set(base + shard::ENTRIES, 0);
    compiler_fence(Ordering::SeqCst);
}

fn give_back(mapping: &Mapping, shard: usize, number: usize) {
    let pending = chunk::PENDING | owner(shard);
    let word = &mapping.words()[chunk::TABLE + number];
    // One that the shard keeps stays.
    let _ = word.compare_exchange(pending, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whoever had the lock was killed: what he had not committed is taken back.
fn recover(segment: &Segment, number: usize) {
    let (mapping, base) = (segment.mapping(), shard_at(number));
    let entries = mapping.get(base + shard::ENTRIES) as usize;
    let mut more = Vec::new();
    let mut next = mapping.get(base + shard::MORE) as usize;
    while more.len() * chunk::ENTRIES < entries.saturating_sub(shard::JOURNAL) && next != 0 {
        more.push(next);
        next = mapping
            .words()
            .get(next)
            .map_or(0, |word| word.load(Ordering::Relaxed)) as usize;
    }
    put_back(mapping, base, entries, &more);
    mapping.set(base + shard::MORE, 0);
    for chunk in 0..segment.chunks() {
        give_back(mapping, number, chunk);
    }
    kill::point();
}

fn broken(error: io::Error) -> StoreError {
    StoreError::Unavailable(format!("a lock of the segment is broken: {error}"))
}

fn held_for(deadline: Duration) -> StoreError {
    StoreError::Busy(format!(
        "another process has held a lock of the segment for {} ms; is one stopped in mid-step?",
        deadline.as_millis()
    ))
}
