//! Records in order of their keys: a treap of blocks for each bucket of a shard. A record's
//! place in the tree is told by its key and by a priority that a hash of it gives.
//!
//! A short value gives way to one that needs as many blocks in its place, and the journal
//! notes the words that differ. For any other a new record takes the old one's place, and the links to it are all
//! that is noted.

use std::convert::Infallible;

use smallvec::SmallVec;

use crate::error::Fault;
use crate::layout::{WORD, block};
use crate::txn::Txn;

/// Words of a short value, its length and its bucket's version, each with its place.
type Changes = SmallVec<[(usize, u64); SHORT + 2]>;

/// No tree is so deep, unless its links are broken.
const DEEPEST: usize = 1 << 16;

/// The longest key and the longest value.
const LONGEST: usize = 1 << 28;

/// Most values of so many words and fewer differ in a few of them from those before.
const SHORT: usize = 32;

/// A value, which needs no allocation unless it is longer than most.
pub(crate) type Bytes = SmallVec<[u8; 192]>;

/// A key, which needs none either.
pub(crate) type KeyBytes = SmallVec<[u8; 64]>;

/// A key as it is compared: words of its bytes, the first the highest.
pub(crate) struct Key {
    words: SmallVec<[u64; 8]>,
    bytes: u32,
}

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut words = SmallVec::new();
        let Ok(()) = each_word(bytes, |word| {
            words.push(word);
            Ok::<_, Infallible>(())
        });
        Self {
            words,
            bytes: bytes.len() as u32,
        }
    }
}

/// A record that was found: its first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record(usize);

/// A record that was found, with what is to be known for it to be written again and again.
#[derive(Debug)]
pub(crate) struct Site {
    record: Record,
    /// Bytes of its key.
    key: usize,
    /// Where the words of its value are, as many as its blocks hold.
    places: Vec<usize>,
}

