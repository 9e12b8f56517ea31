//! How often a request is made again, and after what pauses.

use std::time::Duration;

use rand::RngExt;
use tidegate_store::StoreError;

use crate::error::Trouble;

/// So often a command is tried that was lost to others, or throttled.
const MOST_LOST: u32 = 24;

/// So often one whose answer did not come.
const MOST_BROKEN: u32 = 4;

/// The first pause is at most this long; each is at most twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The tries of one command.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    lost: u32,
    broken: u32,
    is_corrected: bool,
}

impl Backoff {
    /// Waits before the next try, or says why there is none. Pauses are drawn at random, so
    /// that those who met once do not meet again.
    pub(crate) async fn after(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        let tries = match &trouble {
            Trouble::Lost(_) | Trouble::Throttled(..) if self.lost < MOST_LOST => &mut self.lost,
            Trouble::Broken(_) if self.broken < MOST_BROKEN => &mut self.broken,
            // The answer has corrected the clock.
            Trouble::Skewed(_) if !self.is_corrected => {
                self.is_corrected = true;
                return Ok(());
            }
            _ => return Err(trouble.told()),
        };
        let most = FIRST_PAUSE * 2_u32.saturating_pow(*tries);
        *tries += 1;
        let most = most.min(LONGEST_PAUSE).as_micros() as u64;
        let pause = rand::rng().random_range(0..=most);
        tokio::time::sleep(Duration::from_micros(pause)).await;
        Ok(())
    }
}
