//! The store against the suite: all checks, laws and vectors.

use std::sync::Arc;

use tidegate_conformance::{Subject, suite};
use tidegate_own_store::MapStore;

suite!(Subject::new(|| Arc::new(MapStore::default())));
