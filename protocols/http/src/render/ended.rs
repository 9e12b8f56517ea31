//! What becomes of a lease.

use serde::{Serialize, Serializer};
use tidegate::Settlement;
use tidegate_service::{Finished, Served};

use super::instant::Instant;
use crate::parse::amount::InUnit;

#[derive(Serialize)]
pub(crate) struct Renewed {
    pub(crate) expires_at: Instant,
}

#[derive(Serialize)]
pub(crate) struct Ended<'a> {
    expired: bool,
    repeated: bool,
    limits: Usages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cooling_until: Option<Instant>,
}

struct Usages<'a>(&'a Served, &'a Settlement);

#[derive(Serialize)]
struct Used {
    taken: InUnit,
    used: InUnit,
}

impl<'a> Ended<'a> {
    pub(crate) fn of(served: &'a Served, finished: &'a Finished) -> Self {
        let settlement = &finished.settlement;
        Self {
            expired: settlement.expired(),
            repeated: settlement.repeated(),
            limits: Usages(served, settlement),
            member: finished.member.as_deref(),
            cooling_until: finished.cooling_until.map(Instant),
        }
    }
}

impl Serialize for Usages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(served, settlement) = self;
        serializer.collect_map(settlement.usages().map(|(name, usage)| {
            let unit = served.unit(name);
            let used = Used {
                taken: InUnit(unit, usage.taken),
                used: InUnit(unit, usage.used),
            };
            (name, used)
        }))
    }
}
