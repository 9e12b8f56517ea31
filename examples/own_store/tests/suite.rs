//! The store against the suite: all checks, laws and vectors.

use std::sync::Arc;

use tidegate_conformance::{Subject, suite};
use tidegate_own_store::MapStore;

/// Random commands in a run: they take some seconds.
const COMMANDS: usize = 200_000;

suite!(Subject::new(|| Arc::new(MapStore::default())).with_random_commands(COMMANDS));
