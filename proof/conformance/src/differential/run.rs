//! A script played to a table and to the reference, every answer compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Amount, Bounds, Span, Timestamp, Verdict};
use tidegate_store::{
    Answer, AtomicBucket, Command, Detail, Item, KeyCommand, KeyPath, Op, Plan, Reply, Store,
    StoreError, Table, Verb,
};

use super::lists::{self, AsOf};
use super::plans::PlanData;
use super::reference::{Difference, Reference};
use super::script::{Deed, Of, Script, Step, keys};
use super::turns::{Players, Turns};
use crate::Subject;
use crate::table_ext::{TableExt, in_full};

/// When every script begins: in November 2023.
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Two years: whoever owes more may owe the most there can be.
const LONG_DEBT: Span = Span::from_secs(2 * 365 * 86_400);

/// No two scripts share a table.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// Plays `script` to a new table of the subject's.
///
/// # Errors
/// The first difference, or the first thing that no table may do.
pub(crate) fn play(
    subject: &Subject,
    script: &Script,
    players: &mut Players,
) -> Result<(), Difference> {
    let mut run = Run::start(subject, script, players)?;
    for (number, step) in script.steps.iter().enumerate() {
        let outcome = run.step(step);
        outcome.map_err(|difference| format!("at step {number}: {difference}"))?;
    }
    run.peek_all()
        .map_err(|difference| format!("at the end: {difference}"))
}

struct Run<'p> {
    turns: Turns<'p>,
    /// The table's.
    name: String,
    reference: Reference,
    data: PlanData,
    plan: Arc<Plan>,
    /// The plan before this one.
    before: Option<Arc<Plan>>,
    now: Timestamp,
    /// The latest instant that the table has seen.
    latest: Timestamp,
    /// When the limits changed last.
    changed: Timestamp,
    /// Whether the store may have dropped what equalled "never seen".
    drops: bool,
    /// Whether the clock steps back at times.
    wanders: bool,
    pins: BTreeMap<usize, Arc<AtomicBucket>>,
}

impl<'p> Run<'p> {
    fn start(
        subject: &Subject,
        script: &Script,
        players: &'p mut Players,
    ) -> Result<Self, Difference> {
        let data = &script.plan;
        let plan = data.plan(0);
        let (name, calendars) = (table_name(players), data.calendars(START));
        let open = |store: &dyn Store| opened(store, &name, (&plan, START, &calendars));
        let turns = Turns::begin(subject, players, open)?;
        Ok(Self {
            turns,
            name,
            reference: Reference::new(&plan),
            data: data.clone(),
            plan,
            before: None,
            now: START,
            latest: START,
            changed: START,
            drops: subject.drops_spent_state(),
            wanders: script.wanders(),
            pins: BTreeMap::new(),
        })
    }

    fn step(&mut self, step: &Step) -> Result<(), Difference> {
        match step {
            Step::Pass(micros) => self.pass(Span::from_micros(*micros)),
            Step::Back(micros) => self.step_back(Span::from_micros(*micros)),
            Step::Change(data) => self.change(data),
            Step::Adapt(at, capacity) => {
                let limits = self.plan.limits();
                if let Some(adaptive) = &limits[at % limits.len()].adaptive {
                    adaptive.set(*capacity);
                }
                Ok(())
            }
            Step::Do(key, deed) => self.deed(*key, deed),
            Step::Batch(items) => self.batch(items),
            Step::List(of) => self.list(*of),
        }
    }

    /// A store looks at leases that are due by root, or by what it keeps
    /// together. When it did makes no difference, but to a clock that steps back,
    /// and to a log that has merged its entries, or was another kind when the lease
    /// was charged: to look late gives less back. Where one of them must look, both do.
    fn pass(&mut self, by: Span) -> Result<(), Difference> {
        self.now = self.now + by;
        self.latest = self.latest.max(self.now);
        if self.wanders && self.reference.has_due(self.now) {
            self.peek_all()?;
        }
        Ok(())
    }

    /// A store may carry a row over when it is used next, but by no later instant: before the
    /// clock stands where the limits had not changed yet, every row is used.
    fn step_back(&mut self, by: Span) -> Result<(), Difference> {
        let target = (self.now - by).max(self.floor()).min(self.now);
        if target < self.changed {
            self.peek_all()?;
        }
        self.now = target;
        Ok(())
    }

