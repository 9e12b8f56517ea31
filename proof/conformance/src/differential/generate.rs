//! Scripts at random: mostly what a set would send, at times what nobody should.

use tidegate_core::{Amount, MAX_AMOUNT};
use tidegate_store::Detail;

use super::plans::{MAX_LIMITS, PlanData};
use super::script::{Amounts, Deed, EndingData, LeaseData, Of, Script, Step, keys, overridable};
use crate::rng::Rng;

const HOUR: u64 = 3_600_000_000;
/// Beyond what a word reaches from its epoch.
const FIVE_YEARS: u64 = 5 * 366 * 24 * HOUR;

/// The script of a seed: about so many `steps`.
pub(crate) fn script(seed: u64, steps: usize) -> Script {
    let mut rng = Rng::new(seed);
    let plan = PlanData::random(&mut rng);
    let mut author = Author {
        wanders: rng.percent(50),
        changes: rng.percent(60),
        keys: keys(plan.levels).len(),
        newest: plan.clone(),
        uids: MAX_LIMITS as u32,
        given: Vec::new(),
        rng,
    };
    let steps = (0..steps).map(|_| author.step()).collect();
    Script { plan, steps }
}

/// Who writes a script, and what was written so far.
struct Author {
    rng: Rng,
    /// Whether the clock steps back at times.
    wanders: bool,
    /// Whether limits change. Where they do not, stores go their faster ways all along.
    changes: bool,
    keys: usize,
    newest: PlanData,
    /// How many limits there have been.
    uids: u32,
    /// Every lease by its key.
    given: Vec<usize>,
}

impl Author {
    fn step(&mut self) -> Step {
        match self.rng.below(100) {
            0..22 => Step::Pass(self.wait()),
            22..27 if self.wanders => Step::Back(self.step_back()),
            27..30 if self.changes => self.change(),
            30..34 if self.changes => self.change_own(),
            34..39 if self.changes => self.adapt(),
            39..42 => self.batch(),
            42 if self.rng.percent(50) => Step::List(self.of()),
            _ => {
                let key = self.rng.below(self.keys as u64) as usize;
                let (key, deed) = self.deed(key);
                Step::Do(key, deed)
            }
        }
    }

    /// Lengths around the limits' own, so that every boundary is met often.
    fn wait(&mut self) -> u64 {
        match self.rng.below(200) {
            0 => FIVE_YEARS,
            1..4 => HOUR,
            4..30 => self.rng.between(3_000, 20_000),
            _ => self.rng.below(1_500),
        }
    }

    fn step_back(&mut self) -> u64 {
        match self.rng.below(20) {
            0 => 2 * HOUR,
            1..5 => self.rng.between(3_000, 60_000),
            _ => self.rng.between(1, 2_000),
        }
    }

    fn change(&mut self) -> Step {
        self.newest = self.newest.changed(&mut self.rng, self.uids);
        self.uids += 1;
        Step::Change(self.newest.clone())
    }

    fn change_own(&mut self) -> Step {
        let key = *self.rng.pick(overridable(self.newest.levels));
        self.newest = self.newest.overridden(&mut self.rng, key);
        Step::Change(self.newest.clone())
    }

    fn adapt(&mut self) -> Step {
        let capacity = match self.rng.below(20) {
            0 => 1_000_000_000,
            _ => self.rng.between(1, 20),
        };
        Step::Adapt(self.rng.below(MAX_LIMITS as u64) as usize, capacity)
    }

    fn of(&mut self) -> Of {
        let key = self.rng.below(self.keys as u64) as usize;
        match self.rng.below(4) {
            0 => Of::Key(key),
            1 => Of::Beginning(key),
            _ => Of::All,
        }
    }

    fn batch(&mut self) -> Step {
        let items = (0..self.rng.between(1, 8)).map(|_| {
            let key = self.rng.below(self.keys as u64) as usize;
            self.verb(key)
        });
        Step::Batch(items.collect())
    }

    fn deed(&mut self, key: usize) -> (usize, Deed) {
        let deed = match self.rng.below(100) {
            0..73 => return self.verb(key),
            73..79 => Deed::Admit(self.amounts()),
            79..85 => Deed::AdmitOne(self.amount()),
            85..93 => Deed::ByBucket(self.amount()),
            93..96 => Deed::Pin,
            96..98 => Deed::Unpin,
            _ => Deed::Outdated,
        };
        (key, deed)
    }

