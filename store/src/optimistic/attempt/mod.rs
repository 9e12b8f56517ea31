//! One try at a command: asks for what it needs, decides, and says what to write.
//!
//! | room | holds |
//! |---|---|
//! | `rows` | the rows that were loaded |
//! | `leases` | those leases that the command can meet |
//! | `follow` | changes of limits, revision by revision |
//! | `retire` | what is due about leases |
//! | `write` | what has changed |
//! | `listed` | from when on a kept row equals "never seen", for who lists rows |
//! | `used` | what was used |
//! | `at_hand` | what an attempt knew of a plain root, for the next command |
//!
//! Whoever drives it loads what [`Attempt::begin`] wants, and then does what each
//! [`Step`] says, all of it in one transaction or at one version of the root. It
//! can stop at any time: nothing was changed.

mod at_hand;
mod follow;
mod leases;
mod listed;
mod retire;
mod rows;
mod used;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::error::StoreError;
use crate::optimistic::answer;
use crate::optimistic::clock::Clock;
use crate::optimistic::exchange::{DueRange, LoadReply, LoadRequest, WriteSet};
use crate::optimistic::known_revisions;
use crate::optimistic::owned_key_command::OwnedKeyCommand;
use crate::optimistic::revision::PlanRevision;
use crate::optimistic::stored_row::RootHeader;
use crate::owned::OwnedKey;
use crate::reply::Reply;
use crate::{decide, retained};
use leases::Leases;
pub use listed::ListedRow;
use rows::Rows;
use used::Used;

/// What is to be done next.
#[derive(Debug)]
pub enum Step {
    /// Load this, and [go on](Attempt::found) with what was found.
    Load(LoadRequest),
    /// Make these revisions known, and [go on](Attempt::learned).
    Revisions(Vec<u32>),
    /// Write this; then the reply is the answer. None: there was more to do than
    /// is done in one step; try again.
    Write(WriteSet, Option<Result<Reply, StoreError>>),
    /// There is nothing to write; this is the answer.
    Done(Result<Reply, StoreError>),
}

/// Why it cannot go on yet.
enum Need {
    Load(LoadRequest),
    Revisions(Vec<u32>),
    /// Enough was done for one step.
    Pause,
    Fail(StoreError),
}

impl From<StoreError> for Need {
    fn from(error: StoreError) -> Self {
        Self::Fail(error)
    }
}

/// One try at a command.
///
/// Whoever drives it loads what [`begin`](Self::begin) wants, and then does what
/// each [`Step`] says, all of it in one transaction or at one version of the root.
/// It can stop at any time: nothing was changed.
#[derive(Debug)]
pub struct Attempt<'r> {
    request: &'r OwnedKeyCommand,
    own: Arc<PlanRevision>,
    clock: Clock,
    known: Arc<BTreeMap<u32, Arc<PlanRevision>>>,
    /// The instant of the decision, once something was found.
    now: Option<Timestamp>,
    version: Option<u64>,
    root_was_there: bool,
    head: RootHeader,
    rows: Rows,
    leases: Leases,
    used: Used,
    /// How many records were dealt with because they were due.
    retired: usize,
    /// How many rows and leases may be written in one step.
    room: usize,
}

/// So many of the leases that are due first come with the first load.
const GLANCE: usize = 2;

/// A command with a lease that is due, and the rows and hours of both.
const LEAST_ROOM: usize = 48;

impl<'r> Attempt<'r> {
    /// A try at `request`, by the revision `own` of its plan. `known` are revisions
    /// that may be met.
    #[must_use]
    pub fn new(
        request: &'r OwnedKeyCommand,
        own: Arc<PlanRevision>,
        known: Arc<BTreeMap<u32, Arc<PlanRevision>>>,
        clock: Clock,
    ) -> Self {
        let head = RootHeader {
            followed: own.number,
            sequence: 0,
            until: Timestamp::MIN,
        };
        Self {
            request,
            own,
            clock,
            known,
            now: None,
            version: None,
            root_was_there: false,
            head,
            rows: Rows::default(),
            leases: Leases::new(),
            used: Used::default(),
            retired: 0,
            room: usize::MAX,
        }
    }

    /// Leases that are due are dealt with in steps of which none writes more than `room` rows,
    /// leases and hours of usage of a row, a lease that changes counted twice: for a backend that
    /// keeps it under its idempotency key, too. A step that would write fewer could come to nothing:
    /// it has 48 at least.
    #[must_use]
    pub const fn with_room(mut self, room: usize) -> Self {
        self.room = if room < LEAST_ROOM { LEAST_ROOM } else { room };
        self
    }

