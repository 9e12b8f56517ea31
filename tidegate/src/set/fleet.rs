//! What nodes took in advance of a set's keys, as its store has it.

use std::future::Future;

use tidegate_core::{Amount, Timestamp};
use tidegate_store::{HeldLease, Op, Page, Reply, StoreError};
use tidegate_tier::NodeId;

use super::inner::LimitSet;
use super::listing::{PageOf, named};
use super::view::View;
use crate::limit::Limit;
use crate::pending::Pending;

/// What a node took in advance of one key: a grant, or slots that it gives out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeGrant {
    /// Of which key.
    pub key: Vec<u8>,
    /// Which node took it.
    pub node: NodeId,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// Until when the store keeps it for the node, if that does not give it back before.
    pub expires_at: Timestamp,
    /// How much was taken, by limit: what is spent of it, only its node knows.
    pub taken: Vec<(String, Amount)>,
}

/// What nodes may do with one limit of a set that has a tier.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TierBound {
    /// The limit's name.
    pub limit: String,
    /// How much of each key's may be out at nodes, if that is bounded.
    pub outstanding: Option<Amount>,
    /// By how much all nodes may together exceed it at most.
    pub beyond: Amount,
}

impl LimitSet {
    /// What nodes may do with each limit; nothing where the set takes nothing in advance.
    pub(crate) fn tier_bounds(&self) -> Vec<TierBound> {
        let view = self.inner().view.load_full();
        let Some(tier) = view.tier().filter(|tier| tier.is_leased()) else {
            return Vec::new();
        };
        let limits = view.limits.iter().filter(|limit| !limit.is_absent());
        let bound = |limit: &Limit| {
            let mut planned = view.plan.limits().iter();
            let planned = planned.find(|one| *one.name == *limit.name())?;
            Some(TierBound {
                limit: limit.name().to_owned(),
                outstanding: tier.outstanding_for(limit.name()),
                beyond: tier.beyond(limit.name(), &planned.rule),
            })
        };
        limits.filter_map(bound).collect()
    }

    /// A page of what nodes took in advance; nothing where the set has no tier.
    #[expect(
        clippy::redundant_closure,
        reason = "the variant itself has one lifetime, not each"
    )]
    pub(crate) fn node_grants<'a>(
        &'a self,
        page: PageOf<'a>,
    ) -> Pending<impl Future<Output = Result<Page<NodeGrant>, StoreError>> + Send> {
        Pending::new(async move {
            let read = |reply| match reply {
                Reply::Leases(mut page) => {
                    let is_taken = |lease: &HeldLease| NodeId::of_lease(lease.id).is_some();
                    page.items.retain(is_taken);
                    Ok(page)
                }
                _ => Err(StoreError::Mismatch),
            };
            let Some(tier) = &self.inner().tier else {
                return Ok(Page {
                    items: Vec::new(),
                    next: None,
                });
            };
            let leases = self
                .pages(tier.inner(), page, |listing| Op::ListLeases(listing), read)
                .await?;
            let view = self.inner().view.load_full();
            let items = leases.items.into_iter();
            Ok(Page {
                items: items.filter_map(|lease| grant(lease, &view)).collect(),
                next: leases.next,
            })
        })
    }
}

fn grant(lease: HeldLease, view: &View) -> Option<NodeGrant> {
    let node = NodeId::of_lease(lease.id)?;
    let mut listed = named(lease, view);
    // What bounds how much is out is nobody's limit.
    let own = view.limits.iter().filter(|limit| !limit.is_absent());
    let is_own = |name: &str| own.clone().any(|limit| limit.name() == name);
    listed.taken.retain(|(name, _)| is_own(name));
    Some(NodeGrant {
        key: listed.key,
        node,
        granted_at: listed.granted_at,
        expires_at: listed.expires_at,
        taken: listed.taken,
    })
}
