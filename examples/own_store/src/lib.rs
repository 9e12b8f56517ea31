//! A store of your own to begin with: maps behind a mutex.
//!
//! It keeps rows and leases as the bytes that it is given, and decides nothing: the
//! [optimistic loop](tidegate_store::optimistic) says what to load, decides, and says what
//! to write. Yours puts its database where the maps are, and a transaction where the lock is
//! (or a version that is compared when it writes).
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::{Limit, LimitSet};
//! use tidegate_own_store::MapStore;
//!
//! # fn main() -> Result<(), tidegate::Error> {
//! let set = LimitSet::builder()
//!     .name("jobs")
//!     .limit(Limit::concurrency("running", 2))
//!     .store(Arc::new(MapStore::default()))
//!     .build()?;
//! let lease = set.try_acquire("alice", ()).wait()?.granted();
//! assert!(lease.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Deliberately absent: waiting (a request that may wait is refused at once, like any other:
//! `tidegate-net` brings a queue to stores beyond a network), listing keys and leases, and
//! deleting what nobody needs any more (rows after `RowWrite::keep_until`, usage after
//! `UsageWrite::over_at`).

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate_store::core::Timestamp;
use tidegate_store::definitions::at_once;
use tidegate_store::optimistic::exchange::LeaseRow;
use tidegate_store::optimistic::{
    Attempt, Clock, DueRange, KnownRevisions, LoadReply, LoadRequest, OwnedKeyCommand,
    PlanRevision, Step, StoredLease, UsageWrite, WriteSet,
};
use tidegate_store::revisions::{PlanChange, Revision, Revisions};
use tidegate_store::{
    Abilities, Answer, Change, Cleared, Command, Count, Defined, Definition, Definitions, Event,
    Execution, Follower, Hour, Hours, KeyCommand, Listing, LocalDefinitions, Op, Out, OwnedKey,
    Page, Plan, Reply, RootsOnPage, Store, StoreError, StoreFuture, Table, Usage,
};

/// Everything of one root: its row and those below it by their keys, and its leases.
#[derive(Default)]
struct Root {
    rows: BTreeMap<Box<[u8]>, Vec<u8>>,
    leases: BTreeMap<u128, LeaseRow>,
}

/// What is kept of one table.
#[derive(Default)]
struct Maps {
    /// The limits, one revision for each time that they were changed.
    revisions: Vec<PlanRevision>,
    roots: BTreeMap<Box<[u8]>, Root>,
    /// What was used, and from when on that is over.
    usage: BTreeMap<UsagePlace, (u64, Timestamp)>,
}

/// A record of usage: of which row, in which hour, of which limit.
type UsagePlace = (Box<[u8]>, Hour, Arc<str>);

/// The store. Tables of one name share what they keep.
#[derive(Default)]
pub struct MapStore {
    tables: Mutex<BTreeMap<String, Arc<Mutex<Maps>>>>,
    /// Overrides, and what else owners define.
    definitions: LocalDefinitions,
}

/// A table as it was opened once.
struct MapTable {
    maps: Arc<Mutex<Maps>>,
    /// By which limits it decides, and what is not written yet.
    revisions: Revisions<Arc<PlanRevision>>,
    /// The revisions that its rows were met with.
    known: KnownRevisions,
}

impl Root {
    fn load(&self, wanted: &LoadRequest) -> LoadReply {
        let is_wanted = |id: u128, row: &LeaseRow| {
            let by_key =
                wanted.idempotency_key.is_some() && wanted.idempotency_key == row.idempotency_key;
            by_key || wanted.all_leases || wanted.ids.contains(&id)
        };
        let leases = self.leases.iter();
        let leases = leases.filter(|(id, row)| is_wanted(**id, row));
        LoadReply {
            // By `Clock::Caller` nobody looks at it. A database has a clock of its own.
            now: Timestamp::MIN,
            version: None,
            rows: wanted
                .rows
                .iter()
                .map(|key| self.rows.get(key).cloned())
                .collect(),
            leases: leases.map(|(_, row)| kept(row)).collect(),
            due: wanted.due.map_or_else(Vec::new, |due| self.due(due)),
        }
    }

    /// The leases that are due next: an index of a database.
    fn due(&self, due: DueRange) -> Vec<StoredLease> {
        let order = |row: &&LeaseRow| (row.due, row.sequence);
        let mut all: Vec<_> = self.leases.values().collect();
        all.retain(|row| due.after.is_none_or(|after| order(row) > after));
        all.sort_by_key(order);
        all.into_iter().take(due.most).map(kept).collect()
    }

