//! One command on one root: a step on its shard, decided by the optimistic loop, with an eye
//! for those who wait and for processes that were killed.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::core::{Span, Timestamp, Verdict};
use tidegate_store::optimistic::{
    Attempt, Clock, KnownRevisions, OwnedKeyCommand, PlanRevision, Step,
};
use tidegate_store::revisions::{Revision, Revisions};
use tidegate_store::{Answer, Detail, KeyCommand, Plan, Reply, StoreError, Verb};

use crate::at_hand::{AtHand, Known};
use crate::error::Fault;
use crate::kept::NOBODY;
use crate::keys::RootKeys;
use crate::process::{self, Process};
use crate::queue::{Ahead, Turn};
use crate::registry;
use crate::root::{Root, Tie};
use crate::shared::Shared;
use crate::txn::Txn;

/// Among so many leases those of processes that were killed are looked for at once.
const MOST_LAPSED: usize = 64;

/// What the commands of one table share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u32,
    /// By which limits it decides, and what is not written yet.
    pub(crate) revisions: Revisions<Arc<PlanRevision>>,
    /// The revisions that its rows were met with.
    pub(crate) known: KnownRevisions,
    /// Roots that this process knows as they are kept.
    pub(crate) at_hand: AtHand,
    /// One change of limits is written at a time.
    pub(crate) writing: Mutex<()>,
}

/// What a step came to.
enum Outcome {
    Reply(Answer),
    /// Somebody ahead in the queue waits for the same: its limits refused it with this, or would
    /// have admitted it.
    Kept(Option<Reply>),
    /// There was more to do than is done at once.
    Again,
    /// First these are looked at, that may hold leases of the root.
    Look(Vec<Process>),
}

/// How a step is taken.
#[derive(Clone, Copy)]
struct Manner<'t> {
    /// By which turn it may wait.
    turn: Option<&'t Turn>,
    tie: Tie,
    /// Whether those that may hold leases were looked at before.
    has_looked: bool,
}

impl Manner<'_> {
    /// Of a step that needs no look.
    const fn tied(tie: Tie) -> Self {
        Self {
            turn: None,
            tie,
            has_looked: true,
        }
    }
}

/// What is to be known of a step beside its outcome.
#[derive(Default)]
struct Seen {
    /// Processes that hold leases of the root, or wait before this one.
    others: Vec<Process>,
    /// Those of them that may hold leases, if it was refused.
    holders: Vec<Process>,
}

/// The answer to a take that may wait.
pub(crate) struct Told {
    pub(crate) reply: Reply,
    /// Whether others in the queue are first.
    pub(crate) is_kept: bool,
    /// Whose end may change the answer.
    pub(crate) others: Vec<Process>,
}

impl Inner {
    /// The newest plan's revision, written first if it is not yet.
    pub(crate) fn revision(&self) -> Result<Revision<Arc<PlanRevision>>, StoreError> {
        if let Some(revision) = self.revisions.settled() {
            return Ok(revision);
        }
        let _one_at_a_time = self.writing.lock();
        let steps = &self.shared.steps;
        while let Some(change) = self.revisions.next_change() {
            let known = Arc::new(registry::add(
                steps,
                self.number,
                (&change, self.shared.clock),
            )?);
            self.known.note(&known);
            let plan = change.plan;
            self.revisions.written(Revision { plan, known });
        }
        let none = || StoreError::Unavailable("the table has no limits yet".to_owned());
        self.revisions.settled().ok_or_else(none)
    }

    fn revision_of(&self, plan: &Arc<Plan>) -> Result<Arc<PlanRevision>, StoreError> {
        if let Some(known) = self.revisions.settled_on(plan) {
            return Ok(known);
        }
        let newest = self.revision()?;
        match Arc::ptr_eq(&newest.plan, plan) {
            true => Ok(newest.known),
            false => Err(StoreError::StalePlan),
        }
    }

    /// Executes a command that does not wait.
    pub(crate) fn execute(&self, command: &KeyCommand<'_>) -> Answer {
        Ok(self.decide(command, None)?.reply)
    }

