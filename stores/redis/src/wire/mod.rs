//! What goes to the script and what comes back.
//!
//! | room | holds |
//! |---|---|
//! | `pack` | MessagePack as the server's `cmsgpack` reads it |
//! | `plan` | a revision of a plan, there and back |
//! | `command` | a command |
//! | `together` | several commands as one call |
//! | `reply` | its answer |
//! | `held` | leases that are listed |
//! | `used` | what was used, as it is listed |
//! | `place` | where a page of a listing ends |

pub(crate) mod command;
pub(crate) mod held;
pub(crate) mod pack;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod together;
pub(crate) mod used;

use tidegate_store::core::Timestamp;

/// "Never" to a script, and every instant after it: 2^53, in the year 2255.
pub(crate) const NEVER: i64 = 1 << 53;

/// An instant as a script counts it.
pub(crate) fn instant(at: Timestamp) -> i64 {
    at.as_micros().clamp(-NEVER, NEVER)
}

/// An instant that a script said.
pub(crate) const fn timestamp(micros: i64) -> Timestamp {
    match micros {
        NEVER.. => Timestamp::MAX,
        i64::MIN..=-9_007_199_254_740_992 => Timestamp::MIN,
        _ => Timestamp::from_micros(micros),
    }
}
