//! Changes of definitions, and the events that tell of them.

use std::time::Duration;

use tidegate_store::{Change, Defined, Definition, Event, Store};

use crate::fixture::machine_time;
use crate::later::wait_for;

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// An event that happens now.
pub(super) fn about(subject: &[u8], body: &[u8], lasts: Duration, most: u32) -> Event {
    Event {
        subject: subject.to_vec(),
        body: body.to_vec(),
        at: machine_time(),
        lasts,
        most,
        version: 0,
    }
}

pub(super) fn change(store: &dyn Store, owner: &str, change: Change) -> Defined {
    wait_for(store.change(owner, change)).expect("room")
}

/// The version that it was made at.
pub(super) fn made(defined: Defined) -> u64 {
    match defined {
        Defined::Done {
            changed: true,
            version,
        } => version,
        other => panic!("{other:?}"),
    }
}

pub(super) fn put(key: &[u8], value: &[u8]) -> Change {
    Definition::new(key, value).into()
}

pub(super) fn remove(key: &[u8]) -> Change {
    Definition::none(key).into()
}
