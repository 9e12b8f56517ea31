//! The loop of load, decide, swap against the suite, on a backend of maps with
//! versions: what a store adds to it is I/O alone.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate_conformance::{Subject, suite};
use tidegate_core::Timestamp;
use tidegate_store::definitions::at_once;
use tidegate_store::optimistic::{
    Attempt, Clock, DueRange, KnownRevisions, LoadReply, LoadRequest, OwnedKeyCommand,
    PlanRevision, Step, StoredLease, UsageWrite, WriteSet, exchange,
};
use tidegate_store::revisions::{Revision, Revisions};
use tidegate_store::{
    Abilities, Change, Command, Count, Defined, Definition, Definitions, Event, Execution,
    Follower, Hours, KeyCommand, Listing, LocalDefinitions, Op, Out, OwnedKey, Page, Plan, Reply,
    RootsOnPage, Store, StoreError, StoreFuture, Table, Usage,
};

/// Random commands in a run.
const COMMANDS: usize = 150_000;

/// Everything of one root.
#[derive(Default)]
struct Root {
    version: u64,
    rows: BTreeMap<Box<[u8]>, Vec<u8>>,
    leases: BTreeMap<u128, exchange::LeaseRow>,
}

/// What is kept of one table.
#[derive(Default)]
struct TableKept {
    revisions: Vec<PlanRevision>,
    roots: BTreeMap<Box<[u8]>, Root>,
    /// Records of usage, each with when it is over, by their places in the listing.
    usage: BTreeMap<Vec<u8>, (Usage, Timestamp)>,
}

#[derive(Default)]
struct Maps {
    tables: Mutex<BTreeMap<String, Arc<Mutex<TableKept>>>>,
    local_definitions: LocalDefinitions,
}

struct MapTable {
    kept: Arc<Mutex<TableKept>>,
    revisions: Revisions<Arc<PlanRevision>>,
    known: KnownRevisions,
}

/// Where a record of usage stands: hour, length of the limit's name, the name, the key.
fn place_of(used: &UsageWrite) -> Vec<u8> {
    let length = used.limit.len() as u32;
    let mut place = used.hour.number().to_be_bytes().to_vec();
    place.extend(length.to_be_bytes());
    place.extend(used.limit.as_bytes());
    place.extend(&used.key);
    place
}

fn is_place(bytes: &[u8]) -> bool {
    let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
    let length = length.map(|length| u32::from_be_bytes(length) as usize);
    length.is_some_and(|length| bytes.len() - 8 >= length)
}

impl TableKept {
    fn use_more(&mut self, used: &UsageWrite) {
        let none = Usage {
            key: OwnedKey::new(&used.key),
            limit: Arc::clone(&used.limit),
            hour: used.hour,
            amount: 0,
        };
        let kept = self.usage.entry(place_of(used));
        let (kept, over_at) = kept.or_insert((none, used.over_at));
        kept.amount = used.sum.applied_to(kept.amount);
        *over_at = used.over_at;
    }

    fn usage(
        &self,
        wanted: &Listing<'_>,
        hours: Hours,
        plan: &Plan,
    ) -> Result<Page<Usage>, StoreError> {
        let mut page = Page::empty();
        let behind = match wanted.after {
            Some(after) if !is_place(after) => return Err(StoreError::UnknownPage),
            Some(after) => Excluded(after),
            None => Unbounded,
        };
        for (place, (used, over_at)) in self.usage.range::<[u8], _>((behind, Unbounded)) {
            let is_over = *over_at <= wanted.now || plan.usage_is_over(used.hour, wanted.now);
            let is_kept = used.amount > 0 && !is_over;
            if is_kept && hours.has(used.hour) && wanted.takes(used.key.bytes()) {
                page.items.push(used.clone());
            }
            if page.items.len() == wanted.most {
                page.next = Some(place.clone());
                break;
            }
        }
        Ok(page)
    }
}

impl Root {
    fn load(&self, wanted: &LoadRequest) -> LoadReply {
        let row = |key: &[u8]| self.rows.get(key).cloned();
        let meant = |id: u128, row: &exchange::LeaseRow| {
            wanted.all_leases
                || wanted.ids.contains(&id)
                || (wanted.idempotency_key.is_some()
                    && wanted.idempotency_key == row.idempotency_key)
        };
        let leases = self.leases.iter();
        let leases = leases.filter(|(id, row)| meant(**id, row));
        LoadReply {
            now: Timestamp::MIN,
            version: Some(self.version),
            rows: wanted.rows.iter().map(|key| row(key)).collect(),
            leases: leases.map(|(_, row)| kept(row)).collect(),
            due: wanted.due.map_or_else(Vec::new, |due| self.due(due)),
        }
    }

    fn due(&self, due: DueRange) -> Vec<StoredLease> {
        let position = |row: &exchange::LeaseRow| (row.due, row.sequence);
        let mut all: Vec<_> = self.leases.values().collect();
        all.retain(|row| due.after.is_none_or(|after| position(row) > after));
        all.sort_by_key(|row| position(row));
        all.into_iter().take(due.most).map(kept).collect()
    }

    fn write(&mut self, write_set: WriteSet) -> bool {
        if write_set.version != Some(self.version) {
            return false;
        }
        self.version += 1;
        for row in write_set.rows {
            match row.bytes {
                Some(bytes) => self.rows.insert(row.key, bytes),
                None => self.rows.remove(&row.key),
            };
        }
        for lease in write_set.leases {
            match lease.kept {
                Some(row) => self.leases.insert(lease.id, row),
                None => self.leases.remove(&lease.id),
            };
        }
        true
    }
}

fn kept(row: &exchange::LeaseRow) -> StoredLease {
    StoredLease {
        sequence: row.sequence,
        bytes: row.bytes.clone(),
    }
}

