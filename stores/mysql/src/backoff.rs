//! How often a lost transaction is tried again, and after what pauses.

use std::time::Duration;

use rand::RngExt;
use tidegate_store::StoreError;

use crate::error::Trouble;

/// So often a command is tried.
const MOST_TRIES: u32 = 12;

/// The first pause is at most this long; each is at most twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Connections that were found to be gone, or to a replica, before a new one is.
const MOST_BROKEN: u32 = 2;

/// The tries of one command.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    lost: u32,
    broken: u32,
}

impl Backoff {
    /// Waits before the next try, or says why there is none. Pauses are drawn at
    /// random, so that those who met once do not meet again.
    pub(crate) async fn after(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        match &trouble {
            Trouble::Lost(_) | Trouble::Locked(_) if self.lost < MOST_TRIES => self.lost += 1,
            Trouble::Broken(_) | Trouble::ReadOnly(_) if self.broken < MOST_BROKEN => {
                self.broken += 1;
                return Ok(());
            }
            _ => return Err(trouble.told()),
        }
        let most = FIRST_PAUSE * 2_u32.saturating_pow(self.lost - 1);
        let most = most.min(LONGEST_PAUSE).as_micros() as u64;
        let pause = rand::rng().random_range(0..=most);
        tokio::time::sleep(Duration::from_micros(pause)).await;
        Ok(())
    }
}
