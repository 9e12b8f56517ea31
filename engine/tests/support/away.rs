//! A store that cannot tell. The protocols' tests have it from here.

use std::sync::Arc;

use tidegate::contract::{Abilities, Command, Definition, Plan, Reply, Store, StoreError, Table};

/// Opens every table, and answers nothing.
pub struct Away;

struct AwayTable;

impl Store for Away {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: false,
            own_clock: false,
        }
    }

    fn definitions(&self, _: &str) -> Result<Vec<Definition>, StoreError> {
        Ok(Vec::new())
    }

    fn open(&self, _: &str, _: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(AwayTable))
    }
}

impl Table for AwayTable {
    fn execute(&self, _: &Command<'_>) -> Result<Reply, StoreError> {
        Err(StoreError::Unavailable("the cable is pulled".into()))
    }

    fn len(&self) -> usize {
        0
    }
}
