//! The versions of owners' definitions: what is new since the last that was seen is little.

use std::collections::HashMap;

use parking_lot::Mutex;
use tidegate_store::{Store, StoreError};

/// So many owners' are known; with more, all are found anew.
const MOST_OWNERS: usize = 10_000;

/// The versions that were seen last.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<HashMap<String, u64>>);

impl Versions {
    /// Those of `owners`, in their order.
    pub(super) async fn of(
        &self,
        store: &dyn Store,
        owners: &[&str],
    ) -> Result<Vec<u64>, StoreError> {
        let mut versions = Vec::with_capacity(owners.len());
        for &owner in owners {
            let seen = self.0.lock().get(owner).copied().unwrap_or_default();
            let news = store.definitions(owner, seen).await?;
            let mut known = self.0.lock();
            if known.len() >= MOST_OWNERS {
                known.clear();
            }
            if news.version != seen {
                known.insert(owner.to_owned(), news.version);
            }
            versions.push(news.version);
        }
        Ok(versions)
    }
}
