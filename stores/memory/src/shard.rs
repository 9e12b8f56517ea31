//! The rows of some roots under one lock: decides, retires leases, sweeps.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tidegate_store::core::{Amount, Bounds, BucketLevel, PackedBucket, State, Timestamp, Verdict};
use tidegate_store::decide::{self, Row};
use tidegate_store::key::{level_of_row, root_of};
use tidegate_store::{
    Answer, AtomicBucket, AtomicBucketRule, KeyCommand, KeyPath, LeaseCounts, Ledger, Plan, Reply,
    StoreError, Verb,
};

use crate::capacity::Capacity;
use crate::hash::hash_of;
use crate::journal::{self, Watch};
use crate::rows::{self, PackedRows, Rows};
use crate::side_table::SideTable;
use crate::slab::Slab;
use crate::usage::UsageBook;
use tidegate_store::OwnedKey;

/// How many rows an insertion looks at for one to drop, so that a table that
/// grows also shrinks, without a thread to do it.
const GLANCES: usize = 2;

/// Some roots' rows and leases. See the [module](self).
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) plan: Arc<Plan>,
    pub(crate) rows: Rows,
    pub(crate) ledger: Ledger<OwnedKey>,
    pub(crate) usage: UsageBook,
    pub(crate) hasher: RandomState,
    /// How many rows each root has, by its hash, where keys have levels.
    of_root: HashMap<u64, usize, RandomState>,
    /// Where the next glance falls.
    hand: usize,
    /// No row can be dropped before the one instant, if the clock has not stepped
    /// back behind the other; not known until the rows are first swept.
    spent_from: Timestamp,
    swept_at: Timestamp,
    /// The latest instant that anything was decided at, by a clock that never steps back.
    pub(crate) latest: Timestamp,
    /// The row that a packed state is unpacked into, so that no command allocates one.
    scratch: Row,
    /// What a journal is to be told, if there is one.
    pub(crate) watch: Option<Box<Watch>>,
}

/// On what terms a row may be added.
#[derive(Clone, Copy)]
enum Claim {
    /// If there is room.
    Bounded,
    /// In any case: nothing will be added, or what was used must be charged.
    Anyway,
}

impl Claim {
    fn reserve(self, capacity: &Capacity, rows: usize) -> Result<(), StoreError> {
        match self {
            Self::Bounded => capacity.reserve(rows),
            Self::Anyway => {
                capacity.reserve_anyway(rows);
                Ok(())
            }
        }
    }
}

/// What a sweep found.
pub(crate) struct Swept {
    pub(crate) dropped: usize,
    /// When the next row can be dropped, if nothing is given back before.
    pub(crate) next: Timestamp,
}

impl Shard {
    pub(crate) fn new(plan: &Arc<Plan>, hasher: RandomState, leases: Arc<LeaseCounts>) -> Self {
        let mut usage = UsageBook::default();
        usage.keep_for(plan.usage());
        Self {
            plan: Arc::clone(plan),
            rows: Rows::new(plan, Timestamp::MIN),
            ledger: Ledger::new(leases),
            usage,
            hasher,
            of_root: HashMap::default(),
            hand: 0,
            spent_from: Timestamp::MIN,
            swept_at: Timestamp::MIN,
            latest: Timestamp::MIN,
            scratch: Box::new([State::Fresh]),
            watch: None,
        }
    }

    /// One command, wholly or not at all; its root has this hash. It is answered in
    /// `answer`, as of the instant that it has then.
    #[inline(always)]
    pub(crate) fn execute(
        &mut self,
        command: &mut KeyCommand<'_>,
        root: u64,
        capacity: &Capacity,
        answer: &mut Answer,
    ) {
        command.now = self.instant(command.now, command.calendars, capacity);
        if let Err(error) = self.execute_now(command, root, capacity, answer) {
            *answer = Err(error);
        }
    }

    /// The instant that a command is decided as of. Its caller may have been held up
    /// between a look at the clock and the lock here, while others were decided: as of an
    /// earlier instant, time would pass twice for its key.
    #[inline]
    fn instant(
        &mut self,
        now: Timestamp,
        calendars: &[Option<Bounds>],
        capacity: &Capacity,
    ) -> Timestamp {
        if !capacity.has_steady_clock() {
            return now;
        }
        self.latest = self.latest.max(now);
        // The calendar's windows came with it, the next ones too: they must say of that
        // instant.
        let mut ends = calendars.iter().flatten().map(|bounds| bounds.next_end);
        match ends.all(|end| end > self.latest) {
            true => self.latest,
            false => now,
        }
    }

