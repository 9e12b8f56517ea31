//! The way of every command to a store beyond a network: which of what the store can do
//! it needs, on which thread, and what its answer is.

use std::sync::Arc;

use tidegate_store::{Command, Count, Op, OwnedListing, Reply, StoreFuture};

use crate::batch::batch;
use crate::commands::Commands;
use crate::usage::page_of_usage;
use crate::waiting::{Waiting, stay};

/// A command under way, wherever it is awaited.
pub fn begin<C: Commands>(table: &Arc<C>, command: &Command<'_>) -> StoreFuture {
    let (driver, own) = (table.driver(), Arc::clone(table));
    match command.op {
        Op::One(path, verb) => match Waiting::of(command) {
            Some(waiting) => {
                let line = table.line(&waiting);
                stay(&driver.tasks(), waiting, line)
            }
            None => table.send(&command.one(path, verb)),
        },
        Op::Batch(items) => batch(table, command, items),
        Op::Adopt => {
            table.follow(command);
            // What cannot be written now is before the next command.
            driver.later(async move {
                own.catch_up().await?;
                Ok(Reply::Done)
            })
        }
        Op::ListKeys(listing) => {
            let listing = OwnedListing::of(&listing);
            driver.later(async move { Ok(Reply::Keys(own.page_of_keys(listing).await?)) })
        }
        Op::ListLeases(listing) => {
            let listing = OwnedListing::of(&listing);
            driver.later(async move { Ok(Reply::Leases(own.page_of_leases(listing).await?)) })
        }
        Op::ListUsage(listing, hours) => {
            let listing = OwnedListing::of(&listing);
            driver
                .later(async move { Ok(Reply::Usage(page_of_usage(&own, listing, hours).await?)) })
        }
        Op::Count => driver.later(async move {
            Ok(Reply::Count(Count {
                keys: own.count().await?,
                leases: None,
                remembered: None,
            }))
        }),
    }
}