impl MapTable {
    fn revision(&self) -> Arc<PlanRevision> {
        while let Some(change) = self.revisions.next_change() {
            let mut kept = self.kept.lock();
            let same = kept
                .revisions
                .last()
                .filter(|newest| change.is_first() && newest.plan.has_limits_of(&change.plan));
            let revision = match same {
                Some(newest) => PlanRevision {
                    plan: Arc::clone(&change.plan),
                    ..newest.clone()
                },
                None => PlanRevision {
                    number: kept.revisions.len() as u32 + 1,
                    plan: Arc::clone(&change.plan),
                    adopted: change.adopted,
                    knows_keys: true,
                },
            };
            kept.revisions.truncate(revision.number as usize - 1);
            kept.revisions.push(revision.clone());
            let (plan, known) = (change.plan, Arc::new(revision));
            self.known.note(&known);
            self.revisions.written(Revision { plan, known });
        }
        self.revisions.settled().expect("a plan was adopted").known
    }

    fn learn(&self, numbers: &[u32]) {
        let kept = self.kept.lock();
        let revision = |number: &u32| kept.revisions[*number as usize - 1].clone();
        self.known.learn(numbers.iter().map(revision).collect());
    }

    /// One attempt; `None`: another is to be made.
    fn attempt(&self, request: &OwnedKeyCommand) -> Option<Result<Reply, StoreError>> {
        let (own, known) = (self.revision(), self.known.all());
        if !Arc::ptr_eq(&own.plan, &request.plan) {
            return Some(Err(StoreError::StalePlan));
        }
        let root = request.root().expect("a key");
        let mut attempt = Attempt::new(request, own, known, Clock::Caller);
        let load = |wanted: &LoadRequest| {
            let mut kept = self.kept.lock();
            kept.roots.entry(root.into()).or_default().load(wanted)
        };
        let wanted = attempt.begin().expect("a key");
        let mut step = attempt.found(load(&wanted));
        loop {
            step = match step {
                Step::Load(wanted) => attempt.found(load(&wanted)),
                Step::Revisions(numbers) => {
                    self.learn(&numbers);
                    attempt.learned(self.known.all())
                }
                Step::Done(reply) => return Some(reply),
                Step::Write(mut write_set, reply) => {
                    let mut kept = self.kept.lock();
                    let usage = std::mem::take(&mut write_set.usage);
                    let swapped = kept.roots.get_mut(root).expect("loaded").write(write_set);
                    if swapped {
                        usage.iter().for_each(|used| kept.use_more(used));
                    }
                    return reply.filter(|_| swapped);
                }
            }
        }
    }
}

impl MapTable {
    fn one(&self, command: &KeyCommand<'_>) -> Result<Reply, StoreError> {
        self.revisions
            .follow(command.plan, command.now, command.calendars)?;
        let request = OwnedKeyCommand::of(command);
        loop {
            if let Some(reply) = self.attempt(&request) {
                return reply;
            }
        }
    }

    fn usage(&self, listing: &Listing<'_>, hours: Hours) -> Result<Page<Usage>, StoreError> {
        let mut roots = RootsOnPage::default();
        loop {
            let revision = self.revision();
            let page = self.kept.lock().usage(listing, hours, &revision.plan)?;
            let new = roots.new_on(&page, listing.levels);
            if new.is_empty() {
                return Ok(page);
            }
            for root in new {
                let look = revision.look(root.bytes(), listing.now);
                self.one(&look.expect("a row has a root"))?;
            }
        }
    }

    fn count(&self) -> usize {
        let kept = self.kept.lock();
        kept.roots.values().map(|root| root.rows.len()).sum()
    }
}

impl Table for MapTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let answer = match command.op {
            Op::One(path, verb) => self.one(&command.one(path, verb)),
            Op::Batch(items) => {
                let one = |&(path, verb): &_| self.one(&command.one(path, verb));
                Ok(Reply::Batch(items.iter().map(one).collect()))
            }
            Op::Adopt => {
                // An error says that a newer plan is here already.
                let revisions = &self.revisions;
                let followed = revisions.follow(command.plan, command.now, command.calendars);
                if followed.is_ok() {
                    self.revision();
                }
                Ok(Reply::Done)
            }
            Op::ListKeys(_) | Op::ListLeases(_) => Err(StoreError::CannotList),
            Op::ListUsage(listing, hours) => self.usage(&listing, hours).map(Reply::Usage),
            Op::Count => Ok(Reply::Count(Count {
                keys: self.count(),
                leases: None,
                remembered: None,
            })),
        };
        out.ready(answer)
    }
}

impl Store for Maps {
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
        let kept = self.tables.lock().get(name).cloned();
        let newest = kept.and_then(|kept| {
            let kept = kept.lock();
            Some(Arc::clone(&kept.revisions.last()?.plan))
        });
        Ok(newest)
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        at_once(Ok(self.local_definitions.definitions(owner, newer_than)))
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        at_once(Ok(self.local_definitions.definition(owner, key)))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        at_once(Ok(self.local_definitions.definition_with_ancestors(
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
        at_once(Ok(self.local_definitions.page(owner, prefix, after, most)))
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        at_once(self.local_definitions.change(owner, &change))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        at_once(
            self.local_definitions
                .events(owner, subject, after, most, now),
        )
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.local_definitions.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        match self.last_plan(name)?.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => Ok(Arc::new(MapTable {
                kept: Arc::clone(self.tables.lock().entry(name.to_owned()).or_default()),
                revisions: Revisions::default(),
                known: KnownRevisions::default(),
            })),
        }
    }
}

fn subject() -> Subject {
    Subject::new(|| Arc::new(Maps::default())).with_random_commands(COMMANDS)
}

suite!(subject());
