//! Keys, leases and usage, a page at a time.
//!
//! A page goes through an index in its order: keys by name, leases by root, by
//! when they are due, and by turn (an id is a secret, and in no page's end), usage by
//! name, hour and limit. It looks at a bounded number of entries. Where it ends is the
//! last of them, with the table's number before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use mysql_async::{Params, Value};
use tidegate_store::bytes::{Reader, decode_record};
use tidegate_store::core::Timestamp;
use tidegate_store::key::{root_of, root_of_beginning};
use tidegate_store::ledger::LeaseStage;
use tidegate_store::optimistic::{Clock, KeptRow, ListedRow, PlanRevision, held_lease};
use tidegate_store::{HeldLease, Hour, Hours, Listing, OwnedKey, Page, Select, StoreError, Usage};

use crate::error::{Trouble, garbled};
use crate::inner::Inner;
use crate::names;
use crate::sql::{AT_START, Place, marks};

/// So many rows or leases are looked at for one page.
const LOOKED_AT: usize = 1_024;

/// So many leases that are due are looked at for one page of usage.
const MOST_DUE: usize = 8_192;

/// A place among leases.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Spot {
    root: Vec<u8>,
    due: i64,
    turn: u64,
}

/// A place among records of usage.
#[derive(Clone, PartialEq, Eq, Debug)]
struct UsageSpot {
    name: Vec<u8>,
    hour: u32,
    limit: Vec<u8>,
}

/// A record of usage: name and key of the row, hour, name and whole name of the limit, how much,
/// and when it is over.
type Used = (Vec<u8>, Vec<u8>, u32, Vec<u8>, Vec<u8>, u64, i64);

/// What of leases comes after a spot.
#[derive(Clone, Copy)]
enum Rest {
    /// Others of the same root.
    Within,
    /// Those of other roots.
    Beyond,
    /// Those of this root, all of them.
    Of,
}

/// A row as it is listed: its name, its key, from when on it equals "never seen", its bytes.
type Row = (Vec<u8>, Vec<u8>, i64, Vec<u8>);

/// A lease as it is listed.
type Told = (Vec<u8>, i64, u64, Vec<u8>);

impl Inner {
    pub(crate) async fn keys(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
    ) -> Result<Page<OwnedKey>, Trouble> {
        let after = match wanted.after {
            Some(after) => Some(self.place_after(after)?),
            None => None,
        };
        let now = Timestamp::from_micros(self.clock_for(wanted.now).await?);
        let beginning = || names::beginning(wanted.select.beginning()).to_vec();
        let (beginning, sign) = match (wanted.select, &after) {
            (Select::Key(_), Some(_)) => return Ok(Page::empty()),
            (Select::Key(key), None) => (names::name(key), "="),
            (Select::All | Select::Prefix(_), Some(_)) => (beginning(), ">"),
            (Select::All | Select::Prefix(_), None) => (beginning(), ">="),
        };
        let from = after.unwrap_or_else(|| beginning.clone());
        let found = self.rows_from(sign, from).await?;
        let (is_last, own) = (found.len() < LOOKED_AT, self.revision().await?);
        let mut page = Page::empty();
        for (name, key, forget_at, body) in found {
            if !name.starts_with(&beginning) {
                page.next = None;
                return Ok(page);
            }
            if page.items.len() == wanted.most {
                return Ok(page);
            }
            page.next = Some(self.place_at(&name));
            let kept = KeptRow {
                key: &key,
                bytes: &body,
                forget_at: Timestamp::from_micros(forget_at),
            };
            if wanted.takes(&key) && self.forgotten_at(&kept, &own, now).await? > now {
                page.items.push(OwnedKey::new(&key));
            }
        }
        if is_last {
            page.next = None;
        }
        Ok(page)
    }