    fn write(&mut self, set: WriteSet) {
        for row in set.rows {
            match row.bytes {
                Some(bytes) => self.rows.insert(row.key, bytes),
                None => self.rows.remove(&row.key),
            };
        }
        for lease in set.leases {
            match lease.kept {
                Some(row) => self.leases.insert(lease.id, row),
                None => self.leases.remove(&lease.id),
            };
        }
    }
}

/// Adds what was used, in the step in which it was.
fn count(records: &mut BTreeMap<UsagePlace, (u64, Timestamp)>, usage: &[UsageWrite]) {
    for more in usage {
        let place = (more.key.clone(), more.hour, Arc::clone(&more.limit));
        let (amount, over_at) = records.entry(place).or_default();
        *amount = more.sum.applied_to(*amount);
        *over_at = more.over_at;
    }
}

/// Where a page of usage goes on behind a record: `hour u32, limit's length u32, limit, key`.
fn cursor((key, hour, limit): &UsagePlace) -> Vec<u8> {
    let mut bytes = hour.number().to_be_bytes().to_vec();
    bytes.extend((limit.len() as u32).to_be_bytes());
    bytes.extend(limit.as_bytes());
    bytes.extend(&**key);
    bytes
}

fn place_of_cursor(bytes: &[u8]) -> Option<UsagePlace> {
    let (hour, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (limit, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let limit = std::str::from_utf8(limit).ok()?;
    let hour = Hour::new(u32::from_be_bytes(*hour));
    Some((key.into(), hour, limit.into()))
}

fn kept(row: &LeaseRow) -> StoredLease {
    StoredLease {
        sequence: row.sequence,
        bytes: row.bytes.clone(),
    }
}

impl Maps {
    /// Writes a change of limits. A table that is opened with the limits that the newest
    /// revision has needs none of its own.
    fn revise(&mut self, change: &PlanChange) -> PlanRevision {
        let newest = self.revisions.last();
        let same =
            newest.filter(|newest| change.is_first() && newest.plan.has_limits_of(&change.plan));
        let revision = PlanRevision {
            number: newest.map_or(1, |newest| newest.number + u32::from(same.is_none())),
            plan: Arc::clone(&change.plan),
            adopted: same.map_or_else(|| change.adopted.clone(), |same| same.adopted.clone()),
            knows_keys: true,
        };
        self.revisions.truncate(revision.number as usize - 1);
        self.revisions.push(revision.clone());
        revision
    }
}

impl MapTable {
    /// The limits to decide by, written first if they are new.
    fn revision(&self, maps: &mut Maps) -> Option<Arc<PlanRevision>> {
        while let Some(change) = self.revisions.next_change() {
            let known = Arc::new(maps.revise(&change));
            self.known.note(&known);
            let plan = change.plan;
            self.revisions.written(Revision { plan, known });
        }
        Some(self.revisions.settled()?.known)
    }

    /// One command on one root: one step, since the maps are locked.
    fn one(&self, command: &KeyCommand<'_>) -> Answer {
        let maps = &mut *self.maps.lock();
        self.revisions
            .follow(command.plan, command.now, command.calendars)?;
        let request = OwnedKeyCommand::of(command);
        loop {
            if let Some(answer) = self.attempt(&request, maps)? {
                return answer;
            }
        }
    }

    /// `None`: so much was due that it goes on in another step.
    fn attempt(
        &self,
        request: &OwnedKeyCommand,
        maps: &mut Maps,
    ) -> Result<Option<Answer>, StoreError> {
        let own = self.revision(maps).ok_or(StoreError::StalePlan)?;
        if !Arc::ptr_eq(&own.plan, &request.plan) {
            return Err(StoreError::StalePlan);
        }
        let mut attempt = Attempt::new(request, own, self.known.all(), Clock::Caller);
        let mut step = Step::Load(attempt.begin()?);
        let root = maps.roots.entry(request.root()?.into()).or_default();
        loop {
            step = match step {
                Step::Load(wanted) => attempt.found(root.load(&wanted)),
                Step::Revisions(numbers) => {
                    let revision = |number: &u32| maps.revisions.get(*number as usize - 1).cloned();
                    self.known
                        .learn(numbers.iter().filter_map(revision).collect());
                    attempt.learned(self.known.all())
                }
                Step::Write(set, answer) => {
                    count(&mut maps.usage, &set.usage);
                    root.write(set);
                    return Ok(answer);
                }
                Step::Done(answer) => return Ok(Some(answer)),
            }
        }
    }

    fn adopt(&self, command: &Command<'_>) {
        let maps = &mut *self.maps.lock();
        // An error says that a newer plan is here already.
        let _newer = self
            .revisions
            .follow(command.plan, command.now, command.calendars);
        self.revision(maps);
    }

    /// What was used, once the leases of the keys on the page that have expired are ended: what they
    /// give back is not listed.
    fn page_of_usage(&self, listing: &Listing<'_>, hours: Hours) -> Answer {
        let mut roots = RootsOnPage::default();
        loop {
            let page = self.kept_usage(listing, hours)?;
            let revision = self.revision(&mut self.maps.lock());
            let new = roots.new_on(&page, listing.levels);
            let (Some(revision), false) = (revision, new.is_empty()) else {
                return Ok(Reply::Usage(page));
            };
            for root in &new {
                if let Some(look) = revision.look(root.bytes(), listing.now) {
                    self.one(&look)?;
                }
            }
        }
    }

    /// What was used, in the order of its records.
    fn kept_usage(&self, listing: &Listing<'_>, hours: Hours) -> Result<Page<Usage>, StoreError> {
        let after = match listing.after {
            None => Unbounded,
            Some(after) => Excluded(place_of_cursor(after).ok_or(StoreError::UnknownPage)?),
        };
        let (maps, plan) = (self.maps.lock(), self.revisions.newest_plan());
        let records = maps.usage.range((after, Unbounded));
        let told = records.filter(|((key, hour, _), (amount, over_at))| {
            let plan_says = plan
                .as_ref()
                .is_some_and(|plan| plan.usage_is_over(*hour, listing.now));
            let is_over = *over_at <= listing.now || plan_says;
            let is_kept = *amount > 0 && !is_over;
            is_kept && listing.takes(key) && hours.has(*hour)
        });
        let told: Vec<_> = told.take(listing.most).collect();
        let last = told.last().filter(|_| told.len() == listing.most);
        let next = last.map(|(place, _)| cursor(place));
        let item = |((key, hour, limit), (amount, _)): (&UsagePlace, &(u64, _))| Usage {
            key: OwnedKey::new(key),
            limit: Arc::clone(limit),
            hour: *hour,
            amount: *amount,
        };
        let items = told.into_iter().map(item).collect();
        Ok(Page { items, next })
    }

    fn count(&self) -> Count {
        let maps = self.maps.lock();
        Count {
            keys: maps.roots.values().map(|root| root.rows.len()).sum(),
            leases: None,
            remembered: None,
        }
    }
}

impl Table for MapTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let one = |&(path, verb): &_| self.one(&command.one(path, verb));
        out.ready(match command.op {
            Op::One(path, verb) => one(&(path, verb)),
            Op::Batch(items) => Ok(Reply::Batch(items.iter().map(one).collect())),
            Op::Adopt => {
                self.adopt(command);
                Ok(Reply::Done)
            }
            Op::ListKeys(_) | Op::ListLeases(_) => Err(StoreError::CannotList),
            Op::ListUsage(listing, hours) => self.page_of_usage(&listing, hours),
            Op::Count => Ok(Reply::Count(self.count())),
        })
    }
}

