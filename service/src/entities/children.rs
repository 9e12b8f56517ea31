//! Who stands below whom.
//!
//! Under an owner of its own there is a key for each parent and child, written before the child
//! belongs to that parent: a hint. The child's own record says whether it holds; one that does
//! not (something was cut off in between) is passed over.

use tidegate_store::key::escape;
use tidegate_store::{Change, Definition, Page, StoreError};

use super::record::{Entity, OWNER};
use crate::error::ServiceError;
use crate::service::Service;

/// As whom the store knows who stands below whom.
const CHILDREN: &str = "entity children";

/// Where the children of an entity begin.
fn prefix(parent: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(parent.len() + 1);
    escape(parent.as_bytes(), &mut key);
    key.push(b'/');
    key
}

fn hint(parent: &str, child: &str) -> Vec<u8> {
    let mut key = prefix(parent);
    escape(child.as_bytes(), &mut key);
    key
}

impl Service {
    /// Notes that `child` is about to belong to `parent`.
    pub(super) async fn note_child(&self, parent: &str, child: &str) -> Result<(), StoreError> {
        let definition = Definition::new(hint(parent, child), child);
        self.tell(CHILDREN, Change::from(definition)).await?;
        Ok(())
    }

    /// At which version it is noted that `child` belongs to `parent`; 0 if it is not. To be asked
    /// before that changes.
    pub(super) async fn noted(&self, parent: Option<&str>, child: &str) -> Result<u64, StoreError> {
        let Some(parent) = parent else { return Ok(0) };
        let there = self.stored_at(CHILDREN, &hint(parent, child)).await?;
        Ok(there.map_or(0, |there| there.version))
    }

    /// `child` belongs to `parent` no longer. Whoever has noted anew that it will is not
    /// contradicted; and a note that stays is passed over.
    pub(super) async fn unnote(&self, parent: Option<&str>, child: &str, version: u64) {
        if let Some(parent) = parent
            && version != 0
        {
            let gone = Change::from(Definition::none(hint(parent, child)));
            self.tell(CHILDREN, gone.expecting(version)).await.ok();
        }
    }

    /// A page of the children of `parent`, in the order of their ids' bytes. It may have fewer
    /// than it is asked for, or none, and not be the last.
    pub(super) async fn stored_children(
        &self,
        parent: &str,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Entity>, ServiceError> {
        let prefix = prefix(parent);
        let noted = self.stored_page(CHILDREN, &prefix, after, most).await?;
        let ids = noted.items.into_iter().filter_map(|noted| noted.value);
        // All are under way at once.
        let reads: Vec<_> = ids.map(|id| self.stored_at(OWNER, &id)).collect();
        let mut items = Vec::with_capacity(reads.len());
        for read in reads {
            let there = read.await?.as_ref().map(Entity::read).transpose();
            let there = there.map_err(StoreError::from)?.flatten();
            items.extend(there.filter(|it| it.value.parent.as_deref() == Some(parent)));
        }
        let next = noted.next;
        Ok(Page { items, next })
    }

    /// One of its children, if it has any.
    pub(super) async fn child_of(&self, parent: &str) -> Result<Option<Entity>, ServiceError> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.stored_children(parent, after.as_deref(), 1).await?;
            let child = page.items.into_iter().next();
            after = page.next;
            if child.is_some() || after.is_none() {
                return Ok(child);
            }
        }
    }
}
