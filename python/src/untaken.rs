//! What was granted, until Python has it.

use tidegate::internal::LeaseInternals;
use tidegate::{Admission, Lease};

/// What was decided. A grant that nobody takes (Ctrl-C came first, or a balancer has raised) is given
/// back whole, rates too: its work did not begin.
pub(crate) struct Untaken(Option<Admission>);

impl Untaken {
    pub(crate) const fn new(admission: Admission) -> Self {
        Self(Some(admission))
    }

    pub(crate) const fn lease(&mut self) -> Option<&mut Lease> {
        match &mut self.0 {
            Some(Admission::Granted(lease)) => Some(lease),
            _ => None,
        }
    }

    /// It is somebody's from here on.
    pub(crate) fn take(mut self) -> Admission {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(Admission::Granted(lease)) = self.0.take() {
            lease.cancel_unseen();
        }
    }
}