impl Store for MapStore {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: true,
            own_clock: false,
            answers_can_be_lost: false,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let maps = self.tables.lock().get(name).cloned();
        Ok(maps.and_then(|maps| Some(Arc::clone(&maps.lock().revisions.last()?.plan))))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        at_once(Ok(self.definitions.definitions(owner, newer_than)))
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        at_once(Ok(self.definitions.definition(owner, key)))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let definitions = &self.definitions;
        at_once(Ok(definitions.definition_with_ancestors(
            owner,
            key,
            parent_offset,
        )))
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        at_once(Ok(self.definitions.page(owner, prefix, after, most)))
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        at_once(self.definitions.change(owner, &change))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        at_once(self.definitions.events(owner, subject, after, most, now))
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.definitions.follow(owner, follower);
    }

    fn clear(&self, prefix: &str, _: Option<&[u8]>) -> StoreFuture<Cleared> {
        let mut tables = self.tables.lock();
        let before = tables.len();
        tables.retain(|name, _| !name.starts_with(prefix));
        let gone = (before - tables.len()) as u64;
        at_once(Ok(Cleared {
            removed: gone + self.definitions.clear(prefix),
            next: None,
        }))
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        match self.last_plan(name)?.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => Ok(Arc::new(MapTable {
                maps: Arc::clone(self.tables.lock().entry(name.to_owned()).or_default()),
                revisions: Revisions::default(),
                known: KnownRevisions::default(),
            })),
        }
    }
}
