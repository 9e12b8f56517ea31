//! Keys, leases and usage, a page at a time.
//!
//! For keys and leases the server's keys are walked by `SCAN`, and each row found is asked whether it
//! is more than "never seen": it may be there for its usage alone. Where a page ends is a place in that
//! scan: its cursor, what the last step of it found and the page had no room
//! for, and for leases how far one root's were told. A step of a scan finds a
//! key again only where the server's own table shrinks between two pages. Of usage sums are
//! made, so nothing is told twice: it goes by the [order of roots](crate::roots).

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::try_join_all;
use redis::Value;
use tidegate_store::core::Timestamp;
use tidegate_store::key::root_of_beginning;
use tidegate_store::revisions::Revision;
use tidegate_store::{
    HeldLease, Hours, KeyPath, Listing, OwnedKey, Page, Select, StoreError, Usage,
};

use crate::error::garbled;
use crate::inner::Inner;
use crate::known::Known;
use crate::options::Clock;
use crate::request::Request;
use crate::wire;
use crate::wire::held::{self, Held};
use crate::wire::place::{Place, UsagePlace};
use crate::wire::reply::Answer;
use crate::wire::used;

/// How many of the server's keys are looked at for one page, about.
const LOOKED_AT: usize = 8_192;

/// How many of them at a time, at most, and how many rows are asked for at once. What is found and has
/// no room on the page is in its end.
const AT_ONCE: usize = 256;

/// The same for roots, of which each may have many leases.
const ROOTS_AT_ONCE: usize = 32;

/// How many roots are asked for their leases for one page, at most.
const ROOTS_FOR_ONE: usize = 128;

impl Inner {
    pub(crate) async fn keys(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
    ) -> Result<Page<OwnedKey>, StoreError> {
        let place = self.place(wanted)?;
        let mut page = Page::empty();
        if let Select::Key(key) = wanted.select {
            if self.matters(key, wanted.now, true).await? {
                page.items.push(OwnedKey::new(key));
            }
            return Ok(page);
        }
        let pattern = self.names.rows(wanted.select, wanted.levels);
        let mut scan = Scan::new(self, pattern, place);
        while page.items.len() < wanted.most {
            let free = (wanted.most - page.items.len()).min(AT_ONCE);
            let Some(row) = scan.next(free).await? else {
                break;
            };
            // Those that were found with it, at the same time.
            let others = scan.place.found.len().min(free - 1);
            let others = scan.place.found.drain(scan.place.found.len() - others..);
            let rows = std::iter::once(row).chain(others.rev());
            let keys = rows.filter_map(|row| self.names.key_of(&row));
            let keys: Vec<_> = keys.filter(|key| wanted.takes(key)).collect();
            let matter = keys.iter().map(|key| self.matters(key, wanted.now, false));
            let matter = try_join_all(matter).await?;
            let found = keys.iter().zip(matter).filter(|(_, matters)| *matters);
            page.items.extend(found.map(|(key, _)| OwnedKey::new(key)));
        }
        page.next = scan.place.next(&self.names);
        Ok(page)
    }

    /// Where the page before it has ended.
    fn place(&self, wanted: &Listing<'_>) -> Result<Option<Place>, StoreError> {
        let place = wanted.after.map(|after| Place::read(after, &self.names));
        place.transpose()
    }

    /// Whether the row of `key` is more than "never seen". By the server's clock one that is there
    /// says so itself: it may be there for what it has counted.
    async fn matters(
        self: &Arc<Self>,
        key: &[u8],
        now: Timestamp,
        unseen: bool,
    ) -> Result<bool, StoreError> {
        let revision = self.revision().await?;
        let Ok(path) = KeyPath::stored(key, revision.plan.levels()) else {
            return Ok(false);
        };
        if self.shared.clock == Clock::Caller || unseen {
            return self.look_at(&revision, key, now).await;
        }
        self.is_row_seen(&self.names.row(&path, path.depth() - 1))
            .await
    }

