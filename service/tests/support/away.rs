//! A store that cannot tell. The protocols' tests have it from here.

use std::sync::Arc;

use tidegate_store::{
    Abilities, Command, Definitions, Execution, Out, Plan, Store, StoreError, StoreFuture, Table,
};

/// Opens every table, and answers nothing.
pub struct Away;

struct AwayTable;

impl Store for Away {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: false,
            own_clock: false,
            answers_can_be_lost: true,
            counts_usage: false,
        }
    }

    fn definitions(&self, _: &str, newer_than: u64) -> StoreFuture<Definitions> {
        StoreFuture::new(std::future::ready(Ok(Definitions {
            newer_than,
            version: newer_than,
            whole: newer_than == 0,
            changed: Vec::new(),
        })))
    }

    fn open(&self, _: &str, _: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(AwayTable))
    }
}

impl Table for AwayTable {
    fn execute(&self, _: &Command<'_>, out: Out<'_>) -> Execution {
        out.ready(Err(StoreError::Unavailable("the cable is pulled".into())))
    }
}