    /// How far the clock may step back without the answer being anybody's
    /// guess. State that equalled "never seen" may have been dropped. And a
    /// single bucket may be kept as the instant at which it is full, which does
    /// not tell a step back by more than its refill from a debt, nor what was
    /// given back from what had drained; and the largest debt grows no further.
    fn floor(&self) -> Timestamp {
        let forgotten = self.reference.last_forgotten(self.latest);
        match self.data.single_bucket_refill() {
            Some(_) if self.reference.forgets_after(self.latest + LONG_DEBT) => self.latest,
            Some(refill) => forgotten.max(self.latest - refill),
            None if self.drops => forgotten,
            None => Timestamp::MIN,
        }
    }

    /// The clock of a single bucket, back where it was.
    fn catch_up(&mut self) {
        if self.data.single_bucket_refill().is_some() {
            self.now = self.now.max(self.latest);
        }
    }

    fn change(&mut self, data: &PlanData) -> Result<(), Difference> {
        self.catch_up();
        if data.single_bucket_refill().is_some() {
            self.now = self.now.max(self.latest);
        }
        let goes_on = data.goes_on_from(&self.data);
        if goes_on && self.reference.has_due(self.now) {
            self.peek_all()?;
        }
        let version = self.plan.version() + 1;
        let plan = match goes_on {
            true => Arc::new(self.plan.going_on(version, data.overrides(&self.plan))),
            false => data.plan(version),
        };
        plan.keep_capacities(&self.plan);
        let calendars = data.calendars(self.now);
        let now = self.now;
        self.turns.stay();
        self.turns
            .ask(|table| table.adopt(&plan, now, &calendars))?;
        self.reference.adopt(&plan, self.now, &calendars);
        self.before = Some(std::mem::replace(&mut self.plan, plan));
        self.data = data.clone();
        self.changed = now;
        if now < self.latest {
            self.peek_all()?;
        }
        self.other_follows()
    }

    /// Of two, the other comes by the change as after a restart, once every row has followed
    /// it: the one who made it knows what keys had for themselves before, and a row that
    /// follows two revisions of one change is carried over twice, where the reference's is
    /// once.
    fn other_follows(&mut self) -> Result<(), Difference> {
        if self.turns.are_two() {
            self.peek_all()?;
        }
        self.turns.pass_on()?;
        if !self.turns.are_two() {
            return Ok(());
        }
        let (plan, now, calendars) = (&self.plan, self.now, self.data.calendars(self.now));
        let name = &self.name;
        self.turns
            .reopen(|store| opened(store, name, (plan, now, &calendars)))
    }

    fn peek_all(&mut self) -> Result<(), Difference> {
        for key in keys(self.data.levels) {
            let amounts = &[1; super::plans::MAX_LIMITS];
            let peeked = self.both(key, Verb::Peek { amounts });
            peeked.map_err(|difference| format!("{}: {difference}", key.escape_ascii()))?;
        }
        Ok(())
    }

    fn deed(&mut self, number: usize, deed: &Deed) -> Result<(), Difference> {
        let key = keys(self.data.levels)[number];
        if deed.needs_the_latest_instant() {
            self.catch_up();
        }
        if let Some(verb) = deed.verb(self.plan.limits().len(), self.now) {
            return self.both(key, verb);
        }
        match deed {
            Deed::Admit(amounts) => self.admit(key, amounts),
            Deed::AdmitOne(amount) => self.admit_one(key, *amount),
            Deed::ByBucket(amount) => self.by_bucket(number, *amount),
            Deed::Pin => {
                self.pin(number);
                Ok(())
            }
            Deed::Unpin => {
                self.unpin(number);
                Ok(())
            }
            Deed::Outdated => self.outdated(key),
            verb => unreachable!("{verb} is a verb"),
        }
    }