    /// From when on a kept row equals "never seen", by the limits of now.
    async fn forgotten_at(
        &self,
        kept: &KeptRow<'_>,
        own: &Arc<PlanRevision>,
        now: Timestamp,
    ) -> Result<Timestamp, Trouble> {
        loop {
            match ListedRow::of(kept, own, &self.known.all(), now)? {
                ListedRow::ForgottenAt(at) => return Ok(at),
                ListedRow::Revisions(numbers) => {
                    let mut lent = self.shared.pool.lend().await?;
                    match self.learn(&mut lent, &numbers).await {
                        Ok(()) => lent.put_back(),
                        // Of one that nobody knows any more, nothing newer can be told.
                        Err(Trouble::Failed(_)) => {
                            lent.put_back();
                            return Ok(kept.forget_at);
                        }
                        Err(trouble) => return Err(self.give_up(lent, trouble).await),
                    }
                }
            }
        }
    }

    /// Rows in the order of their names.
    async fn rows_from(&self, sign: &str, from: Vec<u8>) -> Result<Vec<Row>, Trouble> {
        let Place { prefix, table } = self.place();
        let sql = format!(
            "SELECT name, COALESCE(whole, name), forget_at, body FROM {prefix}_rows \
             WHERE table_id = ? AND name {sign} ? ORDER BY name LIMIT {LOOKED_AT}"
        );
        self.shared.query(&sql, (table, from)).await
    }

    /// The instant that rows are compared with: what the server's clock says, or
    /// the caller's.
    async fn clock_for(&self, now: Timestamp) -> Result<i64, Trouble> {
        if self.shared.clock == Clock::Caller {
            return Ok(now.as_micros());
        }
        let now: Vec<i64> = self.shared.query(&format!("SELECT {AT_START}"), ()).await?;
        now.first().copied().ok_or_else(|| garbled("no clock"))
    }

    /// The end of a page.
    fn place_at(&self, rest: &[u8]) -> Vec<u8> {
        let mut place = self.place().table.to_be_bytes().to_vec();
        place.extend(rest);
        place
    }

    /// What stands behind the table's number in the end of a page.
    fn place_after(&self, place: &[u8]) -> Result<Vec<u8>, StoreError> {
        let rest = place.strip_prefix(&self.place().table.to_be_bytes());
        rest.map(<[u8]>::to_vec).ok_or(StoreError::UnknownPage)
    }

    pub(crate) async fn held_leases(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
    ) -> Result<Page<HeldLease>, Trouble> {
        let now = Timestamp::from_micros(self.clock_for(wanted.now).await?);
        let levels = self.revision().await?.plan.levels();
        let only = only_root(wanted.select, levels);
        let beginning = match (wanted.select, &only) {
            (_, Some(root)) => root.clone(),
            (Select::Key(_), None) => return Ok(Page::empty()),
            (select, None) => {
                let (root, _) = root_of_beginning(select.beginning(), levels);
                names::beginning(root).to_vec()
            }
        };
        let spot = match wanted.after {
            Some(after) => Some(Spot::read(&self.place_after(after)?)?),
            None => None,
        };
        let found = self.leases_after(spot, &beginning, only.is_some()).await?;
        let is_last = found.len() < LOOKED_AT;
        let mut page = Page::empty();
        for (root, due, turn, body) in found {
            let is_among = match &only {
                Some(only) => root == *only,
                None => root.starts_with(&beginning),
            };
            if !is_among || page.items.len() == wanted.most {
                if !is_among {
                    page.next = None;
                }
                return Ok(page);
            }
            page.next = Some(self.place_at(&Spot { root, due, turn }.write()));
            let lease = held_lease(&body, now, wanted.now).map_err(StoreError::from)?;
            let lease = lease.filter(|lease| wanted.takes(lease.key.bytes()));
            page.items.extend(lease);
        }
        if is_last {
            page.next = None;
        }
        Ok(page)
    }