    /// Whether a row that is there is more than "never seen" by the server's clock. By the caller's it is
    /// taken to be: only a look knows.
    async fn is_row_seen(&self, row: &[u8]) -> Result<bool, StoreError> {
        if self.shared.clock == Clock::Caller {
            return Ok(true);
        }
        let (link, script) = (&self.shared.link, &self.shared.scripts.is_seen);
        Ok(link.call(script, &[row], &[]).await? == Value::Int(1))
    }

    /// Whether the row of `key` matters. What was due of its root is dealt with.
    async fn look_at(
        &self,
        revision: &Revision<Arc<Known>>,
        key: &[u8],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let path = KeyPath::stored(key, revision.plan.levels());
        let path = path.map_err(|_| garbled("a key of no level"))?;
        let look = wire::command::look(&path, now, &[], self.shared.clock);
        let mut request = Request::new(&revision.plan, &path, now, look, &self.names);
        match self.query(&revision.known, &mut request).await? {
            Answer::Looked(matters) => Ok(matters),
            _ => Err(garbled("no look")),
        }
    }

    pub(crate) async fn leases(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
    ) -> Result<Page<HeldLease>, StoreError> {
        let place = self.place(wanted)?;
        let pattern = self.names.ledgers(wanted.select, wanted.levels);
        let mut scan = Scan::new(self, pattern, place);
        if let (Select::Key(key), false) = (wanted.select, scan.place.has_begun()) {
            let levels = self.revision().await?.plan.levels();
            scan.place = self.only_root_of(key, levels);
        }
        let mut page = Page::empty();
        while page.items.len() < wanted.most {
            let Some(due) = scan.next(ROOTS_AT_ONCE).await? else {
                break;
            };
            let within = scan.place.within.take();
            // The pattern fits some rows, too, and a caller may have made up a place.
            let Some(ledger) = self.names.ledger_of(&due) else {
                continue;
            };
            let most = wanted.most - page.items.len();
            let held = self.held(ledger, &due, within, most, wanted.now).await?;
            let taken = held.leases.into_iter();
            page.items
                .extend(taken.filter(|lease| wanted.takes(lease.key.bytes())));
            scan.looked_at += most.max(LOOKED_AT / ROOTS_FOR_ONE);
            if held.has_more {
                scan.place.go_on_within(due, held.last);
            }
        }
        page.next = scan.place.next(&self.names);
        Ok(page)
    }

    pub(crate) async fn usage(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        let mut place = match wanted.after {
            Some(after) => UsagePlace::read(after, &self.names)?,
            None => UsagePlace::default(),
        };
        let revision = self.revision().await?;
        let plan = &revision.plan;
        let refunds = plan.limits().iter().any(|limit| limit.refund_on_expiry);
        let beginning = match wanted.select {
            Select::Key(key) => match KeyPath::stored(key, plan.levels()) {
                Ok(path) => (path.root(), true),
                Err(_) => return Ok(Page::empty()),
            },
            select => root_of_beginning(select.beginning(), plan.levels()),
        };
        let at = match self.shared.clock {
            Clock::Server => None,
            Clock::Caller => Some(wanted.now),
        };
        let (mut page, mut looked_at) = (Page::empty(), 0);
        let (mut roots, mut is_last) = (VecDeque::new(), false);
        // Of the root at hand what was due is noted.
        let mut is_noted = !refunds;
        loop {
            if place.within.is_none() {
                if roots.is_empty() && !is_last {
                    let after = (!place.root.is_empty()).then_some(&*place.root);
                    let found = self.roots(beginning, after, ROOTS_AT_ONCE, wanted.now);
                    roots = found.await?.into();
                    is_last = roots.len() < ROOTS_AT_ONCE;
                }
                match roots.pop_front() {
                    Some(root) => place = UsagePlace::at(root),
                    None => return Ok(page),
                }
                is_noted = !refunds;
            }
            if page.items.len() >= wanted.most || looked_at >= LOOKED_AT {
                page.next = Some(place.write(&self.names));
                return Ok(page);
            }
            let most = (wanted.most - page.items.len()).min(AT_ONCE);
            let after = place.within.as_deref().unwrap_or_default();
            let arguments = used::query(after, hours, most, plan.usage(), at);
            let (link, keys) = (&self.shared.link, self.names.usage_listing(&place.root));
            let answer = link
                .call(&self.shared.scripts.used, &keys, &arguments)
                .await?;
            let used = used::read(answer)?;
            if used.is_due && !is_noted {
                // One that cannot be looked at, now or ever, keeps no other from being listed.
                let _ = self.look_at(&revision, &place.root, wanted.now).await;
                is_noted = true;
                continue;
            }
            let records = used.records.into_iter();
            page.items
                .extend(records.filter(|used| used.amount > 0 && wanted.takes(used.key.bytes())));
            looked_at += most.max(LOOKED_AT / ROOTS_FOR_ONE);
            place.within = used.more;
        }
    }

