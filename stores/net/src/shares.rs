//! How many connections the commands of one root, and of one table, may have: a root
//! whose lock is held for long keeps those who ask for it, and nobody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Whose share it is: a table's, or one of its roots'.
type Name = (u32, Option<Box<[u8]>>);

/// The shares that are in use.
#[derive(Debug)]
pub struct Shares {
    of_root: usize,
    of_table: usize,
    /// Who has none, or waits for none, is not here.
    used: Mutex<HashMap<Name, Arc<Semaphore>>>,
}

/// Leave to use one connection for a command. It is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    _of_root: Part,
    _of_table: Part,
}

/// A part of one share, or the wish for it.
#[derive(Debug)]
struct Part {
    shares: Arc<Shares>,
    name: Name,
    /// Only `None` while it is dropped.
    semaphore: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Of so many connections: a root has half of them, rounded up, and a table leaves a
    /// quarter of them to others.
    #[must_use]
    pub fn of(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            of_root: connections.div_ceil(2).max(1),
            of_table: (connections - connections / 4).max(1),
            used: Mutex::default(),
        })
    }

    /// Waits up to `patience` for a share of the table and of its root.
    ///
    /// # Errors
    /// [`StoreError::Busy`]; then nothing was done.
    pub async fn take(
        self: &Arc<Self>,
        (table, root): (u32, &[u8]),
        patience: Duration,
    ) -> Result<Share, StoreError> {
        let both = async {
            // The root's first: who waits for it keeps nothing of the table's.
            let of_root = self.part((table, Some(root.into())), self.of_root).await;
            let of_table = self.part((table, None), self.of_table).await;
            Share {
                _of_root: of_root,
                _of_table: of_table,
            }
        };
        let taken = timeout(patience, both).await;
        taken.map_err(|_| {
            StoreError::Busy(
                "other commands for the same key or set are not answered in time".to_owned(),
            )
        })
    }

    async fn part(self: &Arc<Self>, name: Name, most: usize) -> Part {
        let semaphore = {
            let mut used = self.used.lock();
            let semaphore = used.entry(name.clone());
            Arc::clone(semaphore.or_insert_with(|| Arc::new(Semaphore::new(most))))
        };
        let mut part = Part {
            shares: Arc::clone(self),
            name,
            semaphore: Some(Arc::clone(&semaphore)),
            permit: None,
        };
        // It is never closed.
        part.permit = semaphore.acquire_owned().await.ok();
        part
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut used = self.shares.used.lock();
        drop(self.permit.take());
        drop(self.semaphore.take());
        // Nobody else has or wants any of it.
        if used
            .get(&self.name)
            .is_some_and(|s| Arc::strong_count(s) == 1)
        {
            used.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_root_and_a_table_leave_connections_to_others_and_are_forgotten() {
        let shares = Shares::of(8);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(shares.take((1, b"slow"), LONG).await.expect("its share"));
        }
        let refused = shares.take((1, b"slow"), SHORT).await;
        assert!(matches!(refused, Err(StoreError::Busy(_))));
        for _ in 0..2 {
            held.push(shares.take((1, b"other"), LONG).await.expect("its share"));
        }
        let refused = shares.take((1, b"third"), SHORT).await;
        assert!(matches!(refused, Err(StoreError::Busy(_))));
        held.push(shares.take((2, b"slow"), LONG).await.expect("its share"));
        held.remove(0);
        held.push(
            shares
                .take((1, b"slow"), LONG)
                .await
                .expect("what came back"),
        );
        drop(held);
        assert!(shares.used.lock().is_empty());
    }

    #[tokio::test]
    async fn one_connection_is_everyones() {
        let shares = Shares::of(1);
        let held = shares.take((1, b"k"), LONG).await.expect("its share");
        assert!(shares.take((1, b"k"), SHORT).await.is_err());
        drop(held);
        assert!(shares.take((1, b"k"), SHORT).await.is_ok());
    }
}