    /// As [`execute`](Self::execute), as of the command's own instant.
    #[inline(always)]
    fn execute_now(
        &mut self,
        command: &KeyCommand<'_>,
        root: u64,
        capacity: &Capacity,
        answer: &mut Answer,
    ) -> Result<(), StoreError> {
        self.prepare(command.plan, command.now, command.calendars, capacity)?;
        if command.plan.usage().is_some() {
            self.ensure_usage(command, capacity)?;
        }
        match &mut self.rows {
            Rows::General(slab)
                if command.key.depth() == 1
                    && let Some(at) = slab.find(root, command.key.bytes()) =>
            {
                let (key, row) = slab.row_mut(at);
                let (rows, owner) = (std::slice::from_mut(row), || key.clone());
                decide::execute(command, rows, &mut self.ledger, owner, answer);
            }
            _ => self.execute_on_rows(command, capacity, answer)?,
        }
        if command.plan.usage().is_some() {
            self.count_usage(&command.key, command.now, capacity);
        } else if !self.usage.is_empty() {
            self.usage.glance(command.now, capacity);
        }
        if command.verb.gives_back() && answer.is_ok() {
            self.gave_back(&command.key, command.now, capacity);
        }
        if let (Some(watch), Ok(reply)) = (&mut self.watch, answer) {
            watch.note_command(command, reply);
        }
        Ok(())
    }

    /// Checks that there is room for what a command counts. Only what is about to start is
    /// refused for it: what has been used is counted in any case, and of a retry of a lease
    /// that is held, or of what its limits refuse, nothing is counted.
    #[cold]
    fn ensure_usage(
        &mut self,
        command: &KeyCommand<'_>,
        capacity: &Capacity,
    ) -> Result<(), StoreError> {
        let (amounts, ask) = match command.verb {
            Verb::Take { amounts, lease, .. } => (amounts, lease.and_then(|of| of.idempotency)),
            Verb::Debit { amounts } => (amounts, None),
            _ => return Ok(()),
        };
        if capacity.has_room_for_usage(amounts.len()) {
            return Ok(());
        }
        let of = (&**command.plan, &command.key);
        let missing = self.usage.missing(of, amounts, command.now);
        let is_charged = || {
            let known = ask.map(|ask| decide::scoped_idempotency_key(&command.key, ask));
            let known =
                known.and_then(|key| decide::find_repeated(&self.ledger, &key, command.now));
            known.is_none()
        };
        if capacity.has_room_for_usage(missing) || !is_charged() {
            return Ok(());
        }
        let amounts = command.verb.must_fit().unwrap_or(Cow::Borrowed(amounts));
        match matches!(command.verb, Verb::Debit { .. })
            || self.fits(command, &amounts, capacity)?
        {
            true => Err(capacity.usage_is_full()),
            false => Ok(()),
        }
    }

    /// Whether a command's amounts fit its limits.
    fn fits(
        &mut self,
        command: &KeyCommand<'_>,
        amounts: &[Amount],
        capacity: &Capacity,
    ) -> Result<bool, StoreError> {
        let look = KeyCommand {
            verb: Verb::Peek { amounts },
            ..*command
        };
        let mut answer = Ok(Reply::Done);
        self.execute_on_rows(&look, capacity, &mut answer)?;
        Ok(matches!(answer?, Reply::Decision(decision) if decision.verdict.admitted()))
    }

    /// Keeps what was used, in the step in which it was.
    #[inline(never)]
    fn count_usage(&mut self, path: &KeyPath<'_>, now: Timestamp, capacity: &Capacity) {
        let used = self.ledger.drain_used(path.depth());
        self.usage.add(path, used, now, capacity);
    }

