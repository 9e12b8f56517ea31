//! How one process wakes another: by a word in the segment that the other sleeps on.

use std::sync::atomic::Ordering;

use rustix::thread::futex;

use crate::kill;
use crate::layout::{header, wakeup_slot, wakeup_slot_at};
use crate::segment::Segment;

/// So many requests of a process can be told apart; more share a number.
pub(crate) const NUMBERS: u32 = wakeup_slot::BIT_WORDS as u32 * u64::BITS;

/// Wakes the request of this number of the process that has this wakeup slot.
pub(crate) fn wake_request(segment: &Segment, slot: u32, request: u32) {
    let (at, request) = (
        wakeup_slot_at(slot as usize % wakeup_slot::COUNT),
        request % NUMBERS,
    );
    let word = at + wakeup_slot::BITS + (request / u64::BITS) as usize;
    let bit = 1 << (request % u64::BITS);
    segment.mapping().words()[word].fetch_or(bit, Ordering::SeqCst);
    kill::point();
    wake(segment, at + wakeup_slot::FUTEX);
}

/// Wakes those who follow what is defined.
pub(crate) fn wake_followers(segment: &Segment) {
    wake(segment, header::DEFINED);
}

/// Wakes whoever sleeps on the futex at `at`.
pub(crate) fn wake(segment: &Segment, at: usize) {
    let word = segment.mapping().futex(at);
    word.fetch_add(1, Ordering::SeqCst);
    kill::point();
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    kill::point();
}