    /// Executes a command, a take that may wait by its turn.
    pub(crate) fn decide(
        &self,
        command: &KeyCommand<'_>,
        turn: Option<&Turn>,
    ) -> Result<Told, StoreError> {
        let followed = self
            .revisions
            .follow(command.plan, command.now, command.calendars);
        followed?;
        let asked = Asked::of(self, command)?;
        let mut manner = Manner {
            turn,
            tie: self.tie(&command.verb),
            has_looked: false,
        };
        loop {
            let (outcome, seen) = self.step(&asked, manner)?;
            if self.have_lapsed(&asked, seen.holders)? {
                continue;
            }
            let told = |reply, is_kept| Told {
                reply,
                is_kept,
                others: seen.others,
            };
            return match outcome {
                Outcome::Again => continue,
                Outcome::Look(holders) => {
                    self.have_lapsed(&asked, holders)?;
                    manner.has_looked = true;
                    continue;
                }
                Outcome::Reply(reply) => Ok(told(reply?, false)),
                Outcome::Kept(Some(reply)) => Ok(told(reply, true)),
                Outcome::Kept(None) => Ok(told(self.refusal(&asked)?, true)),
            };
        }
    }

    /// With which process a lease ends that the command makes, or says is its own.
    fn tie(&self, verb: &Verb<'_>) -> Tie {
        let process = match self.shared.leases_end_with_process {
            true => process::me(),
            false => NOBODY,
        };
        match verb {
            Verb::Renew { id, .. } | Verb::Adjust { id, .. } => Tie::Taken(*id, process),
            _ => Tie::New(process),
        }
    }

    /// One step; where it finds no room, what is spent is deleted, and it is tried again.
    fn step(&self, asked: &Asked, manner: Manner<'_>) -> Result<(Outcome, Seen), StoreError> {
        let own = self.revision_of(&asked.request.plan)?;
        let once = || {
            let mut txn = self.shared.steps.begin(asked.keys.shard)?;
            let (outcome, seen, known) = self.attempt(&mut txn, asked, manner, Arc::clone(&own))?;
            // What was looked at only is given back as it was.
            if txn.has_changed() {
                txn.commit()?;
            }
            if let Some(known) = known
                && let Some(mut place) = self.at_hand.place(asked.keys.spot())
            {
                place.put(known);
            }
            Ok((outcome, seen))
        };
        match once() {
            Err(Fault::Full) if self.shared.steps.makes_room(asked.keys.shard) => once(),
            told => told,
        }
        .map_err(|fault| fault.told(|| self.shared.steps.full()))
    }

    fn attempt(
        &self,
        txn: &mut Txn<'_>,
        asked: &Asked,
        manner: Manner<'_>,
        own: Arc<PlanRevision>,
    ) -> Result<(Outcome, Seen, Option<Box<Known>>), Fault> {
        let request = &asked.request;
        let Manner {
            turn,
            tie,
            has_looked,
        } = manner;
        let now = match self.shared.clock {
            Clock::Server => txn.now(),
            Clock::Caller => request.now,
        };
        if asked.gives_back {
            txn.may_use_up();
        }
        let mut root = Root::load(txn, &asked.keys)?;
        let mut seen = Seen::default();
        if let Tie::Lapsed(id, gone) = tie
            && !root.is_held_by(txn, id, gone)?
        {
            return Ok((Outcome::Reply(Ok(Reply::Done)), seen, None));
        }
        let holder = match tie {
            Tie::New(process) | Tie::Taken(_, process) if asked.holds => process,
            _ => NOBODY,
        };
        // What is noted of holders is bounded by those that are there, and came since.
        if !has_looked && (asked.looks || !root.is_noted(txn, holder)?) {
            let others = root.other_holders(txn)?;
            if !others.is_empty() {
                return Ok((Outcome::Look(others), seen, None));
            }
        }
        let ahead = match request.is_take() {
            true => asked.on_path(|path| root.ahead(txn, (path, asked.levels), turn, now))?,
            false => Ahead::default(),
        };
        let mut attempt = Attempt::new(request, own, self.known.all(), self.shared.clock);
        let mut step = Step::Load(attempt.begin()?);
        let (set, reply) = loop {
            step = match step {
                Step::Load(wanted) => attempt.found(root.read(txn, &wanted, now)?),
                Step::Revisions(numbers) => {
                    let found = registry::fetch(&self.shared.steps, self.number, &numbers)?;
                    self.known.learn(found);
                    attempt.learned(self.known.all())
                }
                Step::Write(set, reply) => break (Some(set), reply),
                Step::Done(reply) => break (None, Some(reply)),
            };
        };
        if let Some(Ok(reply)) = &reply
            && is_overtaking(reply, &ahead)
        {
            let waits = (&ahead, ahead.levels);
            if self.enqueue(txn, &mut root, (asked, turn), waits, now)? {
                root.wake_first(txn, &self.shared.steps.segment, asked.levels)?;
            }
            root.save(txn)?;
            seen.others = others(&root, txn, ahead)?;
            return Ok((Outcome::Kept(None), seen, None));
        }
        if let Some(set) = &set {
            root.write(txn, set, tie)?;
        }
        let refused = reply.as_ref().and_then(refused_levels);
        // Whether others may have their turn by what becomes of this one.
        let mut makes_way = false;
        match (refused, &reply) {
            (Some(levels), _) => {
                let levels = levels | ahead.levels;
                makes_way = self.enqueue(txn, &mut root, (asked, turn), (&ahead, levels), now)?;
            }
            (None, Some(Ok(_))) if turn.is_some() => makes_way = root.leave(txn, &ahead)?,
            (None, _) => {}
        }
        if makes_way || asked.gives_back {
            root.wake_first(txn, &self.shared.steps.segment, asked.levels)?;
        }
        root.save(txn)?;
        let is_kept = refused.is_some() && ahead.levels != 0;
        if refused.is_some() {
            seen.holders = root.other_holders(txn)?;
            seen.others = others(&root, txn, ahead)?;
        }
        let known = match &reply {
            Some(Ok(_)) if root.overview.waiting == 0 => known(txn, &root, attempt)?,
            _ => None,
        };
        let outcome = match reply {
            None => Outcome::Again,
            Some(Ok(reply)) if is_kept => Outcome::Kept(Some(reply)),
            Some(reply) => Outcome::Reply(reply),
        };
        Ok((outcome, seen, known))
    }

