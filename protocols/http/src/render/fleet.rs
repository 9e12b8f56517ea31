//! What nodes took in advance.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::internal::{NodeGrant, TierBound};
use tidegate::{Page, TierStatistics};
use tidegate_service::ActivePolicy;

use super::instant::Instant;
use super::listing::{Name, Taken, cursor};
use crate::parse::amount::InUnit;

/// What nodes of a policy with a tier hold.
#[derive(Serialize, JsonSchema)]
#[schemars(example = json!({
    "node": "3fa92c", "member": null, "cursor": null,
    "limits": {"rpm": {"outstanding": 1000, "beyond": 0}},
    "counted": {"admitted": 840, "refused": 3, "requested": 10, "granted": 9, "late": 0, "returned": 2, "keys": 1},
    "grants": [{
        "key": "acme", "node": "3fa92c", "amounts": {"rpm": 100},
        "granted_at": "2026-01-01T12:00:00Z", "expires_at": "2026-01-01T12:00:05Z"
    }]
}))]
pub(crate) struct Fleet<'a> {
    /// The node that answers: six hexadecimal digits, drawn when its process began.
    node: String,
    /// The member of the pool that it is of; null where the policy is no pool.
    member: Option<&'a str>,
    /// What nodes may do with each limit, by name: empty where they take nothing in advance.
    #[schemars(with = "BTreeMap<String, Bound>")]
    limits: Bounds<'a>,
    /// What the node that answers has counted since it began; null without a tier.
    counted: Option<Counted>,
    /// What nodes took, and the store keeps for them now.
    grants: Vec<Shown<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

/// What nodes may do with one limit.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TierBound")]
struct Bound {
    /// How much of each key's may be out at nodes; null if that is not bounded. Of a limit with a
    /// `unit`, a decimal in quotes.
    #[schemars(with = "Option<InUnit>")]
    outstanding: Option<InUnit>,
    /// By how much all nodes may together exceed the limit at most: of a bucket in any time, of a
    /// rolling window in any window. Of a limit with a `unit`, a decimal in quotes.
    #[schemars(transform = super::answer::without_maximum)]
    beyond: InUnit,
}

/// What a node has counted of a policy since it began.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TierCounted")]
struct Counted {
    /// Requests admitted by what it holds.
    admitted: u64,
    /// Requests refused by a refusal that it remembers.
    refused: u64,
    /// Grants that it asked for.
    requested: u64,
    /// Grants that came.
    granted: u64,
    /// Of those, grants that came too late to be spent.
    late: u64,
    /// Grants of which it gave something back.
    returned: u64,
    /// Keys of which it holds something, or remembers a refusal.
    keys: u64,
}

/// What a node took of one key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeGrant")]
struct Shown<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    /// Which node took it.
    node: String,
    /// How much it took, by limit; what it has spent of that, it alone knows.
    #[schemars(with = "BTreeMap<String, InUnit>")]
    amounts: Taken<'a>,
    /// When it was granted, by the store's clock.
    granted_at: Instant,
    /// Until when the store keeps it, if the node does not give it back before.
    expires_at: Instant,
}

struct Bounds<'a>(&'a ActivePolicy, &'a [TierBound]);

impl<'a> Fleet<'a> {
    pub(crate) fn of(active: &'a ActivePolicy, page: &'a Page<tidegate_service::Fleet>) -> Self {
        let fleet = page.items.first();
        let grants = fleet.map_or(&[][..], |fleet| &fleet.grants).iter();
        Self {
            node: fleet.map_or_else(String::new, |fleet| fleet.here.to_string()),
            member: fleet.and_then(|fleet| fleet.member.as_deref()),
            limits: Bounds(active, fleet.map_or(&[], |fleet| &fleet.bounds)),
            counted: fleet.and_then(|fleet| fleet.counted).map(Counted::from),
            grants: grants.map(|grant| Shown::of(active, grant)).collect(),
            cursor: cursor(page),
        }
    }
}

impl From<TierStatistics> for Counted {
    fn from(counted: TierStatistics) -> Self {
        Self {
            admitted: counted.admitted,
            refused: counted.refused,
            requested: counted.requested,
            granted: counted.granted,
            late: counted.late,
            returned: counted.returned,
            keys: counted.keys,
        }
    }
}

impl<'a> Shown<'a> {
    fn of(active: &'a ActivePolicy, grant: &'a NodeGrant) -> Self {
        Self {
            key: Name::from(&grant.key[..]),
            node: grant.node.to_string(),
            amounts: Taken(active, &grant.taken),
            granted_at: Instant(grant.granted_at),
            expires_at: Instant(grant.expires_at),
        }
    }
}

impl Serialize for Bounds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(active, bounds) = self;
        serializer.collect_map(bounds.iter().map(|bound| {
            let unit = active.unit(&bound.limit);
            let shown = Bound {
                outstanding: bound.outstanding.map(|most| InUnit(unit, most)),
                beyond: InUnit(unit, bound.beyond),
            };
            (&bound.limit, shown)
        }))
    }
}
