//! One set's table: decides in memory, and answers once the journal may be relied on.

use std::sync::Arc;

use tidegate_memory::{Immediate, Queued};
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Answer, Command, Execution, Granted, KeyPath, Op, Out, OwnedCommand, Plan, Reply, StoreError,
    StoreFuture, Table, Verb,
};

use crate::journal::{Journal, Kept, Tracked};

/// A table of the memory store with its queues, and the journal of its file.
#[derive(Debug)]
pub(crate) struct FileTable {
    table: Queued<InMemory>,
    pub(crate) journal: Arc<Journal>,
}

/// The table in memory. The journal is told of what it changes, whoever asks: also
/// those who wait, when their turn comes.
#[derive(Clone, Debug)]
struct InMemory(Arc<Tracked>);

impl FileTable {
    pub(crate) fn new(tracked: Arc<Tracked>, journal: Arc<Journal>) -> Self {
        let table = Queued::new(InMemory(tracked));
        Self { table, journal }
    }

    pub(crate) fn tracked(&self) -> &Arc<Tracked> {
        &self.table.table().0
    }
}

/// It shares no atomic buckets: a compare-and-swap beside the lock neither notes the change,
/// nor waits for the disk, nor is refused when it is full.
impl Table for InMemory {
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        let execution = self.0.memory.execute(command, out.lend());
        if is_a_change(command, out.answer()) {
            self.0.touch();
        }
        execution
    }
}

impl Immediate for InMemory {
    fn recall(&self, _: &[u8]) {}

    fn find_repeated(&self, key: &KeyPath<'_>, ask: &[u8], now: Timestamp) -> Option<Granted> {
        let found = self.0.memory.find_repeated(key, ask, now);
        if found.is_some() {
            self.0.touch();
        }
        found
    }

    fn plan_of(&self, key: &KeyPath<'_>) -> Arc<Plan> {
        self.0.memory.plan_of(key)
    }
}

/// Whether an answer says that something was changed (also earlier: what is
/// repeated must not be lost either).
fn is_a_change(command: &Command<'_>, answer: &Answer) -> bool {
    let Ok(reply) = answer else {
        return false;
    };
    let changed = |verb: &Verb<'_>, reply: &Reply| match verb {
        Verb::Peek { .. } => false,
        Verb::Take { .. } => reply.verdict().is_some_and(|verdict| verdict.admitted()),
        _ => true,
    };
    match (&command.op, reply) {
        (Op::One(_, verb), reply) => changed(verb, reply),
        (Op::Batch(items), Reply::Batch(answers)) => {
            let mut pairs = items.iter().zip(answers);
            pairs.any(|((_, verb), answer)| answer.as_ref().is_ok_and(|r| changed(verb, r)))
        }
        (Op::Adopt, _) => true,
        _ => false,
    }
}

/// Whether `command` may change anything.
fn may_change(command: &Command<'_>) -> bool {
    match &command.op {
        Op::One(_, verb) => !matches!(verb, Verb::Peek { .. }),
        Op::Batch(_) => true,
        // Its error is met again by every command, until the plan is written.
        Op::Adopt | Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => false,
    }
}

impl Table for FileTable {
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        if may_change(command)
            && let Err(error) = self.journal.check()
        {
            return out.ready(Err(error));
        }
        let execution = self.table.execute(command, out.lend());
        if !execution.is_ready() {
            let (owned, journal) = (OwnedCommand::of(command), Arc::clone(&self.journal));
            let table = self.table.clone();
            return execution.map(|later| {
                StoreFuture::new(async move {
                    let answer = later.await;
                    if !owned.lend(|command| is_a_change(command, &answer)) {
                        return answer;
                    }
                    let held = Held::new(table, owned, answer);
                    match journal.keep() {
                        Ok(None) => held.told(),
                        Ok(Some(kept)) => held.once(kept).await,
                        Err(error) => Err(error),
                    }
                })
            });
        }
        if !is_a_change(command, out.answer()) {
            return execution;
        }
        let kept = match command.op {
            // Nothing is decided by limits that the file does not know.
            Op::Adopt => Ok(Some(self.journal.written())),
            _ => self.journal.keep(),
        };
        match kept {
            Ok(None) => execution,
            Ok(Some(kept)) => {
                let (table, answer) = (self.table.clone(), out.take());
                let held = Held::new(table, OwnedCommand::of(command), answer);
                StoreFuture::new(held.once(kept)).into()
            }
            Err(error) => out.ready(Err(error)),
        }
    }
}

/// An answer that is held back until the journal has what it says. If nobody waits for
/// it any more, a lease in it is given back.
struct Held {
    table: Queued<InMemory>,
    command: OwnedCommand,
    answer: Option<Answer>,
}

impl Held {
    const fn new(table: Queued<InMemory>, command: OwnedCommand, answer: Answer) -> Self {
        Self {
            table,
            command,
            answer: Some(answer),
        }
    }

    fn told(mut self) -> Answer {
        self.answer.take().unwrap_or(Err(StoreError::Mismatch))
    }

    /// The answer, once it is kept; the error, if it cannot be.
    async fn once(mut self, kept: Kept) -> Answer {
        let is_plan = self.command.lend(|command| matches!(command.op, Op::Adopt));
        match kept.await {
            // A plan that is not written is written before anything is decided by it.
            Err(error) if !is_plan => {
                // Whether the file has it, nobody knows: who asks again finds out.
                self.answer = None;
                Err(error)
            }
            _ => self.told(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(Ok(reply)) = &self.answer else {
            return;
        };
        let Some(id) = reply.new_lease() else { return };
        if !self.command.lend(|command| command.is_retried()) {
            let now = self.command.now();
            self.table.take_back(&self.command, id, now);
        }
    }
}
