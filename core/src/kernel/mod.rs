//! One file for each algorithm, all of one shape. Know one, know five.
//!
//! Every kernel is a validated rule (`Bucket`, `Window`, ...) and a state whose
//! `Default` is "never seen". The verbs:
//!
//! | verb | does |
//! |---|---|
//! | `observe` | takes note of a clock that stepped back; else nothing |
//! | `quote` | answers whether an amount fits now, or exactly when |
//! | `charge` | takes an amount, whatever the quote said; an excess is debt |
//! | `refund` | gives back what was charged, by its reference |
//! | `standing` | tells limit, remaining, debt and the instants |
//! | `forget_at` | from when the state equals "never seen" |
//! | `adopt` | carries a state over from the rule that wrote it |
//!
//! Deliberately absent: dispatch (in [`crate::rule`]), payment modes and
//! several limits at once (in [`mod@crate::compose`]).

pub mod bucket;
pub mod log;
pub mod ring;
pub mod slots;
pub mod window;

pub use bucket::{Bucket, BucketLevel};
pub use log::Log;
pub use ring::Ring;
pub use slots::Slots;
pub use window::{Align, Window};
