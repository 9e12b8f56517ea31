//! Load, decide, swap: the optimistic loop of a store that runs the core far from its
//! data, written once, without I/O.
//!
//! | room | holds |
//! |---|---|
//! | [`OwnedKeyCommand`] | a command that outlives its call |
//! | [`Attempt`] | one try: what it needs, what it found, what it wants written |
//! | [`Together`] | several commands over one load and one write |
//! | [`ListedRow`] | a kept row as it is listed, by the limits of now |
//! | [`RootAtHand`] | what an attempt knew of a plain root, for the next command |
//! | `answer` | a reply by the caller's clock |
//! | [`exchange`] | what a backend loads and writes |
//! | `stored_row` | the bytes of a row |
//! | [`held_lease()`] | a kept record as a lease that is listed |
//! | [`revision`] | a plan as the backend knows it |
//! | [`known_revisions`] | the revisions that were met lately |
//! | [`clock`] | whose clock decides |
//!
//! **One root, one step.** Everything of one root (its row, those of its
//! descendants, its leases) hangs on the root's row: whoever changes any of it
//! writes that row, too. So a backend makes an attempt atomic by one thing alone,
//! either that the root's row was locked before it was read (and that no two make
//! a missing one), or that it still has the version that was read when everything
//! is written.
//!
//! **The core decides.** Rows are decoded by the core's codec, given to the
//! one decision loop ([`crate::decide`]) with a ledger of those
//! leases that the command can meet, and encoded again. No rule is stated here.
//!
//! **Changes of limits** are followed row by row: a row says by which revision of
//! its table's plan it was written, and is carried over, revision by revision, when
//! it is needed next. By which this process decides, and what is not written yet, is
//! for [`crate::revisions`] to say.
//!
//! Deliberately absent: any store, any client library, reading a clock, waiting.

mod answer;
mod attempt;
pub mod clock;
pub mod exchange;
mod held_lease;
pub mod known_revisions;
mod owned_key_command;
pub mod revision;
mod root_at_hand;
mod stored_row;
mod together;

pub use answer::by_the_callers_clock;
pub use attempt::{Attempt, ListedRow, Step};
pub use clock::Clock;
pub use exchange::{
    DueRange, KeptRow, LeaseWrite, LoadReply, LoadRequest, RowWrite, StoredLease, UsageWrite,
    WriteSet,
};
pub use held_lease::held_lease;
pub use known_revisions::KnownRevisions;
pub use owned_key_command::{OwnedKeyCommand, moved};
pub use revision::PlanRevision;
pub use root_at_hand::{Change, NewLease, RootAtHand, RowAtHand};
pub use together::{BatchProgress, Decided, Together};
