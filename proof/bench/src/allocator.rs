//! The system allocator, with a counter that can be switched on.
//!
//! Switched off it costs one predictable branch, so that timed rows are not
//! about the counter; switched on it tells how many allocations a piece of code
//! made and how many bytes it left alive.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// What a piece of code did to the heap.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// Calls that asked for memory (a growing `realloc` is one).
    pub allocations: u64,
    /// Requested bytes still alive at the end, less those alive at the start.
    pub live_bytes: i64,
}

/// Runs `work` and counts; the result is dropped only after the count is taken.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, Heap) {
    ALLOCATIONS.store(0, Relaxed);
    LIVE_BYTES.store(0, Relaxed);
    ON.store(true, Relaxed);
    let result = work();
    ON.store(false, Relaxed);
    let heap = Heap {
        allocations: ALLOCATIONS.load(Relaxed),
        live_bytes: LIVE_BYTES.load(Relaxed),
    };
    (result, heap)
}

fn note(allocations: u64, bytes: i64) {
    if ON.load(Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Relaxed);
        LIVE_BYTES.fetch_add(bytes, Relaxed);
    }
}

/// A `Layout` never exceeds `isize::MAX`, so the sign is safe.
fn signed(bytes: usize) -> i64 {
    bytes as i64
}

// SAFETY: every call goes to `System` unchanged; the counters touch no memory
// that the caller sees.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, -signed(layout.size()));
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller's promise about `pointer`, `layout` and `size` is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
