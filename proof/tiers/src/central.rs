//! The store: one table in memory under a clock of its own, and what is under way to it and
//! back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::Timestamp;
use tidegate_memory::{Bounds, MemoryStore};
use tidegate_store::optimistic::{by_the_callers_clock, moved};
use tidegate_store::{
    Answer, Command, Op, Out, OwnedCommand, Plan, Reply, Responder, Store, StoreError, Table,
    TableBounds, Verb, Wake,
};

/// The name of the one table.
const NAME: &str = "fleet";

/// A store that nodes share, with a clock of its own.
pub struct Central {
    pub(crate) memory: MemoryStore,
    now: AtomicI64,
    table: Mutex<Option<Arc<dyn Table>>>,
    /// The limits by which the table decides now. Each node numbers its versions by itself.
    plan: Mutex<Option<Arc<Plan>>>,
    under_way: Mutex<BTreeMap<(i64, u64), Letter>>,
    letters: AtomicU64,
    /// Requests for a grant that came here.
    grants: AtomicU64,
    /// All commands that came here.
    commands: AtomicU64,
}

/// What is on its way to the store, or back.
pub(crate) struct Letter {
    pub(crate) node: usize,
    pub(crate) content: Content,
    pub(crate) responder: Responder,
}

/// What a letter says.
pub(crate) enum Content {
    /// A command, and for how long its answer will be on its way.
    Command(OwnedCommand, u64),
    /// An answer.
    Answer(Answer),
}

impl Central {
    /// A store whose clock stands at so many microseconds since the epoch.
    #[must_use]
    pub fn starting_at(now: i64) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::new(Bounds::default()),
            now: AtomicI64::new(now),
            table: Mutex::default(),
            plan: Mutex::default(),
            under_way: Mutex::default(),
            letters: AtomicU64::new(0),
            grants: AtomicU64::new(0),
            commands: AtomicU64::new(0),
        })
    }

    /// What its clock says.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Its clock says this from here on; it never steps back.
    pub(crate) fn set(&self, now: i64) {
        self.now.fetch_max(now, Ordering::Relaxed);
    }

    /// How many requests for a grant it was asked.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// How many commands it was asked.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Opens the table, once.
    ///
    /// # Errors
    /// The memory store's.
    pub(crate) fn open(&self, plan: &Arc<Plan>) -> Result<(), StoreError> {
        let mut table = self.table.lock();
        if table.is_none() {
            let bounds = TableBounds {
                steady_clock: true,
                ..TableBounds::default()
            };
            *table = Some(self.memory.open_within(NAME, plan, &bounds)?);
            *self.plan.lock() = Some(Arc::clone(plan));
        }
        Ok(())
    }

    /// The plan that the table was last used with.
    pub(crate) fn last_plan(&self) -> Option<Arc<Plan>> {
        self.plan.lock().clone()
    }

    /// The limits of `theirs`, as the table numbers them: those that decide now, or others
    /// that it goes over to. Nodes that know different limits are answered by their own.
    fn numbered(&self, theirs: &Plan) -> Option<Arc<Plan>> {
        let mut ours = self.plan.lock();
        let now = ours.as_ref()?;
        if !now.has_limits_of(theirs) || !now.differing_from(theirs).is_empty() {
            let version = now.version() + 1;
            *ours = Some(Arc::new(now.going_on(version, theirs.overrides().clone())));
        }
        ours.clone()
    }

    /// Executes a command by the store's clock, and answers by its caller's.
    pub(crate) fn decide(&self, command: &Command<'_>) -> Answer {
        self.count(command);
        let (asked, now) = (command.now, Timestamp::from_micros(self.now()));
        let to_store = |at: Timestamp| moved(at, asked, now);
        let op = match command.op {
            Op::One(path, verb) => Op::One(path, verb.translated(to_store)),
            op => op,
        };
        let (table, plan) = (self.table.lock().clone(), self.numbered(command.plan));
        let (Some(table), Some(plan)) = (table, plan) else {
            return Err(StoreError::Unavailable("nobody opened it".to_owned()));
        };
        let command = Command {
            now,
            op,
            plan: &plan,
            ..*command
        };
        let mut answer = Ok(Reply::Done);
        let execution = table.execute(&command, Out::new(&mut answer));
        assert!(execution.is_ready(), "memory answers at once");
        by_the_callers_clock(&mut answer, now, asked);
        answer
    }

    fn count(&self, command: &Command<'_>) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        if is_grant(command) {
            self.grants.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends `letter`, to arrive so much later.
    pub(crate) fn send(&self, letter: Letter, micros: u64) {
        let at = self.now() + micros as i64;
        let number = self.letters.fetch_add(1, Ordering::Relaxed);
        self.under_way.lock().insert((at, number), letter);
    }

    /// The next letter that arrives until `until`, and when.
    pub(crate) fn next(&self, until: i64) -> Option<(i64, Letter)> {
        let mut under_way = self.under_way.lock();
        let first = under_way.first_entry()?;
        let at = first.key().0;
        (at <= until).then(|| (at, first.remove()))
    }

    /// What is under way arrives nowhere.
    pub(crate) fn lose_all(&self) {
        let lost = std::mem::take(&mut *self.under_way.lock());
        drop(lost);
    }

    /// A letter has arrived: here, and its answer goes back; or there. What is answered runs
    /// when what this returns is dropped.
    pub(crate) fn deliver(&self, letter: Letter) -> Option<Wake> {
        match letter.content {
            Content::Answer(answer) => Some(letter.responder.answer(answer)),
            Content::Command(command, back) => {
                let answer = command.lend(|command| self.decide(command));
                let content = Content::Answer(answer);
                self.send(Letter { content, ..letter }, back);
                None
            }
        }
    }
}

/// Whether it asks for a grant.
pub(crate) fn is_grant(command: &Command<'_>) -> bool {
    let Op::One(_, verb) = command.op else {
        return false;
    };
    verb.terms().is_some_and(|terms| terms.least.is_some())
}

/// Whether it is a node's own: a request for a grant, or units that go back.
pub(crate) fn is_nodes_own(command: &Command<'_>) -> bool {
    let is_of_lease = matches!(
        command.op,
        Op::One(
            _,
            Verb::End { .. } | Verb::Renew { .. } | Verb::Adjust { .. }
        )
    );
    is_grant(command) || is_of_lease
}