    /// What a batch may have, too.
    fn verb(&mut self, key: usize) -> (usize, Deed) {
        let deed = match self.rng.below(73) {
            0..16 => self.take(None),
            16..40 => {
                let lease = self.lease(key);
                self.take(Some(lease))
            }
            40..46 => Deed::Debit(self.amounts()),
            46..50 => Deed::Peek(self.amounts()),
            50..64 => return self.end(),
            64..67 => return self.renew(),
            67..71 => return self.adjust(),
            _ => Deed::Reset,
        };
        (key, deed)
    }

    fn take(&mut self, lease: Option<LeaseData>) -> Deed {
        Deed::Take {
            amounts: self.amounts(),
            lease,
            detail: self.detail(),
        }
    }

    fn detail(&mut self) -> Detail {
        let details = [Detail::Verdict, Detail::OnRefusal, Detail::Always];
        *self.rng.pick(&details)
    }

    fn lease(&mut self, key: usize) -> LeaseData {
        self.given.push(key);
        let newest = self.given.len() as u64;
        // At times an id that the key was given before, which nobody draws twice.
        let again = self.rng.between(1, newest);
        let known = self.given[again as usize - 1] == key && self.rng.percent(10);
        let id = if known { again } else { newest };
        let repeats = self.rng.percent(25);
        let is_partial = !repeats && self.rng.percent(25);
        let least = is_partial.then(|| [(); MAX_LIMITS].map(|()| self.rng.below(4)));
        LeaseData {
            id,
            ttl: self.ttl(),
            idempotency: repeats.then(|| [self.rng.below(3) as u8]),
            least,
        }
    }

    /// Mostly about as long as the limits' own; at times it outlasts what else is done.
    fn ttl(&mut self) -> u64 {
        match self.rng.percent(40) {
            true => self.rng.between(6_000, 100_000),
            false => self.rng.between(1, 6_000),
        }
    }

    fn end(&mut self) -> (usize, Deed) {
        let (key, id) = self.given();
        let ending = match self.rng.below(8) {
            0 => EndingData::Release,
            1 => EndingData::Fail((0..MAX_LIMITS).map(|_| self.rng.percent(50)).collect()),
            2 => EndingData::Cancel,
            _ => EndingData::Settle((0..MAX_LIMITS).map(|_| self.used()).collect()),
        };
        let remember = self.rng.percent(50);
        let deed = Deed::End {
            id,
            ending,
            remember,
        };
        (key, deed)
    }

    fn renew(&mut self) -> (usize, Deed) {
        let (key, id) = self.given();
        let ttl = self.rng.between(1, 8_000);
        (key, Deed::Renew { id, ttl })
    }

    fn adjust(&mut self) -> (usize, Deed) {
        let (key, id) = self.given();
        let to = (0..MAX_LIMITS).map(|_| self.used()).collect();
        let overdraw = self.rng.percent(30);
        let deed = Deed::Adjust {
            id,
            to,
            overdraw,
            detail: self.detail(),
        };
        (key, deed)
    }

    /// A lease given lately, with its key, or seldom with another's.
    fn given(&mut self) -> (usize, u64) {
        let count = self.given.len() as u64;
        let before = match self.rng.percent(50) {
            true => self.rng.below(2),
            false => self.rng.below(8),
        };
        let id = count.saturating_sub(before).max(1);
        let own = self.given.get(id as usize - 1).copied();
        match own {
            Some(key) if !self.rng.percent(3) => (key, id),
            _ => (self.rng.below(self.keys as u64) as usize, id),
        }
    }

    fn used(&mut self) -> Option<Amount> {
        self.rng.percent(75).then(|| self.amount())
    }

    fn amounts(&mut self) -> Amounts {
        (0..MAX_LIMITS).map(|_| self.amount()).collect()
    }

    fn amount(&mut self) -> Amount {
        match self.rng.below(100) {
            0 => MAX_AMOUNT,
            1..20 => 0,
            20..85 => self.rng.between(1, 3),
            _ => self.rng.between(1, 14),
        }
    }
}
