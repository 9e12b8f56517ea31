//! What becomes of a lease.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::Settlement;
use tidegate_service::{ActivePolicy, Finished};

use super::example;
use super::instant::{Instant, millis_down};
use crate::parse::amount::InUnit;

/// Until when a lease lasts now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Renewal", example = example::renewal())]
pub(crate) struct Renewed {
    /// When it expires unless renewed again.
    expires_at: Instant,
    /// Milliseconds for which it lasts from now on: a client with a clock of its own counts
    /// these from when it sent the request.
    expires_in_ms: u64,
}

impl From<tidegate_service::Renewed> for Renewed {
    fn from(renewed: tidegate_service::Renewed) -> Self {
        Self {
            expires_at: Instant(renewed.expires_at),
            expires_in_ms: millis_down(renewed.ttl),
        }
    }
}

/// How a lease ended.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "Settlement",
    example = json!({
        "expired": false, "repeated": false, "limits": {"tpm": {"taken": 4000, "used": 3120}}
    })
)]
pub(crate) struct Ended<'a> {
    /// It had expired: slots were back already; the real use was charged.
    expired: bool,
    /// This is the answer given before: nothing was changed this time.
    repeated: bool,
    /// What each limit's share came to, by name.
    #[schemars(with = "BTreeMap<String, Used>")]
    limits: Usages<'a>,
    /// The member of a pool that had given the lease. Missing without a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    /// Until when that member is passed over. Missing if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    cooling_until: Option<Instant>,
}

struct Usages<'a>(&'a ActivePolicy, &'a Settlement);

/// What one limit's share of a lease came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
struct Used {
    /// What was taken at first. Of a limit with a `unit`, a decimal in quotes.
    taken: InUnit,
    /// What was used in the end. Of a limit with a `unit`, a decimal in quotes.
    used: InUnit,
}

impl<'a> Ended<'a> {
    pub(crate) fn of(active: &'a ActivePolicy, finished: &'a Finished) -> Self {
        let settlement = &finished.settlement;
        Self {
            expired: settlement.expired(),
            repeated: settlement.repeated(),
            limits: Usages(active, settlement),
            member: finished.member.as_deref(),
            cooling_until: finished.cooling_until.map(Instant),
        }
    }
}

impl Serialize for Usages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(active, settlement) = self;
        serializer.collect_map(settlement.usages().map(|(name, usage)| {
            let unit = active.unit(name);
            let used = Used {
                taken: InUnit(unit, usage.taken),
                used: InUnit(unit, usage.used),
            };
            (name, used)
        }))
    }
}
