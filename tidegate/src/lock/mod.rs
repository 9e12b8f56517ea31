//! Semaphores and mutexes whose permits are leases: of this process, of all those
//! of one machine, or of a fleet, as the store is.
//!
//! A permit is a lease on one limit of slots of a [`LimitSet`](crate::LimitSet):
//! the store grants it, expires it, gives it its fence and keeps the line of
//! those who wait; nothing of that is decided here. It is [kept alive](crate::Lease::keep_alive) while it is
//! held, as any lease can be.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::lock::LeasedSemaphore;
//!
//! let gpus = LeasedSemaphore::builder("gpu", 2).ttl(Duration::from_secs(30)).build()?;
//! if let Some(permit) = gpus.acquire_within(Duration::from_secs(5)).wait()? {
//!     // ... write with permit.fence(), and stop if permit.is_held() ends ...
//!     permit.release().wait()?;
//! }
//! # Ok::<(), tidegate::Error>(())
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`LeasedSemaphore`], [`LeasedMutex`] | a number of slots for each of many keys; one |
//! | [`LeasedBuilder`] | how one is made |
//! | `acquire` | a request that outlives a lost answer, and never takes twice |
//! | [`LeasedPermit`] | what is held; given back when dropped |
//!
//! # What a holder may believe
//!
//! A store counts a lease's ttl from when the request reached it; the holder
//! counts it from *before* it was sent, on a clock that never steps. So a permit
//! is unsure before the store gives its slots to another, as long as
//!
//! - the store's clock and this machine's run alike to one part in a thousand:
//!   as much is taken off (NTP slews by at most half of it);
//! - the store's clock is not set forward while the lease lasts;
//! - this machine's clock goes on while the process stands still. It does for a
//!   stopped process and a long collection of garbage; a virtual machine that is
//!   suspended may find it stopped.
//!
//! None of these is needed for the [fence](LeasedPermit::fence), and nothing but the
//! fence helps a holder that is stopped between a look at the clock and its write:
//! see `docs/reference/locks.md`.
//!
//! Deliberately absent: slots of one process without expiry, which are an order
//! of magnitude cheaper ([`crate::Semaphore`], [`crate::Mutex`]), and locks that
//! a database keeps for a connection (the stores' own crates).

mod acquire;
mod builder;
mod mutex;
mod permit;
mod semaphore;

pub use crate::error::LockError;
pub use builder::LeasedBuilder;
pub use mutex::LeasedMutex;
pub use permit::LeasedPermit;
pub use semaphore::LeasedSemaphore;
