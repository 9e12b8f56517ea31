//! A command on its way: all of it that is needed once the caller is gone.

use std::sync::Arc;

use tidegate_store::core::{Bounds, Span, Timestamp};
use tidegate_store::{KeyCommand, KeyPath, Plan, Verb};

use crate::keys::Names;
use crate::known::Known;
use crate::options::Clock;
use crate::script::Needs;
use crate::wire;
use crate::wire::command::Turn;

/// See the [module](self).
pub(crate) struct Request {
    pub(crate) plan: Arc<Plan>,
    /// The plan with the limits that the keys of the path have for themselves.
    pub(crate) deciding: Arc<Plan>,
    pub(crate) now: Timestamp,
    pub(crate) calendars: Box<[Option<Bounds>]>,
    pub(crate) command: Arc<[u8]>,
    pub(crate) keys: Vec<Vec<u8>>,
    /// What it needs of the script beside what the plan needs.
    pub(crate) needs: Needs,
    /// The root under which it may use something that is counted, and for how long that is kept.
    pub(crate) counted: Option<(Box<[u8]>, Span)>,
    /// The limits that decide with a capacity of the moment.
    moved: Arc<[u8]>,
    /// For each row: what its key has for itself.
    own: Vec<Option<Arc<[u8]>>>,
    /// The levels of the rows that were added to those of the path.
    others: Vec<usize>,
}

impl Request {
    pub(crate) fn of(command: &KeyCommand<'_>, clock: Clock, names: &Names) -> Self {
        Self {
            calendars: command.calendars.into(),
            counted: counted(command),
            ..Self::new(
                command.plan,
                &command.key,
                command.now,
                wire::command::encode(command, clock),
                names,
            )
        }
    }

    /// A take that stands in line.
    pub(crate) fn in_line(
        command: &KeyCommand<'_>,
        turn: &Turn,
        clock: Clock,
        names: &Names,
    ) -> Self {
        let bytes = wire::command::encode_in_line(command, clock, turn);
        let mut request = Self::new(command.plan, &command.key, command.now, bytes, names);
        request.calendars = command.calendars.into();
        request.counted = counted(command);
        request.needs = request.needs.and(Needs::LINE);
        request
    }

    /// What is asked by `command` about the rows of `path`.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        path: &KeyPath<'_>,
        now: Timestamp,
        command: Vec<u8>,
        names: &Names,
    ) -> Self {
        let deciding = plan.at(path).unwrap_or_else(|| Arc::clone(plan));
        let mut request = Self {
            moved: wire::plan::moved(plan, &deciding, path).into(),
            plan: Arc::clone(plan),
            deciding,
            now,
            calendars: Box::default(),
            command: command.into(),
            keys: names.of(path),
            needs: Needs::NONE,
            counted: None,
            own: Vec::new(),
            others: Vec::new(),
        };
        (0..path.depth()).for_each(|level| request.add_own(path, level));
        request
    }

    /// Adds the rows of `path`: one of its leases gives something back.
    pub(crate) fn add_rows(&mut self, path: &KeyPath<'_>, names: &Names) {
        for level in 0..path.depth() {
            let row = names.row(path, level);
            if !self.keys.contains(&row) {
                self.keys.push(row);
                self.others.push(level);
                self.add_own(path, level);
            }
        }
    }

    /// What the whole script is told.
    pub(crate) fn arguments(&self, known: &Known, revisions: &[Arc<[u8]>]) -> Vec<Arc<[u8]>> {
        let (plan, command) = (Arc::clone(&known.bytes), Arc::clone(&self.command));
        let own = [plan, command, self.rows()];
        [&own, revisions].concat()
    }

    /// What is told of the rows.
    fn rows(&self) -> Arc<[u8]> {
        wire::command::rows(&self.others, &self.own, &self.moved).into()
    }

    fn add_own(&mut self, path: &KeyPath<'_>, level: usize) {
        let own = self.plan.own_limits(path, level);
        if let Some(variant) = own {
            self.needs = self.needs.and(Needs::of(variant));
        }
        let own = own.map(|variant| wire::plan::own(variant, level).into());
        self.own.push(own);
    }
}

/// What is counted of a lease later was used under its root before.
fn counted(command: &KeyCommand<'_>) -> Option<(Box<[u8]>, Span)> {
    let keep = command.plan.usage()?;
    let may_use = matches!(command.verb, Verb::Take { .. } | Verb::Debit { .. });
    may_use.then(|| (command.key.root().into(), keep))
}
