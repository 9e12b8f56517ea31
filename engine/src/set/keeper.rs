//! Where a set's overrides are kept: in its store, under its name.

use std::sync::Arc;

use tidegate_contract::{Store, StoreError};

use super::variant::Given;
use crate::limit::{Limit, bytes};

/// Keeps the overrides of one set.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    /// As whom the store knows it: no gate is called so.
    owner: String,
}

impl Keeper {
    pub(super) fn new(store: Arc<dyn Store>, name: &str) -> Self {
        let owner = format!("set {name}");
        Self { store, owner }
    }

    /// What keys were given before.
    ///
    /// # Errors
    /// The store; what cannot be read.
    pub(super) fn given(&self) -> Result<Given, StoreError> {
        let definitions = self.store.definitions(&self.owner)?.into_iter();
        let given = definitions.map(|(key, value)| {
            let limits: Arc<[Limit]> = bytes::decode(&value)?.into();
            Ok((key.into(), limits))
        });
        given.collect()
    }

    /// Keeps what `key` is given, or that it is given nothing.
    ///
    /// # Errors
    /// The store; then nothing has changed.
    pub(super) fn keep(&self, key: &[u8], given: Option<&[Limit]>) -> Result<(), StoreError> {
        let value = given.map(bytes::encode);
        self.store.define(&self.owner, key, value.as_deref())
    }
}