    /// A scan through the leases of one root.
    fn only_root_of(&self, key: &[u8], levels: usize) -> Place {
        let path = KeyPath::stored(key, levels);
        let due = path
            .ok()
            .and_then(|path| self.names.of(&path).swap_remove(1).into());
        Place::at(due.into_iter().collect())
    }

    /// Some of a root's leases.
    async fn held(
        &self,
        ledger: Vec<u8>,
        due: &[u8],
        after: Option<(i64, i64)>,
        most: usize,
        now: Timestamp,
    ) -> Result<Held, StoreError> {
        let at = match self.shared.clock {
            Clock::Server => None,
            Clock::Caller => Some(now),
        };
        let arguments = held::query(after, most.min(AT_ONCE), at);
        let (link, script) = (&self.shared.link, &self.shared.scripts.held);
        let answer = link
            .call(script, &[ledger, due.to_vec()], &arguments)
            .await?;
        held::read(answer, now)
    }

    /// How many rows are more than "never seen": each is asked for, since one may be there for its usage.
    pub(crate) async fn count_keys(&self) -> Result<usize, StoreError> {
        let mut scan = Scan::new(self, self.names.rows(Select::All, 1), None);
        let mut count = 0;
        while scan.step(LOOKED_AT).await? {
            for rows in scan.place.found.chunks(AT_ONCE) {
                let seen = try_join_all(rows.iter().map(|row| self.is_row_seen(row))).await?;
                count += seen.into_iter().filter(|&is_seen| is_seen).count();
            }
        }
        Ok(count)
    }
}

/// A scan through the server's keys, of bounded length.
struct Scan<'t> {
    table: &'t Inner,
    pattern: Vec<u8>,
    place: Place,
    looked_at: usize,
}

impl<'t> Scan<'t> {
    fn new(table: &'t Inner, pattern: Vec<u8>, place: Option<Place>) -> Self {
        Self {
            table,
            pattern,
            place: place.unwrap_or_default(),
            looked_at: 0,
        }
    }

    /// The next key that fits the pattern; `at_once` of the server's keys are
    /// looked at in a step, and twice as many in the next if there was none. `None`
    /// at the end, or if enough were looked at.
    async fn next(&mut self, mut at_once: usize) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            if self.looked_at >= LOOKED_AT {
                return Ok(None);
            }
            if let Some(key) = self.place.found.pop() {
                return Ok(Some(key));
            }
            if !self.step(at_once).await? {
                return Ok(None);
            }
            at_once = (at_once * 2).min(AT_ONCE);
        }
    }

    /// Finds some more; `false` at the end.
    async fn step(&mut self, at_once: usize) -> Result<bool, StoreError> {
        let Some(cursor) = &self.place.cursor else {
            return Ok(false);
        };
        let link = &self.table.shared.link;
        let (next, found) = link.scan(cursor, &self.pattern, at_once).await?;
        self.looked_at += at_once;
        self.place.found = found;
        self.place.cursor = next;
        Ok(true)
    }
}