    /// Takes its place in the queue for these levels, if it may wait, and there is anything to wait
    /// for; whether it waits for fewer than before.
    fn enqueue(
        &self,
        txn: &mut Txn<'_>,
        root: &mut Root<'_>,
        (asked, turn): (&Asked, Option<&Turn>),
        (ahead, levels): (&Ahead, u8),
        now: Timestamp,
    ) -> Result<bool, Fault> {
        match turn {
            Some(turn) if levels != 0 => {
                asked.on_path(|path| root.enqueue(txn, (path, turn), (ahead, levels), now))
            }
            _ => Ok(false),
        }
    }

    /// What those of `holders` held that were killed expires now; whether there were any. Looked at
    /// without a lock: the system is asked for each.
    fn have_lapsed(&self, asked: &Asked, mut holders: Vec<Process>) -> Result<bool, StoreError> {
        holders.retain(|process| !process.is_there());
        for gone in &holders {
            self.lapse(asked, *gone)?;
        }
        Ok(!holders.is_empty())
    }

    /// Leases of a process that was killed expire now, as the core has it: each is renewed
    /// until this instant.
    fn lapse(&self, asked: &Asked, gone: Process) -> Result<(), StoreError> {
        let (steps, mut after) = (&self.shared.steps, None);
        loop {
            let found = steps.step(asked.keys.shard, |txn| {
                let root = Root::load(txn, &asked.keys)?;
                let (held, last) = root.held_by(txn, gone, (after, MOST_LAPSED))?;
                Ok((held, last, txn.now()))
            });
            let (held, last, now) = found?;
            let now = match self.shared.clock {
                Clock::Server => now,
                Clock::Caller => asked.request.now,
            };
            for (id, owner) in &held {
                self.lapse_one(asked, (*id, owner.bytes()), (gone, now))?;
            }
            // One of which the core knows nothing is there until it expires.
            steps.step(asked.keys.shard, |txn| {
                txn.may_use_up();
                let root = Root::load(txn, &asked.keys)?;
                root.let_go(txn, gone, &held)?;
                match last {
                    Some(_) => Ok(()),
                    None => root.forget_holder(txn, gone),
                }
            })?;
            match last {
                Some(_) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// The same of one of them, unless it is another process's by now.
    fn lapse_one(
        &self,
        asked: &Asked,
        (id, owner): (u128, &[u8]),
        (gone, now): (Process, Timestamp),
    ) -> Result<(), StoreError> {
        let plan = &asked.request.plan;
        let path = tidegate_store::KeyPath::stored(owner, plan.levels());
        let key = path.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let renew = KeyCommand {
            plan,
            key,
            now,
            calendars: &[],
            verb: Verb::Renew { id, until: now },
        };
        let renew = Asked::of(self, &renew)?;
        loop {
            match self.step(&renew, Manner::tied(Tie::Lapsed(id, gone)))? {
                (Outcome::Again, _) => {}
                // It may have ended meanwhile.
                _ => return Ok(()),
            }
        }
    }

    /// What a take is told that others keep back: what its limits say, or an instant from
    /// now on.
    fn refusal(&self, asked: &Asked) -> Answer {
        let Some((peek, detail)) = asked.request.peek() else {
            return Err(StoreError::Unavailable("only a take waits".to_owned()));
        };
        let peek = Asked {
            request: peek,
            keys: asked.keys.clone(),
            levels: asked.levels,
            gives_back: false,
            holds: false,
            looks: false,
        };
        loop {
            match self.step(&peek, Manner::tied(Tie::New(NOBODY)))?.0 {
                Outcome::Reply(reply) => return Ok(back(reply?, asked.request.now, detail)),
                Outcome::Kept(_) | Outcome::Again | Outcome::Look(_) => {}
            }
        }
    }

    /// Gives the place of a turn up.
    pub(crate) fn give_up(&self, root: &[u8], levels: usize, turn: u128) -> Result<(), StoreError> {
        let keys = RootKeys::new(self.shared.steps.segment.seed(), self.number, root);
        self.shared.steps.step(keys.shard, |txn| {
            txn.may_use_up();
            let mut root = Root::load(txn, &keys)?;
            if root.give_up(txn, turn)? {
                root.wake_first(txn, &self.shared.steps.segment, levels)?;
            }
            root.save(txn)
        })
    }
}

/// A command, and what is to be known of it before it is decided.
struct Asked {
    request: OwnedKeyCommand,
    keys: RootKeys,
    levels: usize,
    gives_back: bool,
    /// Whether a lease may be its process's afterwards.
    holds: bool,
    /// Whether it only looks: then it looks first whether holders were killed.
    looks: bool,
}

impl Asked {
    fn of(table: &Inner, command: &KeyCommand<'_>) -> Result<Self, StoreError> {
        let request = OwnedKeyCommand::of(command);
        let seed = table.shared.steps.segment.seed();
        Ok(Self {
            keys: RootKeys::new(seed, table.number, request.root()?),
            levels: command.plan.levels(),
            gives_back: command.verb.gives_back(),
            holds: matches!(
                command.verb,
                Verb::Take { lease: Some(_), .. } | Verb::Renew { .. } | Verb::Adjust { .. }
            ),
            looks: matches!(command.verb, Verb::Peek { .. }),
            request,
        })
    }

    fn on_path<T>(
        &self,
        act: impl FnOnce(&tidegate_store::KeyPath<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        act(&self.request.path()?)
    }
}

/// What an attempt knew of a plain root, once all of it is written.
fn known(
    txn: &Txn<'_>,
    root: &Root<'_>,
    attempt: Attempt<'_>,
) -> Result<Option<Box<Known>>, Fault> {
    let Some(at_hand) = attempt.into_at_hand() else {
        return Ok(None);
    };
    let (Some(row), me) = (root.own_row(txn)?, process::me()) else {
        return Ok(None);
    };
    Ok(Some(Box::new(Known {
        keys: root.keys.clone(),
        version: txn.version(root.keys.bucket),
        holder: root.is_noted(txn, me)?.then_some(me),
        row: txn.site(row)?,
        in_place: None,
        root: at_hand,
    })))
}

/// Whether it takes what others wait for. (A lease that was given before is only told of
/// again.)
fn is_overtaking(reply: &Reply, ahead: &Ahead) -> bool {
    let Some(decision) = reply.full_decision() else {
        return false;
    };
    let repeated = decision.lease.is_some_and(|lease| lease.repeated);
    ahead.levels != 0 && decision.verdict.admitted() && !repeated
}

/// The levels that refused for now, if any did.
fn refused_levels(reply: &Answer) -> Option<u8> {
    match reply {
        Ok(Reply::Decision(decision)) => match decision.verdict {
            Verdict::NotUntil(_) => Some(decision.refused_levels),
            _ => None,
        },
        _ => None,
    }
}

/// Whose end may change what one who waits was told.
fn others(root: &Root<'_>, txn: &Txn<'_>, ahead: Ahead) -> Result<Vec<Process>, Fault> {
    let mut others = root.holders(txn)?;
    others.extend(ahead.processes);
    Ok(others)
}

/// The answer to a take that others keep back, made from a look at its limits as of `now`.
fn back(looked: Reply, now: Timestamp, detail: Detail) -> Reply {
    let Reply::Decision(mut decision) = looked else {
        return looked;
    };
    if decision.verdict.admitted() {
        decision.verdict = Verdict::NotUntil(now + Span::from_micros(1));
        decision.binding = None;
    }
    if detail == Detail::Verdict {
        decision.standings.clear();
    }
    Reply::Decision(decision)
}