    /// Executes a command whose rows are to be looked for, or made.
    #[inline(never)]
    fn execute_on_rows(
        &mut self,
        command: &KeyCommand<'_>,
        capacity: &Capacity,
        answer: &mut Answer,
    ) -> Result<(), StoreError> {
        let owner = || OwnedKey::new(command.key.bytes());
        let claim = match command.verb {
            Verb::Take { .. } | Verb::Debit { .. } => Claim::Bounded,
            _ => Claim::Anyway,
        };
        if matches!(claim, Claim::Bounded) {
            self.ensure_capacity_at(&command.key, command.now, capacity)?;
        }
        let (key, now) = (&command.key, command.now);
        self.with_rows(key, now, (claim, capacity), |rows, ledger| {
            decide::execute(command, rows, ledger, owner, answer);
        })
    }

    /// Checks that there is room for the rows of `path` under its root; where there
    /// is none, drops those that are spent.
    fn ensure_capacity_at(
        &mut self,
        path: &KeyPath<'_>,
        now: Timestamp,
        capacity: &Capacity,
    ) -> Result<(), StoreError> {
        if self.plan.levels() == 1 {
            return Ok(());
        }
        match self.check_root(path, capacity) {
            Err(StoreError::RootKeysFull { .. }) => {
                let swept = self.sweep(now, capacity);
                capacity.give_back(swept.dropped);
                self.check_root(path, capacity)
            }
            checked => checked,
        }
    }

