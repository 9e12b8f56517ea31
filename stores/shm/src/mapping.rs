//! The file in memory, as words that any process may change at any time. One of the two
//! files with `unsafe`.
#![expect(unsafe_code, reason = "memory that processes share is no Rust object")]

use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::layout::WORD;

/// A mapped file: nothing but atomic words.
#[derive(Debug)]
pub(crate) struct Mapping {
    raw: MmapRaw,
    words: usize,
}

impl Mapping {
    /// The first `words` words of `file`, which is at least as long.
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        let raw = MmapOptions::new().len(words * WORD).map_raw(file)?;
        Ok(Self { raw, words })
    }

    /// All words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let first = self.raw.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping begins at a page, is `words` words long, readable and writable,
        // and lives as long as `self`; every access by any process is atomic.
        unsafe { slice::from_raw_parts(first, self.words) }
    }

    /// The lower half of the word at `at`, for a futex. It is never used as a whole word.
    pub(crate) fn futex(&self, at: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = &raw const self.words()[at];
        // SAFETY: the word is aligned and in the mapping; of these words only this half is
        // ever used, and always as one of 32 bits.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    /// Where the word at `at` is, for a lock that C keeps there.
    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        self.words()[at].as_ptr().cast()
    }

    /// The word at `at`.
    pub(crate) fn get(&self, at: usize) -> u64 {
        self.words()[at].load(Ordering::Relaxed)
    }

    /// Sets the word at `at`. What this thread set before is there before.
    pub(crate) fn set(&self, at: usize, value: u64) {
        self.words()[at].store(value, Ordering::Release);
    }
}