    async fn leases_after(
        &self,
        spot: Option<Spot>,
        beginning: &[u8],
        only_one_root: bool,
    ) -> Result<Vec<Told>, Trouble> {
        let first = || Spot {
            root: beginning.to_vec(),
            due: i64::MIN,
            turn: 0,
        };
        match (spot, only_one_root) {
            (None, true) => self.leases(&first(), Rest::Of, LOOKED_AT).await,
            (Some(spot), true) => self.leases(&spot, Rest::Within, LOOKED_AT).await,
            (spot, false) => {
                let mut found = match &spot {
                    Some(spot) => self.leases(spot, Rest::Within, LOOKED_AT).await?,
                    None => self.leases(&first(), Rest::Of, LOOKED_AT).await?,
                };
                let spot = spot.unwrap_or_else(first);
                let most = LOOKED_AT - found.len();
                found.extend(self.leases(&spot, Rest::Beyond, most).await?);
                Ok(found)
            }
        }
    }

    async fn leases(&self, spot: &Spot, rest: Rest, most: usize) -> Result<Vec<Told>, Trouble> {
        let Place { prefix, table } = self.place();
        let Spot { root, due, turn } = spot;
        let sql = |which: &str| {
            format!(
                "SELECT root, due, turn, body FROM {prefix}_leases WHERE table_id = ? \
                 AND root {which} ORDER BY root, due, turn LIMIT {most}"
            )
        };
        let shared = &self.shared;
        match rest {
            Rest::Within => {
                let sql = sql("= ? AND due >= ? AND (due > ? OR turn > ?)");
                shared.query(&sql, (table, root, due, due, turn)).await
            }
            Rest::Beyond => shared.query(&sql("> ?"), (table, root)).await,
            Rest::Of => shared.query(&sql("= ?"), (table, root)).await,
        }
    }
}

