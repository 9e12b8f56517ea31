//! The editions of a table's plan, kept beside the rows: whoever finds a row of
//! another edition learns there by what limits it was written.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::Value;
use tidegate_contract::{Plan, StoreError};
use tidegate_remote::Change;

use crate::error::garbled;
use crate::link::Link;
use crate::options::Clock;
use crate::script::Scripts;
use crate::wire;

/// So many editions are remembered here, and so many are followed one by one
/// after a row was left alone for as many changes of limits.
const MOST_KEPT: usize = 64;

/// Where a table's editions are. See the [module](self).
#[derive(Debug)]
pub(crate) struct Registry {
    key: Vec<u8>,
    clock: Clock,
    known: Mutex<HashMap<i64, Arc<[u8]>>>,
}

impl Registry {
    pub(crate) fn new(key: Vec<u8>, clock: Clock) -> Self {
        Self {
            key,
            clock,
            known: Mutex::default(),
        }
    }

    /// Makes `change` the newest edition; answers its number.
    pub(crate) async fn add(
        &self,
        link: &Link,
        scripts: &Scripts,
        change: &Change,
    ) -> Result<i64, StoreError> {
        let at = match self.clock {
            Clock::Server => String::new(),
            Clock::Caller => wire::instant(change.at).to_string(),
        };
        let first = if change.is_first { "1" } else { "0" };
        let arguments: [Arc<[u8]>; 4] = [
            wire::plan::kept(&change.plan, &change.calendars).into(),
            wire::plan::content(&change.plan).into(),
            first.as_bytes().into(),
            at.into_bytes().into(),
        ];
        let keys = std::slice::from_ref(&self.key);
        match link.call(&scripts.register, keys, &arguments).await? {
            Value::Int(number) => Ok(number),
            _ => Err(garbled("no edition")),
        }
    }

    /// The plan of the newest edition, if there is any.
    pub(crate) async fn newest(&self, link: &Link) -> Result<Option<Plan>, StoreError> {
        let mut ask = redis::cmd("HGET");
        let newest = link.ask(ask.arg(&self.key).arg("newest")).await?;
        let Value::BulkString(number) = newest else {
            return Ok(None);
        };
        let mut ask = redis::cmd("HGET");
        let Value::BulkString(bytes) = link.ask(ask.arg(&self.key).arg(number)).await? else {
            return Err(garbled("the newest edition is gone"));
        };
        wire::plan::read(&bytes).map(Some).map_err(garbled)
    }

    /// What is to be known where rows of the editions `found` are: these, and
    /// every one that led from the oldest of them to `own`, in order.
    pub(crate) async fn leading_to(
        &self,
        link: &Link,
        found: &[i64],
        own: i64,
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let older = found.iter().copied().filter(|&number| number < own);
        let mut wanted: Vec<i64> = older.collect();
        if let Some(&oldest) = wanted.iter().min() {
            let recent = own - MOST_KEPT as i64;
            wanted.extend(oldest.max(recent)..=own);
        }
        wanted.extend(found.iter().copied().filter(|&number| number > own));
        wanted.sort_unstable();
        wanted.dedup();
        self.fetch(link, &wanted).await?;
        let known = self.known.lock();
        let entry = |number: &i64| known.get(number).cloned().ok_or_else(|| lost(*number));
        wanted.iter().map(entry).collect()
    }

    /// Makes `wanted` known.
    async fn fetch(&self, link: &Link, wanted: &[i64]) -> Result<(), StoreError> {
        let missing: Vec<i64> = {
            let mut known = self.known.lock();
            if known.len() > MOST_KEPT {
                known.retain(|number, _| wanted.contains(number));
            }
            let missing = wanted.iter().filter(|number| !known.contains_key(number));
            missing.copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let mut ask = redis::cmd("HMGET");
        let Value::Array(found) = link.ask(ask.arg(&self.key).arg(&missing)).await? else {
            return Err(garbled("no editions"));
        };
        let mut known = self.known.lock();
        for (number, bytes) in missing.into_iter().zip(found) {
            let Value::BulkString(bytes) = bytes else {
                return Err(lost(number));
            };
            known.insert(number, bytes.into());
        }
        Ok(())
    }
}

fn lost(number: i64) -> StoreError {
    StoreError::Unavailable(format!(
        "a row was written by edition {number} of its limits, of which nothing is known any more; \
         delete the keys of this table, or give the set another name"
    ))
}
