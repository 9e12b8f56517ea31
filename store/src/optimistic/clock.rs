//! Whose clock decides, and how it is kept from going back.

use tidegate_core::{Span, Timestamp};

/// Whose clock decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The backend's, for all callers alike.
    #[default]
    Server,
    /// The caller's, as it comes with each command: for tests that decide
    /// themselves what time it is. Nothing then expires by itself.
    Caller,
}

/// A backend's clock may stand behind what was written by another before a
/// failover: as far as this, time stands still. Beyond, the clock has stepped
/// back, and each limit takes note of it by itself.
const PATIENCE: Span = Span::from_secs(10);

impl Clock {
    /// The instant of a decision on rows that were last written at `latest`.
    pub(crate) fn instant(
        self,
        asked: Timestamp,
        server: Timestamp,
        latest: Timestamp,
    ) -> Timestamp {
        match self {
            Self::Caller => asked,
            Self::Server if latest.since(server) <= PATIENCE => server.max(latest),
            Self::Server => server,
        }
    }

    /// When a change of limits as of `at` is followed by a row that was last
    /// written at `latest`. The clock may have gone on by the older limits since `at`,
    /// or stand before it again.
    pub(crate) fn follows(at: Timestamp, latest: Timestamp, now: Timestamp) -> Timestamp {
        at.max(latest).min(now)
    }
}
