//! Goes through every history, and says what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};
use tidegate_store::core::Amount;

use crate::fleet::{Action, BOUND, Fleet, STORE};
use crate::instance::{Instance, Limit};

/// What came of it.
#[derive(Debug)]
pub struct Found {
    /// How many states there are.
    pub states: usize,
    /// The longest of the shortest ways to one, about.
    pub depth: usize,
    /// The most that was admitted.
    pub most: Amount,
    /// What may be.
    pub bound: Amount,
    /// How long it took.
    pub took: Duration,
    /// How more than the bound was admitted, if it was.
    pub beyond: Option<Vec<Action>>,
    /// How the store granted more than its limit has, if it did.
    pub owes: Option<Vec<Action>>,
}

impl Found {
    /// Whether the bound holds and is reached; with a safeguard off, whether it was found not
    /// to hold. A bucket's is reached but for a tick: a grant is over before its hold is.
    #[must_use]
    pub fn is_as_it_should_be(&self, instance: &Instance) -> bool {
        let reaches = match instance.limit {
            Limit::Window { .. } => self.bound,
            Limit::Bucket { rate, .. } => self.bound - rate,
        };
        self.owes.is_none()
            && match instance.off {
                None => self.beyond.is_none() && self.most == reaches,
                Some(_) => self.beyond.is_some() && self.most > self.bound,
            }
    }
}

/// Tells how far it has come, every so often.
struct Progress<'w, W> {
    out: &'w mut W,
    every: Duration,
    took: Duration,
    told: Duration,
}

impl<W: Write> Reporter<Fleet> for Progress<'_, W> {
    fn report_checking(&mut self, data: ReportData) {
        self.took = data.duration;
        if data.done || data.duration < self.told + self.every {
            return;
        }
        self.told = data.duration;
        let (states, seconds) = (data.unique_states, data.duration.as_secs());
        // Who does not read it does without.
        let _ = writeln!(self.out, "  {states} states after {seconds} s");
    }

    fn report_discoveries(&mut self, _: &Fleet, _: BTreeMap<&'static str, ReportDiscovery<Fleet>>) {
    }

    fn delay(&self) -> Duration {
        self.every.min(Duration::from_millis(50))
    }
}

/// Every history of `instance`, by so many threads, telling `out` `every` so often how far it
/// has come. Unless [all is calm](Instance::is_calm) it ends with the first that admits too much.
pub fn explore(
    instance: &Instance,
    threads: usize,
    (out, every): (&mut impl Write, Duration),
) -> Found {
    let mut progress = Progress {
        out,
        every,
        took: Duration::ZERO,
        told: Duration::ZERO,
    };
    let checker = Fleet::new(instance.clone()).checker().threads(threads);
    // How much is admitted is of interest where all is calm; else that too much is.
    let checker = checker.finish_when(match instance.is_calm {
        true => HasDiscoveries::All,
        false => HasDiscoveries::AnyFailures,
    });
    let checker = checker.spawn_bfs().report(&mut progress);
    let way = |name| checker.discovery(name).map(|path| path.into_actions());
    Found {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        most: checker.model().most(),
        bound: instance.bound(),
        took: progress.took,
        beyond: way(BOUND),
        owes: way(STORE),
    }
}
