//! The fast path: a plain command on a root that this process has at hand. It is decided by
//! the core on what is at hand, and what has changed is written where it stands.

use tidegate_store::optimistic::{Change, Clock, NewLease, RootAtHand};
use tidegate_store::{Answer, KeyCommand, Reply, StoreError};

use crate::at_hand::Known;
use crate::decide::Inner;
use crate::error::Fault;
use crate::in_place::InPlace;
use crate::kept::{Lease, NOBODY};
use crate::keys::Spot;
use crate::process::{self, Process};
use crate::root::Root;
use crate::txn::Txn;

impl Inner {
    /// Executes a command on a root that is at hand; `false`: it is not, or more is to be done
    /// than this does, and nothing was changed. One that may wait is not refused here.
    pub(crate) fn decide_at_hand(
        &self,
        command: &KeyCommand<'_>,
        may_wait: bool,
        answer: &mut Answer,
    ) -> Result<bool, StoreError> {
        let followed = self
            .revisions
            .follow(command.plan, command.now, command.calendars);
        followed?;
        let steps = &self.shared.steps;
        let root = command.key.root();
        let spot = Spot::new(steps.segment.seed(), self.number, root);
        let mut txn = steps.begin(spot.shard)?;
        let Some(mut place) = self.at_hand.place(spot) else {
            return Ok(false);
        };
        let Some(mut known) = place.take((spot, root), txn.version(spot.bucket)) else {
            return Ok(false);
        };
        let holder = self.holder(command);
        let is_noted = holder == NOBODY || known.holder == Some(holder);
        if !is_noted || !known.root.is_by(command.plan) {
            return Ok(false);
        }
        let now = match self.shared.clock {
            Clock::Server => txn.now(),
            Clock::Caller => command.now,
        };
        let change = known.root.decide(command, now, answer);
        let is_refused = matches!(change, Change::None) && may_wait;
        if is_refused || matches!(change, Change::Unknown) {
            *answer = Ok(Reply::Done);
            return Ok(false);
        }
        match write(&mut txn, &mut known, (change, holder)) {
            Ok(()) => {}
            // An attempt says so, and takes note of a clock that has stepped back.
            Err(Fault::Full | Fault::Told(StoreError::DuplicateLease)) => {
                *answer = Ok(Reply::Done);
                return Ok(false);
            }
            Err(fault) => return Err(fault.told(|| steps.full())),
        }
        if !known.root.is_large() {
            place.put(known);
        }
        // The next that gets the lock finds it at hand.
        drop(place);
        Ok(true)
    }

    /// With which process a lease ends that the command makes.
    fn holder(&self, command: &KeyCommand<'_>) -> Process {
        match command.verb.terms() {
            Some(_) if self.shared.leases_end_with_process => process::me(),
            _ => NOBODY,
        }
    }
}

/// Writes what has changed; all of it is done then.
fn write(
    txn: &mut Txn<'_>,
    known: &mut Known,
    (change, holder): (Change, Process),
) -> Result<(), Fault> {
    let root = Root::plain(&known.keys);
    let leases = (&mut known.in_place, &mut known.root);
    match change {
        Change::Unknown | Change::None => return Ok(()),
        Change::Taken(None) => {}
        Change::Taken(Some(new)) => add(txn, &root, leases, (new, holder))?,
        Change::Ended(id) => {
            txn.may_use_up();
            end(txn, &root, leases.0.as_mut(), id)?;
        }
    }
    if let Some(moved) = root.write_own_row(txn, &known.row, known.root.row())? {
        known.row = moved;
    }
    txn.commit()?;
    known.version = txn.version(known.keys.bucket);
    Ok(())
}

/// Keeps a new lease, in place if it can stand there.
fn add(
    txn: &mut Txn<'_>,
    root: &Root<'_>,
    (in_place, at_hand): (&mut Option<InPlace>, &mut RootAtHand),
    (new, process): (NewLease, Process),
) -> Result<(), Fault> {
    if may_stand_in_place(root, at_hand, new.id) {
        if in_place.is_none() {
            *in_place = make_place(txn, root, at_hand, (new, process))?;
        }
        if let (Some(place), Some(lease)) = (in_place, at_hand.lease(new.id))
            && place.takes(process, lease.shares.len())
        {
            return place.add(txn, lease, new.sequence);
        }
    }
    let lease = lease_of(at_hand, new, process);
    match root.add_lease(txn, new.id, &lease)? {
        true => Ok(()),
        false => Err(Fault::Told(StoreError::DuplicateLease)),
    }
}

/// Whether no other lease has its id, and it is one of the root's own key: then nothing of it is
/// to be looked for, and its words say all of it.
fn may_stand_in_place(root: &Root<'_>, at_hand: &RootAtHand, id: u128) -> bool {
    let lease = at_hand.lease(id);
    let is_own = lease.is_some_and(|lease| lease.owner.is(root.keys.root()));
    is_own && at_hand.knows_all_leases()
}

/// A record for this lease, and others like it, in place, if they are small.
fn make_place(
    txn: &mut Txn<'_>,
    root: &Root<'_>,
    at_hand: &mut RootAtHand,
    (new, process): (NewLease, Process),
) -> Result<Option<InPlace>, Fault> {
    let shares = at_hand.lease(new.id).map_or(0, |lease| lease.shares.len());
    let bytes = lease_of(at_hand, new, process).encode().len();
    match InPlace::suits(root.keys, bytes) {
        true => InPlace::make(txn, root.keys, (process, shares, bytes)).map(Some),
        false => Ok(None),
    }
}

/// Ends a lease of which nothing is remembered.
fn end(
    txn: &mut Txn<'_>,
    root: &Root<'_>,
    in_place: Option<&mut InPlace>,
    id: u128,
) -> Result<(), Fault> {
    if let Some(place) = in_place
        && place.end(txn, id)?
    {
        return Ok(());
    }
    root.end_lease(txn, id)
}

/// What a record of its own has of a new lease.
fn lease_of(at_hand: &mut RootAtHand, new: NewLease, process: Process) -> Lease<'_> {
    Lease {
        due: new.due,
        sequence: new.sequence,
        process,
        idempotency_key: None,
        record: at_hand.record(new.id),
    }
}
