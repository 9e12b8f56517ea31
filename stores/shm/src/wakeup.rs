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

/// Shows the requests of a process that are marked, once each, and answers what its futex was
/// before: whoever is marked later has moved it since.
pub(crate) fn take_marked(segment: &Segment, slot: u32, mut show: impl FnMut(u32)) -> u32 {
    let (mapping, at) = (
        segment.mapping(),
        wakeup_slot_at(slot as usize % wakeup_slot::COUNT),
    );
    let seen = mapping
        .futex(at + wakeup_slot::FUTEX)
        .load(Ordering::SeqCst);
    interleave();
    for word in 0..wakeup_slot::BIT_WORDS {
        let mut marked = mapping.words()[at + wakeup_slot::BITS + word].swap(0, Ordering::SeqCst);
        while marked != 0 {
            let bit = marked.trailing_zeros();
            marked &= marked - 1;
            show(word as u32 * u64::BITS + bit);
        }
    }
    interleave();
    seen
}

/// Sleeps until the futex of a process is no longer as it was seen.
#[cfg(not(shuttle))]
pub(crate) fn sleep(segment: &Segment, slot: u32, seen: u32) {
    let at = wakeup_slot_at(slot as usize % wakeup_slot::COUNT);
    let word = segment.mapping().futex(at + wakeup_slot::FUTEX);
    let _ = futex::wait(word, futex::Flags::empty(), seen, None);
}

/// As the kernel has it: looks, and goes on at the next change. A model checker must see it.
#[cfg(shuttle)]
pub(crate) fn sleep(segment: &Segment, slot: u32, seen: u32) {
    let at = wakeup_slot_at(slot as usize % wakeup_slot::COUNT);
    let word = segment.mapping().futex(at + wakeup_slot::FUTEX);
    while word.load(Ordering::SeqCst) == seen {
        interleave();
    }
}

/// Others may go on here: for the model checker.
fn interleave() {
    #[cfg(shuttle)]
    ::shuttle::thread::yield_now();
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