impl Inner {
    pub(crate) async fn usage(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, Trouble> {
        let now = self.clock_for(wanted.now).await?;
        let plan = Arc::clone(&self.revision().await?.plan);
        let (beginning, first, is_one) = match wanted.select {
            Select::Key(key) => (names::name(key), hours.from, true),
            select => {
                let beginning = names::beginning(select.beginning());
                (beginning.to_vec(), Hour::default(), false)
            }
        };
        let spot = match wanted.after {
            Some(after) => UsageSpot::read(&self.place_after(after)?)?,
            None => UsageSpot::before(&beginning, first),
        };
        let found = self.usage_after(&spot, is_one).await?;
        let is_last = found.len() < LOOKED_AT;
        let mut page = Page::empty();
        for (name, key, hour, limit, whole, amount, over_at) in found {
            let hour = Hour::new(hour);
            let is_among = match is_one {
                true => name == beginning && hour < hours.to,
                false => name.starts_with(&beginning),
            };
            if !is_among {
                page.next = None;
                return Ok(page);
            }
            if page.items.len() == wanted.most {
                return Ok(page);
            }
            let spot = UsageSpot {
                name,
                hour: hour.number(),
                limit,
            };
            page.next = Some(self.place_at(&spot.write()));
            let is_over = over_at <= now || plan.usage_is_over(hour, Timestamp::from_micros(now));
            let is_kept = amount > 0 && !is_over;
            if is_kept && hours.has(hour) && wanted.takes(&key) {
                let limit = str::from_utf8(&whole).map_err(|_| garbled("a limit"))?;
                page.items.push(Usage {
                    key: OwnedKey::new(&key),
                    limit: limit.into(),
                    hour,
                    amount,
                });
            }
        }
        if is_last {
            page.next = None;
        }
        Ok(page)
    }

    async fn usage_after(&self, spot: &UsageSpot, is_one: bool) -> Result<Vec<Used>, Trouble> {
        let Place { prefix, table } = self.place();
        let UsageSpot { name, hour, limit } = spot;
        let others = if is_one { "" } else { "name > ? OR " };
        let sql = format!(
            "SELECT name, COALESCE(whole, name), hour, limit_name, \
             COALESCE(whole_limit, limit_name), amount, over_at FROM {prefix}_usage \
             WHERE table_id = ? AND ({others}(name = ? AND \
             (hour > ? OR (hour = ? AND limit_name > ?)))) \
             ORDER BY name, hour, limit_name LIMIT {LOOKED_AT}"
        );
        let mut parameters = vec![Value::from(table)];
        if !is_one {
            parameters.push(name.into());
        }
        parameters.extend([name.into(), hour.into(), hour.into(), limit.into()]);
        self.shared
            .query(&sql, Params::Positional(parameters))
            .await
    }
}

impl Inner {
    /// Those of these roots under which leases have expired that nothing has ended yet.
    pub(crate) async fn expired_roots(
        &self,
        mut roots: Vec<OwnedKey>,
        now: Timestamp,
    ) -> Result<Vec<OwnedKey>, Trouble> {
        let Place { prefix, table } = self.place();
        let at = match self.shared.clock {
            Clock::Server => AT_START.to_owned(),
            Clock::Caller => now.as_micros().to_string(),
        };
        let sql = format!(
            "SELECT root, body FROM {prefix}_leases WHERE table_id = ? AND root IN ({}) \
             AND due <= {at} ORDER BY root LIMIT {MOST_DUE}",
            marks(roots.len())
        );
        let names = roots
            .iter()
            .map(|root| Value::from(names::name(root.bytes())));
        let parameters = std::iter::once(Value::from(table)).chain(names).collect();
        let due = self.shared.query(&sql, Params::Positional(parameters));
        let due: Vec<(Vec<u8>, Vec<u8>)> = due.await?;
        // Of roots behind these nothing is known: they are looked at, too.
        let last = due.last().filter(|_| due.len() == MOST_DUE);
        let unknown_from = last.map(|(root, _)| root.clone());
        let mut expired = BTreeSet::new();
        for (root, body) in due {
            let lease = decode_record(&body).map_err(|_| garbled("a lease"))?;
            if let LeaseStage::Live = lease.stage {
                expired.insert(root);
            }
        }
        roots.retain(|root| {
            let name = names::name(root.bytes());
            expired.contains(&name) || unknown_from.as_ref().is_some_and(|from| name >= *from)
        });
        Ok(roots)
    }
}

impl UsageSpot {
    /// Before all records of a row from an hour on: no limit is called nothing.
    fn before(name: &[u8], hour: Hour) -> Self {
        Self {
            name: name.to_vec(),
            hour: hour.number(),
            limit: Vec::new(),
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = self.hour.to_le_bytes().to_vec();
        bytes.extend((self.limit.len() as u32).to_le_bytes());
        bytes.extend(&self.limit);
        bytes.extend(&self.name);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader::new(bytes);
        let unknown = |_| StoreError::UnknownPage;
        Ok(Self {
            hour: reader.u32().map_err(unknown)?,
            limit: reader.bytes().map_err(unknown)?.to_vec(),
            name: reader.rest().to_vec(),
        })
    }
}

impl Spot {
    fn write(&self) -> Vec<u8> {
        let mut bytes = self.due.to_le_bytes().to_vec();
        bytes.extend(self.turn.to_le_bytes());
        bytes.extend(&self.root);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader::new(bytes);
        let unknown = |_| StoreError::UnknownPage;
        Ok(Self {
            due: reader.i64().map_err(unknown)?,
            turn: reader.u64().map_err(unknown)?,
            root: reader.rest().to_vec(),
        })
    }
}

/// The only root whose leases are wanted, by its name, if there is only one.
fn only_root(select: Select<'_>, levels: usize) -> Option<Vec<u8>> {
    match select {
        Select::Key(key) => Some(names::name(root_of(key, levels))),
        Select::All => None,
        Select::Prefix(prefix) => {
            let (root, is_whole) = root_of_beginning(prefix, levels);
            is_whole.then(|| names::name(root))
        }
    }
}