    fn check_root(&self, path: &KeyPath<'_>, capacity: &Capacity) -> Result<(), StoreError> {
        let has = self.of_root.get(&hash_of(&self.hasher, path.root()));
        let has = has.copied().unwrap_or(0);
        // Only a root near the bound is worth a look at what is there.
        capacity.check_root(has, path.depth()).or_else(|_| {
            let is_absent = |key: &Cow<'_, [u8]>| {
                let hash = hash_of(&self.hasher, key);
                self.rows.find(hash, key).is_none()
            };
            capacity.check_root(has, path.rows().filter(is_absent).count())
        })
    }

    /// Counts a row that was added under the root of this hash.
    pub(crate) fn count_row(&mut self, root: u64, rows: usize) {
        if self.plan.levels() > 1 {
            *self.of_root.entry(root).or_default() += rows;
        }
    }

    /// Counts a row that was dropped.
    fn count_down(&mut self, key: &[u8]) {
        if self.plan.levels() == 1 {
            return;
        }
        let root = hash_of(&self.hasher, root_of(key, self.plan.levels()));
        if let Some(rows) = self.of_root.get_mut(&root) {
            *rows = rows.saturating_sub(1);
            if *rows == 0 {
                self.of_root.remove(&root);
            }
        }
    }

    /// A take from a single bucket whose row is packed: the verdict, and how much is used
    /// after it; `None` where it is more than that: then nothing was done.
    #[inline]
    pub(crate) fn take_one(
        &mut self,
        plan: &Arc<Plan>,
        (hash, key): (u64, &[u8]),
        amount: Amount,
        now: Timestamp,
        capacity: &Capacity,
    ) -> Result<Option<(Verdict, BucketLevel)>, StoreError> {
        let now = self.instant(now, &[], capacity);
        self.prepare(plan, now, &[], capacity)?;
        let Rows::Packed(packed_rows) = &mut self.rows else {
            return Ok(None);
        };
        let AtomicBucketRule::Packed(rule) = &packed_rows.rule else {
            return Ok(None);
        };
        let Some(ticks) = rule.ticks(now) else {
            return Ok(None);
        };
        let Some(at) = packed_rows.slab.find(hash, key) else {
            return self.take_first((hash, key), amount, (now, ticks), capacity);
        };
        let packed = packed_rows.slab.value_mut(at);
        if SideTable::is_mark(*packed) {
            return Ok(None);
        }
        let verdict = match rule.take(*packed, amount, ticks) {
            Ok(next) => {
                *packed = next;
                Verdict::Admit
            }
            Err(refusal) => refusal,
        };
        let level = rule.level_at(*packed, now, ticks);
        if verdict.admitted() {
            self.note(key);
        }
        Ok(Some((verdict, level)))
    }

    /// As `take_one`, for a key that has no row yet.
    fn take_first(
        &mut self,
        (hash, key): (u64, &[u8]),
        amount: Amount,
        (now, ticks): (Timestamp, u64),
        capacity: &Capacity,
    ) -> Result<Option<(Verdict, BucketLevel)>, StoreError> {
        if self.plan.overrides().get(key).is_some() {
            return Ok(None);
        }
        self.glance(now, capacity);
        let Rows::Packed(packed_rows) = &mut self.rows else {
            return Ok(None);
        };
        let AtomicBucketRule::Packed(rule) = packed_rows.rule else {
            return Ok(None);
        };
        let level = |packed| rule.level_at(packed, now, ticks);
        let packed = match rule.take(PackedBucket::FRESH, amount, ticks) {
            Ok(packed) => packed,
            Err(refusal) => return Ok(Some((refusal, level(PackedBucket::FRESH)))),
        };
        capacity.reserve(1)?;
        let rehash = |key: &[u8]| hash_of(&self.hasher, key);
        let at = packed_rows
            .slab
            .insert(hash, OwnedKey::new(key), packed, rehash);
        self.may_be_spent(at, capacity);
        self.note(key);
        Ok(Some((Verdict::Admit, level(packed))))
    }

    /// An atomic bucket for `key` that handles may share.
    pub(crate) fn pin(
        &mut self,
        plan: &Arc<Plan>,
        (hash, key): (u64, &[u8]),
        now: Timestamp,
        capacity: &Capacity,
    ) -> Result<Option<Arc<AtomicBucket>>, StoreError> {
        self.prepare(plan, now, &[], capacity)?;
        let Rows::Packed(packed_rows) = &mut self.rows else {
            return Ok(None);
        };
        let at = match packed_rows.slab.find(hash, key) {
            Some(at) => at,
            None => {
                capacity.reserve(1)?;
                let rehash = |key: &[u8]| hash_of(&self.hasher, key);
                let owned = OwnedKey::new(key);
                let at = packed_rows
                    .slab
                    .insert(hash, owned, PackedBucket::FRESH, rehash);
                packed_rows.put_back_by(at, State::Fresh, rows::own_rule(&self.plan, key));
                at
            }
        };
        // One that goes by limits of its own is shared as an atomic bucket that is taken:
        // its holders ask the table.
        let bucket = packed_rows.pin(at, capacity.has_steady_clock());
        self.may_be_spent(at, capacity);
        Ok(Some(bucket))
    }

    /// The plan that its rows go by.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    /// Follows a change of limits.
    pub(crate) fn follow(
        &mut self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
        capacity: &Capacity,
    ) -> Result<(), StoreError> {
        if Arc::ptr_eq(&self.plan, plan) {
            return Ok(());
        }
        self.spent_from = Timestamp::MIN;
        self.adopt(plan, now, calendars, capacity)
    }

    /// Gives a pin back.
    pub(crate) fn unpin(
        &mut self,
        (hash, key): (u64, &[u8]),
        bucket: Arc<AtomicBucket>,
        capacity: &Capacity,
    ) {
        drop(bucket);
        if let Rows::Packed(packed_rows) = &mut self.rows
            && let Some(at) = packed_rows.slab.find(hash, key)
        {
            packed_rows.unpin(at);
            self.may_be_spent(at, capacity);
        }
    }

    /// Takes note of when the row at `at` is spent, which was added or changed.
    #[inline]
    fn may_be_spent(&mut self, at: usize, capacity: &Capacity) {
        if self.spent_from > Timestamp::MIN
            && let Some(when) = self.spent_at(at)
            && when < self.spent_from
        {
            self.spent_from = when;
            capacity.spent_from(when);
        }
    }

    /// Takes note of what was given back to `path`; where there is no room for
    /// another row, drops those that are spent by it.
    #[inline]
    fn gave_back(&mut self, path: &KeyPath<'_>, now: Timestamp, capacity: &Capacity) {
        if self.spent_from > Timestamp::MIN {
            path.rows()
                .for_each(|key| self.gave_back_at(&key, now, capacity));
        }
    }

    #[cold]
    fn gave_back_at(&mut self, key: &[u8], now: Timestamp, capacity: &Capacity) {
        let Some(at) = self.rows.find(hash_of(&self.hasher, key), key) else {
            return;
        };
        if capacity.is_taken_up() && self.is_spent(at, now) {
            self.drop_row(at);
            capacity.give_back(1);
        } else {
            self.may_be_spent(at, capacity);
        }
    }

    /// Takes the atomic bucket of `key` back: its holders ask the table from now on.
    pub(crate) fn recall(&mut self, (hash, key): (u64, &[u8])) {
        if let Rows::Packed(packed_rows) = &mut self.rows
            && let Some(at) = packed_rows.slab.find(hash, key)
        {
            packed_rows.recall(at);
        }
    }

    /// Drops every row that equals "never seen".
    pub(crate) fn sweep(&mut self, now: Timestamp, capacity: &Capacity) -> Swept {
        self.retire(now, capacity);
        if now < self.spent_from && now >= self.swept_at {
            return Swept {
                dropped: 0,
                next: self.spent_from,
            };
        }
        let mut swept = Swept {
            dropped: 0,
            next: self.ledger.next_expiry().unwrap_or(Timestamp::MAX),
        };
        let mut at = 0;
        while at < self.positions() {
            match self.forget_at(at, now) {
                Some(when) if rows::is_past(when, now) => {
                    // Another row moves up to this index: look there again.
                    self.drop_row(at);
                    swept.dropped += 1;
                    continue;
                }
                Some(when) => swept.next = swept.next.min(when),
                None => {}
            }
            at += 1;
        }
        (self.spent_from, self.swept_at) = (swept.next, now);
        swept
    }

    /// Follows a change of limits, keeps packed states within reach of the clock, and
    /// retires what is due.
    #[inline(always)]
    fn prepare(
        &mut self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
        capacity: &Capacity,
    ) -> Result<(), StoreError> {
        if !self.in_reach(now) || !Arc::ptr_eq(&self.plan, plan) {
            self.adopt(plan, now, calendars, capacity)?;
            self.spent_from = Timestamp::MIN;
            capacity.reopen();
        }
        if let Some(watch) = &mut self.watch {
            watch.follow_clock(now);
        }
        if self.ledger.is_due(now) {
            self.retire(now, capacity);
        }
        Ok(())
    }

    #[cold]
    fn adopt(
        &mut self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
        capacity: &Capacity,
    ) -> Result<(), StoreError> {
        if plan.version() < self.plan.version() {
            return Err(StoreError::StalePlan);
        }
        if !self.in_reach(now) {
            let same = Arc::clone(&self.plan);
            self.carry_over(&same, now, &[]);
        }
        // What has expired by now did so under the limits of its time.
        self.retire(now, capacity);
        self.usage.keep_for(plan.usage());
        if plan.goes_on_from(&self.plan) {
            self.adopt_overrides(plan, now, calendars);
            return Ok(());
        }
        self.note_adoption(plan, now, calendars);
        self.carry_over(plan, now, calendars);
        Ok(())
    }

    /// Follows a change of the keys that have limits of their own: no other row
    /// is touched.
    fn adopt_overrides(&mut self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        if self.positions() == 0 {
            return;
        }
        for key in plan.differing_from(&old) {
            let hash = hash_of(&self.hasher, key.bytes());
            let row = (hash, key.bytes());
            rows::adopt_one(&mut self.rows, row, (plan, &old), now, calendars);
            self.note(key.bytes());
        }
    }

    /// Ends the leases that have expired, as any command would before it is decided.
    pub(crate) fn end_expired(&mut self, now: Timestamp, capacity: &Capacity) {
        let now = self.instant(now, &[], capacity);
        let plan = Arc::clone(&self.plan);
        // Only an older plan is an error.
        let _ = self.prepare(&plan, now, &[], capacity);
    }

    /// Whether the rows can be told `now`.
    #[inline]
    fn in_reach(&self, now: Timestamp) -> bool {
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.rule.ticks(now).is_some(),
            Rows::General(_) => true,
        }
    }

    /// Turns the rows into those of `plan`.
    fn carry_over(&mut self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        let rows = std::mem::replace(&mut self.rows, Rows::General(Slab::new()));
        let hash = |key: &[u8]| hash_of(&self.hasher, key);
        self.rows = rows::adopt(rows, &self.plan, plan, now, calendars, hash);
        self.plan = Arc::clone(plan);
    }

    /// Ends every lease that has expired, and gives back what room it does not need;
    /// whether that makes room for others.
    pub(crate) fn expire_leases(&mut self, now: Timestamp, capacity: &Capacity) -> bool {
        self.retire(now, capacity);
        self.ledger.give_room_back()
    }

    /// Ends every lease that has expired, and forgets some that are to be
    /// forgotten.
    #[cold]
    fn retire(&mut self, now: Timestamp, capacity: &Capacity) {
        while let Some(mut record) = self.ledger.take_expired(now) {
            let owner = record.owner.clone();
            let Ok(path) = KeyPath::stored(owner.bytes(), self.plan.levels()) else {
                continue;
            };
            let plan = self.plan.at(&path);
            let plan = plan.unwrap_or_else(|| Arc::clone(&self.plan));
            let expire = |rows: &mut [Row], ledger: &mut Ledger<OwnedKey>| {
                if let Some(again) = decide::expire(&plan, rows, ledger, &mut record, now) {
                    ledger.put_back(record, again);
                }
            };
            // Nothing is claimed that could be refused, so nothing fails.
            let _ = self.with_rows(&path, now, (Claim::Anyway, capacity), expire);
            if plan.usage().is_some() {
                self.count_usage(&path, now, capacity);
            }
            self.gave_back(&path, now, capacity);
            if let Some(watch) = &mut self.watch {
                watch.note_path(&path);
            }
        }
        self.ledger.forget_due(now);
    }

    /// Runs `act` on the rows of `path`, and keeps those that matter after it.
    fn with_rows(
        &mut self,
        path: &KeyPath<'_>,
        now: Timestamp,
        capacity: (Claim, &Capacity),
        act: impl FnOnce(&mut [Row], &mut Ledger<OwnedKey>),
    ) -> Result<(), StoreError> {
        let (hasher, ledger) = (&self.hasher, &mut self.ledger);
        let floor = self.watch.as_ref().map_or(0, |watch| watch.floor_at(now));
        let before = self.rows.len();
        match &mut self.rows {
            Rows::Packed(packed_rows) => {
                let (scratch, plan) = (&mut self.scratch, &self.plan);
                with_packed(
                    packed_rows,
                    hasher,
                    (path, plan),
                    now,
                    capacity,
                    scratch,
                    |row| {
                        act(row, ledger);
                    },
                )?;
            }
            Rows::General(slab) => {
                let plan = &self.plan;
                with_general(slab, (plan, floor), hasher, path, capacity, |rows| {
                    act(rows, ledger);
                })?;
            }
        }
        let added = self.rows.len().saturating_sub(before);
        if added > 0 {
            self.added(added, path, now, capacity.1);
        }
        Ok(())
    }

    /// So many rows of `path` were added: as many others are dropped, if they are
    /// spent.
    fn added(&mut self, rows: usize, path: &KeyPath<'_>, now: Timestamp, capacity: &Capacity) {
        self.count_row(hash_of(&self.hasher, path.root()), rows);
        let swept = self.spent_from > Timestamp::MIN;
        for level in 0..path.depth() * usize::from(swept) {
            let key = path.row(level);
            if let Some(at) = self.rows.find(hash_of(&self.hasher, &key), &key) {
                self.may_be_spent(at, capacity);
            }
        }
        (0..rows).for_each(|_| self.glance(now, capacity));
    }

    fn positions(&self) -> usize {
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.slab.positions(),
            Rows::General(slab) => slab.positions(),
        }
    }

    /// From when the row at `at` equals "never seen"; `None` if there is no
    /// row. A shared one's atomic bucket is taken back if it can be dropped now.
    pub(crate) fn forget_at(&self, at: usize, now: Timestamp) -> Option<Timestamp> {
        match &self.rows {
            Rows::Packed(packed_rows) => {
                let packed = packed_rows.slab.slot(at)?.value;
                if SideTable::is_mark(packed) {
                    return packed_rows.take_back(packed, &self.plan.limits()[0].rule, now);
                }
                let dead = packed_rows.rule.ticks(now).is_some_and(|t| packed <= t);
                Some(if dead {
                    now
                } else {
                    packed_rows.rule.forget_at(packed)
                })
            }
            Rows::General(slab) => {
                let slot = slab.slot(at)?;
                let key = slot.key.bytes();
                let level = level_of_row(key, self.plan.levels());
                Some(journal::forget_at(
                    self.plan.of_row(key),
                    level,
                    &slot.value,
                ))
            }
        }
    }

    fn drop_row(&mut self, at: usize) {
        if self.watch.is_some() {
            self.note_at(at);
        }
        let rehash = |key: &[u8]| hash_of(&self.hasher, key);
        match &mut self.rows {
            Rows::Packed(packed_rows) => {
                let row = packed_rows.slab.remove(at, rehash);
                packed_rows.side_table.remove(row.value);
            }
            Rows::General(slab) => {
                let row = slab.remove(at, rehash);
                self.count_down(row.key.bytes());
            }
        }
    }

    /// Looks at the next few rows and drops those that are spent.
    fn glance(&mut self, now: Timestamp, capacity: &Capacity) {
        for _ in 0..GLANCES {
            self.hand += 1;
            if self.hand >= self.positions() {
                self.hand = 0;
            }
            if self.is_spent(self.hand, now) {
                self.drop_row(self.hand);
                capacity.give_back(1);
            }
        }
    }

    /// As [`forget_at`](Self::forget_at), and no atomic bucket is taken back.
    fn spent_at(&self, at: usize) -> Option<Timestamp> {
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.spent_at(at, &self.plan.limits()[0].rule),
            Rows::General(_) => self.forget_at(at, Timestamp::MIN),
        }
    }

    /// Whether the row at `at` equals "never seen", and is shared with nobody.
    fn is_spent(&self, at: usize, now: Timestamp) -> bool {
        match &self.rows {
            Rows::Packed(packed_rows) => {
                let (rule, ticks) = (&self.plan.limits()[0].rule, packed_rows.rule.ticks(now));
                ticks.is_some_and(|ticks| packed_rows.is_spent(at, rule, (now, ticks)))
            }
            Rows::General(_) => {
                let when = self.forget_at(at, now);
                when.is_some_and(|when| rows::is_past(when, now))
            }
        }
    }
}

