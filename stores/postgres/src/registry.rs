//! The editions of a table's plan, kept beside the rows: a row says by which it
//! was written.

use std::sync::Arc;

use tidegate_contract::{Plan, StoreError};
use tidegate_remote::{Change, Writer};

use crate::error::garbled;
use crate::link::{Argument, Link};
use crate::options::Clock;
use crate::plan;

/// One table's editions. See the [module](self).
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) link: Arc<Link>,
    pub(crate) clock: Clock,
    /// The number of the set.
    pub(crate) tab: i32,
}

impl Writer<i64> for Registry {
    async fn write(&self, change: &Change) -> Result<i64, StoreError> {
        let plan = &change.plan;
        let statement = "SELECT tidegate.register($1, $2, $3::text::numeric, $4, $5, $6,
            $7::text::numeric, $8::text::numeric[], $9, $10)";
        let (version, keep) = (
            plan.version().to_string(),
            plan.keep().as_micros().to_string(),
        );
        let (at, caller) = (change.at.as_micros(), self.clock == Clock::Caller);
        let (levels, numbers) = (plan.levels() as i32, plan::numbers(plan));
        let (names, calendars) = (plan::names(plan), plan::calendars(&change.calendars));
        let arguments: [Argument<'_>; 10] = [
            &self.tab,
            &change.is_first,
            &version,
            &at,
            &caller,
            &levels,
            &keep,
            &numbers,
            &names,
            &calendars,
        ];
        let rows = self.link.ask(statement, &arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no edition"))?;
        Ok(row.get(0))
    }
}

/// The number of the set called `name`, made if it is not there.
pub(crate) async fn number(link: &Link, name: &str) -> Result<i32, StoreError> {
    let known = "SELECT tab FROM tidegate.sets WHERE name = $1";
    let made = "INSERT INTO tidegate.sets (name) VALUES ($1)
        ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING tab";
    for statement in [known, made] {
        if let Some(row) = link.ask(statement, &[&name]).await?.first() {
            return Ok(row.get(0));
        }
    }
    Err(garbled("no set"))
}

/// The plan that the set called `name` was last decided by.
pub(crate) async fn newest(link: &Link, name: &str) -> Result<Option<Plan>, StoreError> {
    let statement = "SELECT e.version::text, e.levels, e.keep::text, e.names,
        (SELECT coalesce(string_agg(concat_ws(',', uid, level, kind, postpaid::int, shadow::int,
            refund::int, capacity, drain, weight, brim, most, align, period, step, steps, entries),
            ',' ORDER BY number), '')
         FROM unnest(e.rules) WITH ORDINALITY AS r (uid, level, kind, postpaid, shadow, refund,
            capacity, drain, weight, brim, most, align, period, step, steps, entries, number))
        FROM tidegate.sets s JOIN tidegate.editions e ON e.tab = s.tab AND e.edition = s.newest
        WHERE s.name = $1";
    let rows = link.ask(statement, &[&name]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let names: Vec<String> = row.get(3);
    plan::read(row.get(0), row.get(1), row.get(2), &names, row.get(4)).map(Some)
}