/// Shows the words of some bytes, the first byte the highest.
#[inline(always)]
fn each_word<E>(bytes: &[u8], mut see: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for word in whole {
        see(u64::from_be_bytes(*word))?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    let mut word = [0; WORD];
    word[..rest.len()].copy_from_slice(rest);
    see(u64::from_be_bytes(word))
}

/// Spreads words of so many bytes, by a seed.
fn hash(seed: u64, words: &[u64], length: u64) -> u64 {
    let words = words.iter();
    mix(words.fold(seed ^ length, |hash, word| mix(hash ^ word)))
}

/// Spreads a word and `bytes` behind it, by a seed.
pub(crate) fn hash_of(seed: u64, first: u64, bytes: &[u8]) -> u64 {
    let mut hash = mix(seed ^ bytes.len() as u64 ^ first);
    let Ok(()) = each_word(bytes, |word| {
        hash = mix(hash ^ word);
        Ok::<_, Infallible>(())
    });
    mix(hash)
}

/// How many blocks a record has whose key and value are so many bytes.
pub(crate) const fn blocks(key: usize, value: usize) -> usize {
    let words = key.div_ceil(WORD) + value.div_ceil(WORD);
    let beyond = words.saturating_sub(block::WORDS - block::FIRST);
    1 + beyond.div_ceil(block::WORDS - block::REST)
}

/// How many words of a value so many blocks hold behind a key of so many bytes.
pub(crate) const fn words_in(blocks: usize, key: usize) -> usize {
    let beyond = blocks.saturating_sub(1) * (block::WORDS - block::REST);
    (block::WORDS - block::FIRST + beyond).saturating_sub(key.div_ceil(WORD))
}

const fn mix(word: u64) -> u64 {
    let product = (word ^ 0x9E37_79B9_7F4A_7C15) as u128 * 0xF39C_C060_5CED_C835;
    let folded = (product >> 64) as u64 ^ product as u64;
    folded ^ folded >> 29
}

/// Reads the data words of a record, one after the other.
struct Words<'t, 's> {
    txn: &'t Txn<'s>,
    block: usize,
    at: usize,
}

impl Words<'_, '_> {
    fn next(&mut self) -> Result<u64, Fault> {
        if self.at == block::WORDS {
            self.block = self.txn.get(self.block + block::NEXT)? as usize;
            self.at = block::REST;
        }
        let word = self.txn.get(self.block + self.at);
        self.at += 1;
        word
    }
}

impl<'s> Txn<'s> {
    fn words_of(&self, record: usize) -> Words<'_, 's> {
        Words {
            txn: self,
            block: record,
            at: block::FIRST,
        }
    }

    /// Bytes of a record's key, and of its value.
    fn lengths(&self, record: usize) -> Result<(usize, usize), Fault> {
        let lengths = self.get(record + block::LENGTHS)?;
        let (key, value) = (lengths as u32 as usize, (lengths >> 32) as usize);
        match key.max(value) <= LONGEST {
            true => Ok((key, value)),
            false => Err(Fault::Corrupt("a record is too long")),
        }
    }

    fn compare(&self, key: &Key, record: usize) -> Result<std::cmp::Ordering, Fault> {
        let (length, _) = self.lengths(record)?;
        let mut words = self.words_of(record);
        let kept = length.div_ceil(WORD);
        for word in key.words.iter().take(kept) {
            let order = word.cmp(&words.next()?);
            if order.is_ne() {
                return Ok(order);
            }
        }
        let both = key.words.len().cmp(&kept);
        Ok(both.then(key.bytes.cmp(&(length as u32))))
    }

    /// The key of a record.
    pub(crate) fn key(&self, record: Record) -> Result<KeyBytes, Fault> {
        let (length, _) = self.lengths(record.0)?;
        read(&mut self.words_of(record.0), length)
    }

    /// The value of a record.
    pub(crate) fn value(&self, record: Record) -> Result<Bytes, Fault> {
        let (key, length) = self.lengths(record.0)?;
        let mut words = self.words_of(record.0);
        for _ in 0..key.div_ceil(WORD) {
            words.next()?;
        }
        read(&mut words, length)
    }

    /// The record of this key in a bucket.
    pub(crate) fn find(&self, bucket: usize, key: &Key) -> Result<Option<Record>, Fault> {
        let mut at = self.get(self.bucket(bucket))? as usize;
        for _ in 0..DEEPEST {
            if at == 0 {
                return Ok(None);
            }
            at = match self.compare(key, at)? {
                std::cmp::Ordering::Equal => return Ok(Some(Record(at))),
                std::cmp::Ordering::Less => self.get(at + block::LEFT)?,
                std::cmp::Ordering::Greater => self.get(at + block::RIGHT)?,
            } as usize;
        }
        Err(endless())
    }

    /// The value under this key in a bucket.
    pub(crate) fn look_up(&self, bucket: usize, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        match self.find(bucket, &Key::new(key))? {
            Some(record) => self.value(record).map(Some),
            None => Ok(None),
        }
    }

    /// The first record whose key is not before `from` (or is behind it).
    pub(crate) fn seek(
        &self,
        bucket: usize,
        from: &[u8],
        is_behind: bool,
    ) -> Result<Option<Record>, Fault> {
        let (key, mut best) = (Key::new(from), None);
        let mut at = self.get(self.bucket(bucket))? as usize;
        for _ in 0..DEEPEST {
            if at == 0 {
                return Ok(best);
            }
            let order = self.compare(&key, at)?;
            let is_after = order.is_lt() || (order.is_eq() && !is_behind);
            let side = match is_after {
                true => {
                    best = Some(Record(at));
                    block::LEFT
                }
                false => block::RIGHT,
            };
            at = self.get(at + side)? as usize;
        }
        Err(endless())
    }

    /// Keeps `value` under `key`; whether that is new.
    pub(crate) fn put(&mut self, bucket: usize, key: &[u8], value: &[u8]) -> Result<bool, Fault> {
        self.touch(bucket)?;
        let search = Key::new(key);
        let priority = hash(self.seed(), &search.words, u64::from(search.bytes));
        let mut link = self.bucket(bucket);
        let mut at = self.get(link)? as usize;
        for _ in 0..DEEPEST {
            if at == 0 || self.get(at + block::PRIORITY)? < priority {
                let new = self.fresh(&search, value, priority)?;
                self.split(at, &search, new)?;
                self.write(link, new as u64)?;
                return Ok(true);
            }
            let side = match self.compare(&search, at)? {
                std::cmp::Ordering::Equal if self.has_room(at, value)? => {
                    self.overwrite(at, value)?;
                    return Ok(false);
                }
                std::cmp::Ordering::Equal => {
                    let new = match self.fresh(&search, value, priority) {
                        Ok(new) => new,
                        Err(Fault::Full) => {
                            self.overwrite(at, value)?;
                            return Ok(false);
                        }
                        Err(fault) => return Err(fault),
                    };
                    for side in [block::LEFT, block::RIGHT] {
                        let child = self.get(at + side)?;
                        self.fill(new + side, child);
                    }
                    self.write(link, new as u64)?;
                    self.discard(at)?;
                    return Ok(false);
                }
                std::cmp::Ordering::Less => block::LEFT,
                std::cmp::Ordering::Greater => block::RIGHT,
            };
            link = at + side;
            at = self.get(link)? as usize;
        }
        Err(endless())
    }

    /// What hangs at `at` hangs at the new record from now on, on either side of it.
    fn split(&mut self, mut at: usize, key: &Key, new: usize) -> Result<(), Fault> {
        let (mut before, mut behind) = (new + block::LEFT, new + block::RIGHT);
        for _ in 0..DEEPEST {
            if at == 0 {
                self.write(before, 0)?;
                return self.write(behind, 0);
            }
            match self.compare(key, at)? {
                std::cmp::Ordering::Greater => {
                    self.write(before, at as u64)?;
                    before = at + block::RIGHT;
                    at = self.get(before)? as usize;
                }
                _ => {
                    self.write(behind, at as u64)?;
                    behind = at + block::LEFT;
                    at = self.get(behind)? as usize;
                }
            }
        }
        Err(endless())
    }

    /// Removes the record of this key; whether it was there.
    pub(crate) fn remove(&mut self, bucket: usize, key: &[u8]) -> Result<bool, Fault> {
        let search = Key::new(key);
        let mut link = self.bucket(bucket);
        for _ in 0..DEEPEST {
            let at = self.get(link)? as usize;
            if at == 0 {
                return Ok(false);
            }
            link = match self.compare(&search, at)? {
                std::cmp::Ordering::Less => at + block::LEFT,
                std::cmp::Ordering::Greater => at + block::RIGHT,
                std::cmp::Ordering::Equal => {
                    self.touch(bucket)?;
                    self.join(link, at)?;
                    self.discard(at)?;
                    return Ok(true);
                }
            };
        }
        Err(endless())
    }

    /// What hangs at the record `at` hangs at `link` from now on.
    fn join(&mut self, mut link: usize, at: usize) -> Result<(), Fault> {
        let mut before = self.get(at + block::LEFT)? as usize;
        let mut behind = self.get(at + block::RIGHT)? as usize;
        for _ in 0..DEEPEST {
            if before == 0 || behind == 0 {
                return self.write(link, (before | behind) as u64);
            }
            let first = self.get(before + block::PRIORITY)?;
            if first >= self.get(behind + block::PRIORITY)? {
                self.write(link, before as u64)?;
                link = before + block::RIGHT;
                before = self.get(link)? as usize;
            } else {
                self.write(link, behind as u64)?;
                link = behind + block::LEFT;
                behind = self.get(link)? as usize;
            }
        }
        Err(endless())
    }

    /// A new record, which hangs nowhere yet.
    fn fresh(&mut self, key: &Key, value: &[u8], priority: u64) -> Result<usize, Fault> {
        if value.len().max(key.bytes as usize) > LONGEST {
            return Err(Fault::Full);
        }
        let first = self.block()?;
        let lengths = u64::from(key.bytes) | (value.len() as u64) << 32;
        let head = [0, 0, 0, lengths, priority];
        for (at, word) in head.into_iter().enumerate() {
            self.fill(first + at, word);
        }
        let (mut block, mut at, mut count) = (first, block::FIRST, 1);
        let mut fill = |word: u64| {
            if at == block::WORDS {
                let next = match self.block() {
                    Ok(next) => next,
                    Err(fault) => {
                        self.free(first, block, count);
                        return Err(fault);
                    }
                };
                count += 1;
                self.fill(block + block::NEXT, next as u64);
                self.fill(next + block::NEXT, 0);
                (block, at) = (next, block::REST);
            }
            self.fill(block + at, word);
            at += 1;
            Ok(())
        };
        key.words.iter().try_for_each(|word| fill(*word))?;
        each_word(value, fill)?;
        Ok(first)
    }

    /// Whether a value is short, and needs the blocks that a record has, or one fewer.
    fn has_room(&self, record: usize, value: &[u8]) -> Result<bool, Fault> {
        if value.len() > SHORT * WORD {
            return Ok(false);
        }
        let (key, _) = self.lengths(record)?;
        let words = key.div_ceil(WORD) + value.len().div_ceil(WORD);
        let (mut block, mut room) = (record, block::WORDS - block::FIRST);
        while room < words {
            block = self.get(block + block::NEXT)? as usize;
            if block == 0 {
                return Ok(false);
            }
            room += block::WORDS - block::REST;
        }
        let spare = self.get(block + block::NEXT)? as usize;
        Ok(spare == 0 || self.get(spare + block::NEXT)? == 0)
    }

    /// Writes a value over that of a record: one that it has room for, or any that its blocks hold where
    /// there is no room for a new one, since what gives something back needs none.
    fn overwrite(&mut self, first: usize, value: &[u8]) -> Result<(), Fault> {
        let (key, _) = self.lengths(first)?;
        let (mut block, mut at) = (first, block::FIRST + key.div_ceil(WORD));
        while at > block::WORDS {
            block = self.get(block + block::NEXT)? as usize;
            at -= block::WORDS - block::REST;
        }
        each_word(value, |word| {
            if at == block::WORDS {
                block = match self.get(block + block::NEXT)? as usize {
                    0 => return Err(Fault::Full),
                    next => next,
                };
                at = block::REST;
            }
            at += 1;
            self.write(block + at - 1, word)
        })?;
        let lengths = key as u64 | (value.len() as u64) << 32;
        self.write(first + block::LENGTHS, lengths)
    }

    /// Where the words of a record's value are, as many as its blocks hold.
    pub(crate) fn places(&self, record: Record) -> Result<Vec<usize>, Fault> {
        let (key, _) = self.lengths(record.0)?;
        let (mut block, mut first, mut places) = (record.0, block::FIRST, Vec::new());
        for _ in 0..LONGEST {
            // All of it is in the segment.
            self.get(block + block::WORDS - 1)?;
            places.extend(block + first..block + block::WORDS);
            block = self.get(block + block::NEXT)? as usize;
            first = block::REST;
            if block == 0 {
                return Ok(places.split_off(key.div_ceil(WORD).min(places.len())));
            }
        }
        Err(endless())
    }

    /// What is to be known of a record that is written again and again.
    pub(crate) fn site(&self, record: Record) -> Result<Site, Fault> {
        let (key, _) = self.lengths(record.0)?;
        let places = self.places(record)?;
        Ok(Site {
            record,
            key,
            places,
        })
    }

    /// Writes a short value over that of a record: two words as they are, and bytes. `false`: it
    /// has no room for it, or the value is not short, and nothing was done.
    pub(crate) fn rewrite(
        &mut self,
        bucket: usize,
        site: &Site,
        (head, rest): ([u64; 2], &[u8]),
    ) -> Result<bool, Fault> {
        let words = head.len() + rest.len().div_ceil(WORD);
        if words > site.places.len().min(SHORT) {
            return Ok(false);
        }
        let value = head.len() * WORD + rest.len();
        let lengths = site.key as u64 | (value as u64) << 32;
        let mut changes = Changes::new();
        changes.extend(self.touching(bucket));
        changes.push((site.record.0 + block::LENGTHS, lengths));
        let mut places = site.places.iter();
        let mut change = |word: u64| {
            if let Some(place) = places.next() {
                changes.push((*place, word));
            }
            Ok::<_, Infallible>(())
        };
        let Ok(()) = head.into_iter().try_for_each(&mut change);
        let Ok(()) = each_word(rest, change);
        self.write_all(&changes)?;
        Ok(true)
    }

    /// Frees the blocks of a record.
    fn discard(&mut self, first: usize) -> Result<(), Fault> {
        let mut last = first;
        for count in 1..LONGEST as u64 {
            match self.get(last + block::NEXT)? as usize {
                0 => {
                    self.free(first, last, count);
                    return Ok(());
                }
                next => last = next,
            }
        }
        Err(endless())
    }
}

fn read<const N: usize>(
    words: &mut Words<'_, '_>,
    length: usize,
) -> Result<SmallVec<[u8; N]>, Fault> {
    let mut bytes = SmallVec::from_elem(0, length.next_multiple_of(WORD));
    for chunk in bytes.as_chunks_mut::<WORD>().0 {
        *chunk = words.next()?.to_be_bytes();
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn endless() -> Fault {
    Fault::Corrupt("links lead round and round")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::layout::SMALLEST;
    use crate::options::Options;
    use crate::segment::{self, Segment};

    fn segment(dir: &tempfile::TempDir) -> Segment {
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            ..Options::default()
        };
        let path = segment::path("t", &options).expect("a name");
        Segment::open(&path, &options).expect("it opens")
    }

    fn begin(segment: &Segment) -> Txn<'_> {
        Txn::begin(segment, 3, Duration::from_secs(9)).expect("nobody has it")
    }

    fn all(txn: &Txn<'_>, bucket: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut kept = BTreeMap::new();
        let mut from = Vec::new();
        let mut is_behind = false;
        while let Some(record) = txn.seek(bucket, &from, is_behind).expect("whole") {
            from = txn.key(record).expect("whole").into_vec();
            let value = txn.value(record).expect("whole").into_vec();
            assert!(kept.insert(from.clone(), value).is_none());
            is_behind = true;
        }
        kept
    }

    /// A step that is not committed, and one that is.
    #[test]
    fn a_tree_is_a_map_whatever_is_put_removed_and_taken_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let segment = segment(&dir);
        let (mut kept, mut seed) = (BTreeMap::new(), 1_u64);
        let mut draw = move |below: u64| {
            seed = mix(seed + 1);
            seed % below
        };
        for step in 0..600 {
            let (mut txn, mut model) = (begin(&segment), kept.clone());
            for _ in 0..draw(20) {
                let length = draw(40) as usize;
                let mut key = vec![b'k'; length];
                key.extend(draw(40).to_be_bytes());
                if draw(3) == 0 {
                    let was_there = txn.remove(7, &key).expect("room");
                    assert_eq!(was_there, model.remove(&key).is_some());
                } else {
                    let value = vec![draw(256) as u8; draw(700) as usize];
                    let is_new = txn.put(7, &key, &value).expect("room");
                    assert_eq!(is_new, model.insert(key, value).is_none());
                }
            }
            if step % 3 == 0 {
                drop(txn);
            } else {
                txn.commit().expect("room");
                drop(txn);
                kept = model;
            }
            assert_eq!(all(&begin(&segment), 7), kept);
        }
        assert!(kept.len() > 100);
    }

    /// Until there is no room; then all is removed, and there is as much room as before.
    #[test]
    fn a_full_segment_refuses_and_what_is_removed_makes_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let segment = segment(&dir);
        let fill = || {
            for number in 0_u32.. {
                let mut txn = begin(&segment);
                let put = txn.put(1, &number.to_be_bytes(), &[7; 500]);
                match put.and_then(|_| txn.commit()) {
                    Ok(()) => {}
                    Err(Fault::Full) => return number,
                    Err(other) => panic!("{other:?}"),
                }
            }
            0
        };
        let first = fill();
        assert!(first > 1_000, "{first}");
        let mut txn = begin(&segment);
        let is_new = txn
            .put(1, &0_u32.to_be_bytes(), &[8; 500])
            .expect("it fits");
        assert!(!is_new);
        txn.commit().expect("it is as long");
        drop(txn);
        // In steps whose journals are longer than their place.
        for numbers in (0..first).collect::<Vec<_>>().chunks(400) {
            let mut txn = begin(&segment);
            for number in numbers {
                assert!(txn.remove(1, &number.to_be_bytes()).expect("it is there"));
            }
            txn.commit().expect("it makes room");
        }
        assert_eq!(all(&begin(&segment), 1).len(), 0);
        assert_eq!(fill(), first);
    }
}
