//! How often functions were entered.

use std::collections::BTreeMap;

/// One of ours.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Function {
    pub file: String,
    pub name: String,
}

/// How often functions were entered.
pub type Calls = BTreeMap<Function, u64>;