    /// What is loaded first: the rows of the key and its ancestors, the root's
    /// first, the lease that is meant, and the next that are due.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn begin(&mut self) -> Result<LoadRequest, StoreError> {
        let path = self.request.path()?;
        let idempotency_key = self.request.idempotency();
        let wanted = LoadRequest {
            rows: path.rows().map(Into::into).collect(),
            ids: self.request.lease().into_iter().collect(),
            idempotency_key: idempotency_key
                .map(|idempotency_key| decide::scoped_idempotency_key(&path, idempotency_key)),
            due: Some(DueRange {
                after: None,
                most: GLANCE,
            }),
            all_leases: self.request.is_reset(),
        };
        self.expect(&wanted);
        Ok(wanted)
    }

    /// Goes on with what was found of what was wanted last.
    pub fn found(&mut self, found: LoadReply) -> Step {
        match self.take_in(found) {
            Ok(()) => self.go_on(),
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// Goes on with more revisions.
    pub fn learned(&mut self, known: Arc<BTreeMap<u32, Arc<PlanRevision>>>) -> Step {
        self.known = known;
        self.go_on()
    }

    fn expect(&mut self, wanted: &LoadRequest) {
        self.rows.expect(&wanted.rows);
        self.leases.expect(wanted.due);
    }

    fn take_in(&mut self, found: LoadReply) -> Result<(), StoreError> {
        let path = self.request.path()?;
        let head = self.rows.take_in(found.rows, &self.own.plan)?;
        self.leases.take_in(found.leases, found.due)?;
        if self.now.is_none() {
            self.version = found.version;
            self.root_was_there = self.rows.was_there(path.root());
            self.head = head.unwrap_or(self.head);
            let latest = self.rows.latest();
            let now = self.clock.instant(self.request.now, found.now, latest);
            self.now = Some(now);
        }
        Ok(())
    }

    fn go_on(&mut self) -> Step {
        match self.catch_up() {
            Ok(()) => {
                let reply = self.decide();
                self.finish(Some(reply))
            }
            Err(Need::Pause) => self.finish(None),
            Err(Need::Fail(error)) => Step::Done(Err(error)),
            Err(Need::Revisions(numbers)) => Step::Revisions(numbers),
            Err(Need::Load(wanted)) => {
                self.expect(&wanted);
                Step::Load(wanted)
            }
        }
    }

    /// Brings rows and leases up to now.
    fn catch_up(&mut self) -> Result<(), Need> {
        let now = self.instant();
        self.check_revisions()?;
        self.follow_changes(now)?;
        let own = Arc::clone(&self.own);
        self.come_back(now);
        self.agree_about_keys(now);
        self.retire(&own, now)?;
        self.head.followed = self.head.followed.max(own.number);
        Ok(())
    }

    /// Whatever is met must be known: else nothing is done yet.
    fn check_revisions(&self) -> Result<(), Need> {
        let mut met = self.rows.revisions();
        if self.leases.has_any() {
            met.push(self.head.followed);
        }
        met.retain(|number| *number != self.own.number);
        let needed = known_revisions::leading_to(self.own.number, &met);
        let unknown = needed.into_iter().filter(|n| !self.known.contains_key(n));
        let unknown: Vec<u32> = unknown.collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Need::Revisions(unknown)),
        }
    }

    /// The command, by the one decision loop.
    fn decide(&mut self) -> Result<Reply, StoreError> {
        let now = self.instant();
        let request = self.request;
        let command = request.command(now)?;
        let owner = OwnedKey::new(command.key.bytes());
        let own = Arc::clone(&self.own);
        let mut rows = self.rows.take_out(&command.key, &own);
        let mut beside = self.rows.take_retained(&command.key);
        let ledger = &mut self.leases.ledger;
        let mut reply = retained::apply(&command, &mut rows, &mut beside, ledger, owner);
        self.rows.put_back(&command.key, rows, &own);
        self.rows.put_retained_back(&command.key, beside);
        let ledger = &mut self.leases.ledger;
        self.used.take_in(&own.plan, &command.key, ledger);
        let moves = !request.is_reset();
        self.leases
            .note_changes(moves.then_some(&mut self.head.sequence));
        answer::by_the_callers_clock(&mut reply, now, request.now);
        reply
    }

    /// The instant of the decision.
    fn instant(&self) -> Timestamp {
        self.now.unwrap_or(self.request.now)
    }
}