    /// Several verbs in one command: its answers are those of one after the other.
    fn batch(&mut self, items: &[(usize, Deed)]) -> Result<(), Difference> {
        if items
            .iter()
            .any(|(_, deed)| deed.needs_the_latest_instant())
        {
            self.catch_up();
        }
        let (plan, calendars) = (Arc::clone(&self.plan), self.data.calendars(self.now));
        let keys = keys(self.data.levels);
        let items: Vec<Item<'_>> = items
            .iter()
            .filter_map(|(number, deed)| {
                let verb = deed.verb(plan.limits().len(), self.now)?;
                Some((path(keys[*number], &plan), verb))
            })
            .collect();
        let batch = Command {
            plan: &plan,
            now: self.now,
            calendars: &calendars,
            op: Op::Batch(&items),
            patience: None,
        };
        let theirs = self.turns.ask(|table| table.execute_and_wait(&batch))?;
        let mut theirs = match theirs {
            None => None,
            Some(Ok(Reply::Batch(answers))) if answers.len() == items.len() => {
                Some(answers.into_iter().map(in_full))
            }
            Some(answer) => return Err(format!("{answer:?} to a batch of {}", items.len())),
        };
        for (at, &(path, verb)) in items.iter().enumerate() {
            let theirs = theirs.as_mut().and_then(Iterator::next);
            let ours = self.reference.execute(&batch.one(path, verb));
            same(theirs, &ours, alike)
                .map_err(|difference| format!("item {at} of a batch: {difference}"))?;
        }
        Ok(())
    }

    /// What is held is listed and counted, with what is due looked at by both.
    fn list(&mut self, of: Of) -> Result<(), Difference> {
        self.catch_up();
        if self.reference.has_due(self.now) {
            self.peek_all()?;
        }
        let at = AsOf {
            select: of.select(self.data.levels),
            levels: self.data.levels,
            now: self.now,
            latest: self.latest,
        };
        let reference = &self.reference;
        let compared = self
            .turns
            .ask(|table| lists::compare(table, reference, at))?;
        compared.unwrap_or(Ok(()))
    }

    /// A take that is answered by its verdict alone; one that follows a calendar has no use for it.
    fn admit(&mut self, key: &[u8], amounts: &[Amount]) -> Result<(), Difference> {
        if self.data.has_calendar() {
            return Ok(());
        }
        let path = path(key, &self.plan);
        let amounts = &amounts[..self.plan.limits().len()];
        let (plan, now) = (&self.plan, self.now);
        let theirs = self
            .turns
            .ask(|table| table.admit(plan, &path, amounts, now))?;
        self.same_verdict(key, amounts, theirs)
    }

    fn admit_one(&mut self, key: &[u8], amount: Amount) -> Result<(), Difference> {
        if !self.data.is_single_bucket() || self.data.has_calendar() || amount == 0 {
            return Ok(());
        }
        let (plan, now) = (&self.plan, self.now);
        let theirs = self
            .turns
            .ask(|table| table.admit_one(plan, key, amount, now))?;
        self.same_verdict(key, &[amount], theirs)
    }

    fn by_bucket(&mut self, number: usize, amount: Amount) -> Result<(), Difference> {
        let (key, amount) = (keys(self.data.levels)[number], amount.max(1));
        let answer = self.pins.get(&number).map(|c| c.admit(amount, self.now));
        match answer {
            Some(Ok(_)) if !self.data.is_single_bucket() => {
                Err("an atomic bucket decides for limits that are no longer".to_owned())
            }
            Some(Ok(verdict)) => self.same_verdict(key, &[amount], Some(Ok(verdict))),
            _ => {
                let retired = self.pins.get(&number).is_some_and(|c| c.is_retired());
                if retired && self.data.is_single_bucket() {
                    self.pin(number);
                }
                self.admit_one(key, amount)
            }
        }
    }

    fn pin(&mut self, number: usize) {
        self.unpin(number);
        let key = keys(self.data.levels)[number];
        if self.data.is_single_bucket() && !self.data.has_calendar() {
            self.reference.share(&path(key, &self.plan));
            let bucket = self.turns.own().pin(&self.plan, key, self.now);
            self.pins.extend(bucket.map(|bucket| (number, bucket)));
        }
    }

    fn unpin(&mut self, number: usize) {
        if let Some(bucket) = self.pins.remove(&number) {
            self.turns
                .own()
                .unpin(keys(self.data.levels)[number], bucket);
        }
    }

