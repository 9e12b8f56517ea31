//! One attempt at a job, and the leases that it let go of.
//!
//! When a job drops a lease it is not known yet whether it will fail. So the
//! attempt keeps it until the job asks for the next one (then its work went
//! well) or is over, and ends it by what became of the job.

use tidegate_store::sync::Mutex;

use crate::lease::Lease;

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Succeeded,
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Attempt(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    over: Option<Fate>,
    let_go: Vec<Lease>,
}

impl Attempt {
    /// Takes a lease that the job has dropped.
    pub(super) fn let_go(&self, lease: Lease) {
        let mut state = self.0.lock();
        match state.over {
            None => state.let_go.push(lease),
            Some(fate) => {
                drop(state);
                end(lease, fate);
            }
        }
    }

    /// The job goes on to something else: what it let go of is given back.
    pub(super) fn goes_on(&self) {
        drop(self.take());
    }

    /// The job is over: gives back what it let go of, by what became of it.
    pub(super) fn over(&self, fate: Fate) {
        self.0.lock().over = Some(fate);
        for lease in self.take() {
            end(lease, fate);
        }
    }

    /// No lock is held while leases end: that wakes others.
    fn take(&self) -> Vec<Lease> {
        std::mem::take(&mut self.0.lock().let_go)
    }
}

fn end(mut lease: Lease, fate: Fate) {
    if fate == Fate::Failed {
        lease.fail();
    }
}

/// Nobody will say what became of a job whose task was dropped.
impl Drop for Attempt {
    fn drop(&mut self) {
        self.over(Fate::Failed);
    }
}