/// One packed state as a row of one state, and back.
fn with_packed(
    packed_rows: &mut PackedRows,
    hasher: &RandomState,
    (path, plan): (&KeyPath<'_>, &Plan),
    now: Timestamp,
    (claim, capacity): (Claim, &Capacity),
    row: &mut Row,
    act: impl FnOnce(&mut [Row]),
) -> Result<(), StoreError> {
    let hash = hash_of(hasher, path.bytes());
    let found = packed_rows.slab.find(hash, path.bytes());
    if found.is_none() {
        claim.reserve(capacity, 1)?;
    }
    row[0] = found.map_or(State::Fresh, |at| packed_rows.take_out(at, now));
    act(std::slice::from_mut(row));
    let after = std::mem::take(&mut row[0]);
    match found {
        Some(at) => packed_rows.put_back(at, after),
        None if packed_rows.is_unseen(&after) => capacity.give_back(1),
        None => {
            let rehash = |key: &[u8]| hash_of(hasher, key);
            let key = OwnedKey::new(path.bytes());
            let at = packed_rows
                .slab
                .insert(hash, key, PackedBucket::FRESH, rehash);
            packed_rows.put_back_by(at, after, rows::own_rule(plan, path.bytes()));
        }
    }
    Ok(())
}

/// The rows of a path out of the slab, and those that matter back in.
fn with_general(
    slab: &mut Slab<Row>,
    (plan, floor): (&Plan, u64),
    hasher: &RandomState,
    path: &KeyPath<'_>,
    (claim, capacity): (Claim, &Capacity),
    act: impl FnOnce(&mut [Row]),
) -> Result<(), StoreError> {
    // Before anything is found: from here on, no row moves.
    slab.reserve(path.depth(), |key| hash_of(hasher, key));
    let find = |level: usize| {
        let key = path.row(level);
        slab.find(hash_of(hasher, &key), &key)
    };
    let found: SmallVec<[Option<usize>; 4]> = (0..path.depth()).map(find).collect();
    claim.reserve(capacity, found.iter().filter(|at| at.is_none()).count())?;
    let mut load = |(level, at): (usize, &Option<usize>)| match at {
        Some(at) => std::mem::take(slab.value_mut(*at)),
        None => journal::fresh_row(plan, level, floor),
    };
    let mut rows: SmallVec<[Row; 4]> = found.iter().enumerate().map(&mut load).collect();
    act(&mut rows);
    for ((level, at), row) in found.into_iter().enumerate().zip(rows) {
        match at {
            Some(at) => *slab.value_mut(at) = row,
            None if journal::is_unseen(&row, floor) => capacity.give_back(1),
            None => {
                let (key, rehash) = (path.row(level), |key: &[u8]| hash_of(hasher, key));
                slab.insert(rehash(&key), OwnedKey::new(&key), row, rehash);
            }
        }
    }
    Ok(())
}
