//! A plan as the server knows it.

use std::sync::Arc;

use tidegate_store::Plan;

use crate::wire::{Digest, SentPlan};

/// A plan as the server knows it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) digest: Digest,
    /// To be sent where the server does not.
    pub(crate) bytes: Arc<[u8]>,
}

impl Known {
    pub(crate) fn of(plan: &Plan) -> Self {
        let SentPlan { bytes, digest } = SentPlan::of(plan);
        Self { digest, bytes }
    }
}
