//! A plan as it is sent once, and what it is known by from then on.
//!
//! ```text
//! plan: bytes of `tidegate_store::bytes::plan`, as version 0 and adopted at the beginning,
//!       n u32, n x u32: which limits are adaptive
//! ```
//! It is known by the first 16 bytes of the SHA-256 of that. Keys that have limits of their own
//! are no part of it: each command carries those of its rows.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tidegate_store::bytes::{Reader, Writer, decode_plan, encode_plan};
use tidegate_store::core::DecodeError;
use tidegate_store::{Adaptive, Adopted, Plan, PlanLimit};

/// What a plan is known by.
pub(crate) type Digest = [u8; 16];

/// The most limits of a plan that is taken.
const MOST_LIMITS: usize = 1_024;

/// A plan, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct SentPlan {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) digest: Digest,
}

impl SentPlan {
    pub(crate) fn of(plan: &Plan) -> Self {
        let bare = Plan::new(0, plan.levels(), plan.limits().to_vec(), plan.keep());
        let bare = bare.counting_usage(plan.usage());
        let mut out = Writer::default();
        out.bytes(&encode_plan(&bare, &Adopted::default()));
        let limits = plan.limits().iter().enumerate();
        let adaptive: Vec<_> = limits
            .filter(|(_, limit)| limit.adaptive.is_some())
            .map(|(at, _)| at as u32)
            .collect();
        out.list(adaptive.into_iter(), |out, at| _ = out.u32(at));
        let bytes = out.done();
        Self {
            digest: digest(&bytes),
            bytes: bytes.into(),
        }
    }

    /// The plan that was sent as `bytes`, of version `version`.
    pub(crate) fn read(bytes: &[u8], version: u64) -> Result<Plan, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (plan, _) = decode_plan(reader.bytes()?)?;
        let adaptive = reader.list(4, Reader::u32)?;
        reader.end()?;
        let mut limits = plan.limits().to_vec();
        if limits.len() > MOST_LIMITS || !are_apart(&limits) {
            return Err(DecodeError::Corrupt("limits"));
        }
        for at in adaptive {
            let limit = limits.get_mut(at as usize);
            let limit = limit.ok_or(DecodeError::Corrupt("adaptive"))?;
            limit.adaptive = Some(Adaptive::default());
        }
        let read = Plan::new(version, plan.levels(), limits, plan.keep());
        Ok(read.counting_usage(plan.usage()))
    }
}

/// What the plan that was sent as `bytes` is known by.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&Sha256::digest(bytes)[..16]);
    digest
}

/// No two limits have one number, or one name.
fn are_apart(limits: &[PlanLimit]) -> bool {
    let uids: HashSet<u32> = limits.iter().map(|limit| limit.uid).collect();
    let names: HashSet<&str> = limits.iter().map(|limit| &*limit.name).collect();
    uids.len() == limits.len() && names.len() == limits.len()
}
