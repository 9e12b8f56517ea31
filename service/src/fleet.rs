//! What servers and processes took in advance of a policy's keys, and by how much they may exceed it.

use std::future::Future;

use tidegate::internal::{NodeGrant, NodeId, TierBound, list_node_grants, pending, tier_bounds};
use tidegate::{PageOf, Pending, TierStatistics};
use tidegate_store::Page;

use super::active_policy::ActivePolicy;
use super::error::ServiceError;

/// A page of what nodes hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fleet {
    /// The pool's member that it is of.
    pub member: Option<String>,
    /// The node that answers.
    pub here: NodeId,
    /// What it has counted since it began; nothing where the policy has no tier.
    pub counted: Option<TierStatistics>,
    /// What nodes may do with each limit; nothing where they take nothing in advance.
    pub bounds: Vec<TierBound>,
    /// What nodes took, and the store keeps for them now.
    pub grants: Vec<NodeGrant>,
}

impl ActivePolicy {
    /// A page of what nodes took in advance, as the store has it; of a pool, member by member.
    ///
    /// # Errors
    /// As [`list_leases`](Self::list_leases).
    pub fn fleet<'a>(
        &'a self,
        page: PageOf<'a>,
    ) -> Pending<impl Future<Output = Result<Page<Fleet>, ServiceError>> + Send> {
        pending(async move {
            let place = self.place(page)?;
            let Page { items, next } = list_node_grants(place.set, place.page).await?;
            let fleet = Fleet {
                member: place.member.map(|member| member.name().to_owned()),
                here: NodeId::here(),
                counted: place.set.tier_statistics(),
                bounds: tier_bounds(place.set),
                grants: items,
            };
            Ok(Page {
                items: vec![fleet],
                next: place.next(next),
            })
        })
    }
}
