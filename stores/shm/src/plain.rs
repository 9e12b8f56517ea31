//! The fast path: a plain command on a root that this process has at hand. It is decided by
//! the core on what is at hand, and what has changed is written where it stands.

use tidegate_store::optimistic::{Change, Clock, NewLease};
use tidegate_store::{Answer, KeyCommand, Reply, StoreError};

use crate::at_hand::Known;
use crate::decide::Inner;
use crate::error::Fault;
use crate::kept::{Lease, NOBODY};
use crate::keys::RootKeys;
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
        let keys = RootKeys::new(steps.segment.seed(), self.number, command.key.root());
        let mut txn = steps.begin(keys.shard)?;
        let Some(mut place) = self.at_hand.place(&keys) else {
            return Ok(false);
        };
        let Some(mut known) = place.take(&keys, txn.version(keys.bucket)) else {
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
        match self.write(&mut txn, &keys, &mut known, (change, holder)) {
            Ok(()) => {}
            Err(Fault::Full) => {
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

    /// Writes what has changed; all of it is done then.
    fn write(
        &self,
        txn: &mut Txn<'_>,
        keys: &RootKeys,
        known: &mut Known,
        (change, holder): (Change, Process),
    ) -> Result<(), Fault> {
        let root = Root::plain(keys);
        match change {
            Change::Unknown | Change::None => return Ok(()),
            Change::Taken(None) => {}
            Change::Taken(Some(new)) => add(txn, &root, known, (new, holder))?,
            Change::Ended(id) => {
                txn.may_use_up();
                root.end_lease(txn, id)?;
            }
        }
        known.row = root.write_own_row(txn, known.row, known.root.row())?;
        txn.commit()?;
        known.version = txn.version(keys.bucket);
        Ok(())
    }
}

fn add(
    txn: &mut Txn<'_>,
    root: &Root<'_>,
    known: &mut Known,
    (new, process): (NewLease, Process),
) -> Result<(), Fault> {
    let lease = Lease {
        due: new.due,
        sequence: new.sequence,
        process,
        idempotency_key: None,
        record: known.root.record(new.id),
    };
    match root.add_lease(txn, new.id, &lease)? {
        true => Ok(()),
        false => Err(Fault::Told(StoreError::DuplicateLease)),
    }
}
