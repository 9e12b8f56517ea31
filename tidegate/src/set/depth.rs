//! Whether a key has as many levels as the keys of its set.
//!
//! A shorter one would skip the limits of the levels that it lacks, and each `/` too many
//! would begin a count of its own.

use tidegate_store::{KeyError, KeyPath};

use crate::error::RequestError;

/// Checks that `path` has `needed` levels; fewer, too, where keys may be `partial`.
///
/// # Errors
/// [`RequestError::KeyDepth`]; [`KeyError::EmptySegment`] for the name of a row that does not say
/// whom else to charge.
#[inline]
pub(super) fn check(path: &KeyPath<'_>, needed: usize, partial: bool) -> Result<(), RequestError> {
    match needed < 2 {
        true => Ok(()),
        false => check_levels(path, needed, partial),
    }
}

fn check_levels(path: &KeyPath<'_>, needed: usize, partial: bool) -> Result<(), RequestError> {
    if (0..path.depth()).any(|level| path.lacks(level)) {
        return Err(KeyError::EmptySegment.into());
    }
    // The last level has what is left, separators included.
    let last = path.segments().next_back().unwrap_or_default();
    let last = &path.bytes()[last];
    let levels = path.depth() + last.iter().filter(|&&byte| byte == b'/').count();
    match levels == needed || (partial && levels < needed) {
        true => Ok(()),
        false => Err(RequestError::KeyDepth { levels, needed }),
    }
}