    fn outdated(&mut self, key: &'static [u8]) -> Result<(), Difference> {
        let Some(before) = self.before.clone() else {
            return Ok(());
        };
        let verb = Verb::Peek { amounts: &[] };
        let command = self.command(&before, key, verb);
        match self.turns.ask(|table| table.one(&command))? {
            None | Some(Err(StoreError::StalePlan)) => Ok(()),
            Some(answer) => Err(format!("{answer:?} by a plan that is no longer")),
        }
    }

    /// Asks both for the verdict alone; the table has answered `theirs`, if this process
    /// asked it.
    fn same_verdict(
        &mut self,
        key: &[u8],
        amounts: &[Amount],
        theirs: Option<Result<Verdict, StoreError>>,
    ) -> Result<(), Difference> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let plan = Arc::clone(&self.plan);
        let command = KeyCommand {
            calendars: &[],
            ..self.command(&plan, key, verb)
        };
        let ours = match self.reference.execute(&command) {
            Ok(Reply::Decision(decision)) => Ok(decision.verdict),
            Ok(reply) => return Err(format!("the reference says {reply:?}")),
            Err(error) => Err(error),
        };
        same(theirs, &ours, PartialEq::eq)
    }

    /// Asks both, and compares.
    fn both(&mut self, key: &[u8], verb: Verb<'_>) -> Result<(), Difference> {
        let (plan, calendars) = (Arc::clone(&self.plan), self.data.calendars(self.now));
        let command = KeyCommand {
            calendars: &calendars,
            ..self.command(&plan, key, verb)
        };
        let theirs = self.turns.ask(|table| table.one(&command))?;
        let ours = self.reference.execute(&command);
        same(theirs, &ours, alike)
    }

    fn command<'c>(&self, plan: &'c Arc<Plan>, key: &'c [u8], verb: Verb<'c>) -> KeyCommand<'c> {
        KeyCommand {
            plan,
            key: path(key, plan),
            now: self.now,
            calendars: &[],
            verb,
        }
    }
}

/// What no two scripts share, and both players of one do.
fn table_name(players: &Players) -> String {
    match players {
        Players::With(other) => format!("differential from turn {} on", other.turns_had()),
        _ => {
            let number = TABLES.fetch_add(1, Ordering::Relaxed);
            format!("differential {} {number}", std::process::id())
        }
    }
}

/// The table called `name`, which decides by `plan` as of `now`.
fn opened(
    store: &dyn Store,
    name: &str,
    (plan, now, calendars): (&Arc<Plan>, Timestamp, &[Option<Bounds>]),
) -> Result<Arc<dyn Table>, Difference> {
    let table = store.open(name, plan);
    let table = table.map_err(|error| format!("the table does not open: {error}"))?;
    table.adopt(plan, now, calendars);
    Ok(table)
}

fn path<'k>(key: &'k [u8], plan: &Plan) -> KeyPath<'k> {
    KeyPath::new(key, plan.levels()).expect("a key of a script is one")
}

/// Whether the answers are the same. When to ask again because a lease may
/// have given something back is a hint: as early as the root's next lease, or
/// earlier where a store keeps the leases of several roots together.
fn alike(theirs: &Answer, ours: &Answer) -> bool {
    let (Ok(Reply::Decision(theirs)), Ok(Reply::Decision(ours))) = (theirs, ours) else {
        return theirs == ours;
    };
    let hint = match (theirs.refund_at, ours.refund_at) {
        (Some(theirs), Some(ours)) => theirs <= ours,
        (_, None) => true,
        (None, Some(_)) => false,
    };
    let mut theirs = theirs.clone();
    theirs.refund_at = ours.refund_at;
    hint && theirs == *ours
}

/// Whether the table's answer, if this process asked it, is the reference's.
fn same<T: std::fmt::Debug>(
    theirs: Option<T>,
    ours: &T,
    alike: impl Fn(&T, &T) -> bool,
) -> Result<(), Difference> {
    match theirs {
        Some(theirs) if !alike(&theirs, ours) => Err(format!(
            "\n    the store says {theirs:?}\n    it must say    {ours:?}"
        )),
        _ => Ok(()),
    }
}
