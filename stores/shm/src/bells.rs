//! How one process wakes another: by a word in the segment that the other sleeps on.

use std::sync::atomic::Ordering;

use rustix::thread::futex;

use crate::kill;
use crate::layout::{bell, bell_at, header};
use crate::segment::Segment;

/// So many requests of a process can be told apart; more share a number.
pub(crate) const NUMBERS: u32 = bell::BIT_WORDS as u32 * u64::BITS;

/// Wakes the request of this number of the process that has this bell.
pub(crate) fn ring(segment: &Segment, number: u32, request: u32) {
    let (at, request) = (bell_at(number as usize % bell::COUNT), request % NUMBERS);
    let word = at + bell::BITS + (request / u64::BITS) as usize;
    let bit = 1 << (request % u64::BITS);
    segment.mapping().words()[word].fetch_or(bit, Ordering::SeqCst);
    kill::point();
    wake(segment, at + bell::RUNG);
}

/// Those who follow what is defined are to look.
pub(crate) fn tell_followers(segment: &Segment) {
    wake(segment, header::DEFINED);
}

/// Wakes who has the bell at `at`, whoever it is for.
pub(crate) fn wake(segment: &Segment, at: usize) {
    let word = segment.mapping().futex(at);
    word.fetch_add(1, Ordering::SeqCst);
    kill::point();
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    kill::point();
}
