//! Definitions that are over, in a store that has no clock of its own: some are looked at with
//! each new one that lasts for a while, and those that are over are removed.

use std::collections::HashMap;

use parking_lot::Mutex;
use tidegate_store::core::Timestamp;
use tidegate_store::{Change, Definition, Store, StoreError};

use super::lasting;

/// So many are looked at with each that is made: they become fewer, though each may be over.
const MOST_LOOKED_AT: usize = 8;

/// Of so many owners it is known where to go on; with more, all begin anew.
const MOST_OWNERS: usize = 10_000;

/// Behind which key of each owner to go on.
#[derive(Debug, Default)]
pub(super) struct Expired(Mutex<HashMap<String, Vec<u8>>>);

impl Expired {
    /// What is to be made so that nothing that is over by `now` is kept of the owner's next few.
    pub(super) async fn next(
        &self,
        store: &dyn Store,
        owner: &str,
        now: Timestamp,
    ) -> Result<Vec<Change>, StoreError> {
        let after = self.0.lock().remove(owner);
        let page = store.definitions_page(owner, b"", after.as_deref(), MOST_LOOKED_AT);
        let page = page.await?;
        if let Some(next) = page.next {
            let mut behind = self.0.lock();
            if behind.len() >= MOST_OWNERS {
                behind.clear();
            }
            behind.insert(owner.to_owned(), next);
        }
        let is_over = |one: &Definition| lasting::told(one.clone(), now).value.is_none();
        let over = page.items.into_iter().filter(is_over);
        // One that was made anew meanwhile stays.
        let removal = |one: Definition| {
            let version = one.version;
            Change::from(Definition::none(one.key)).expecting(version)
        };
        Ok(over.map(removal).collect())
    }
}
