//! A page of usage, once the leases of its roots that have expired are ended: what they give back is
//! not listed as used.

use std::sync::Arc;

use tidegate_store::core::Timestamp;
use tidegate_store::{
    Hours, Listing, OwnedKey, OwnedListing, Page, RootsOnPage, StoreError, Usage,
};
use tokio::time::{Instant, timeout_at};

use crate::commands::Commands;

/// So many roots are looked at together.
const AT_ONCE: usize = 16;

/// Ends leases that have expired, for a part of a listing's deadline: what there is no time for is listed
/// as it is kept.
#[derive(Debug)]
pub struct ExpirySweep<'c, C> {
    table: &'c Arc<C>,
    now: Timestamp,
    until: Instant,
}

impl<'c, C: Commands> ExpirySweep<'c, C> {
    /// For a listing that begins, as of `now`.
    #[must_use]
    pub fn new(table: &'c Arc<C>, now: Timestamp) -> Self {
        let until = Instant::now() + table.driver().deadline() / 2;
        Self { table, now, until }
    }

    /// Ends those of these roots; whether there is time for more. One that cannot be looked at, now
    /// or ever, keeps no other from being listed.
    pub async fn end(&self, roots: &[OwnedKey]) -> bool {
        let driver = self.table.driver();
        let all = async {
            for some in roots.chunks(AT_ONCE) {
                let look = |root: &OwnedKey| {
                    // It goes on if nobody waits for it any more.
                    driver.start(Arc::clone(self.table).end_expired(root.clone(), self.now))
                };
                let looks: Vec<_> = some.iter().map(look).collect();
                for look in looks {
                    let _ = look.await;
                }
            }
        };
        timeout_at(self.until, all).await.is_ok()
    }
}

/// A page of usage of a store that tells which roots have expired leases.
pub(crate) async fn page_of_usage<C: Commands>(
    table: &Arc<C>,
    listing: OwnedListing,
    hours: Hours,
) -> Result<Page<Usage>, StoreError> {
    let Listing { levels, now, .. } = listing.lend();
    let (sweep, mut roots, mut has_time) =
        (ExpirySweep::new(table, now), RootsOnPage::default(), true);
    loop {
        let page = Arc::clone(table).page_of_usage(listing.clone(), hours);
        let page = page.await?;
        let new = roots.new_on(&page, levels);
        if new.is_empty() || !has_time {
            return Ok(page);
        }
        let expired = Arc::clone(table).expired_roots(new, now).await?;
        if expired.is_empty() {
            return Ok(page);
        }
        has_time = sweep.end(&expired).await;
    }
}
