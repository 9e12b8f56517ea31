//! Limits as lists of grants, with no cleverness: every question goes through
//! the whole history. Shares no code with the core.

/// One charge that was made.
#[derive(Clone, Debug)]
struct Grant {
    at: i128,
    amount: i128,
    /// The lease it was made for.
    lease: usize,
    /// Until when, where it is held.
    until: Option<i128>,
}

/// What a model counts, with its numbers in units and microseconds.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `amount` per `period`, at most the capacity at once.
    Bucket {
        /// Units per period.
        amount: i128,
        /// Its length.
        period: i128,
    },
    /// So much in each `period` of the epoch.
    Window {
        /// Its length.
        period: i128,
    },
    /// So much in every `steps` + 1 sub-windows of `step`.
    Ring {
        /// A sub-window's length.
        step: i128,
        /// How many make a window.
        steps: i128,
    },
    /// So much in every rolling `window`.
    Log {
        /// Its length.
        window: i128,
    },
    /// So much held at once.
    Slots,
}

/// A limit with its whole history.
#[derive(Clone, Debug)]
pub struct Model {
    shape: Shape,
    capacity: i128,
    grants: Vec<Grant>,
}

impl Model {
    /// A limit that was never used.
    #[must_use]
    pub fn new(shape: Shape, capacity: u64) -> Self {
        Self {
            shape,
            capacity: i128::from(capacity),
            grants: Vec::new(),
        }
    }

    /// Whether `amount` fits at `now`.
    #[must_use]
    pub fn fits(&self, amount: u64, now: i64) -> bool {
        amount == 0 || i128::from(amount) * self.scale() <= self.free(i128::from(now))
    }

    /// Whole units free at `now`.
    #[must_use]
    pub fn remaining(&self, now: i64) -> u64 {
        let free = self.free(i128::from(now)).max(0) / self.scale();
        u64::try_from(free).expect("a model's numbers are small")
    }

    /// Charges `amount` at `now`; a held one to `lease` until `until`.
    pub fn charge(&mut self, amount: u64, now: i64, lease: usize, until: i64) {
        let until = matches!(self.shape, Shape::Slots).then_some(i128::from(until));
        if amount > 0 {
            self.grants.push(Grant {
                at: i128::from(now),
                amount: i128::from(amount),
                lease,
                until,
            });
        }
    }

    /// `lease` took `taken` and used `used`: the difference comes back to
    /// where it was taken from, or is charged now; what is held comes back.
    pub fn settle(&mut self, lease: usize, taken: u64, used: u64, now: i64) {
        if let Shape::Slots = self.shape {
            self.grants.retain(|grant| grant.lease != lease);
        } else if used > taken {
            self.charge(used - taken, now, lease, 0);
        } else if used < taken {
            self.give_back(i128::from(taken - used), lease);
        }
    }

    /// As if it had never been taken: what of it has gone by then, drained or
    /// out of its window, comes back by itself.
    fn give_back(&mut self, amount: i128, lease: usize) {
        let taken = self.grants.iter_mut().find(|grant| grant.lease == lease);
        taken.expect("it was charged").amount -= amount;
    }

    /// What is free at `now`, in units times the scale.
    fn free(&self, now: i128) -> i128 {
        let used: i128 = match &self.shape {
            Shape::Bucket { .. } => return self.capacity * self.scale() - self.level(now),
            Shape::Window { period } => {
                self.sum(|g| g.at.div_euclid(*period) == now.div_euclid(*period))
            }
            Shape::Ring { step, steps } => {
                let oldest = now.div_euclid(*step) - steps;
                self.sum(|g| g.at.div_euclid(*step) >= oldest)
            }
            Shape::Log { window } => self.sum(|g| g.at + window > now),
            Shape::Slots => self.sum(|g| g.until.is_some_and(|until| until > now)),
        };
        self.capacity - used
    }

    fn sum(&self, counts: impl Fn(&Grant) -> bool) -> i128 {
        self.grants
            .iter()
            .filter(|g| counts(g))
            .map(|g| g.amount)
            .sum()
    }

    /// A bucket's level: every grant so far, drained in between.
    fn level(&self, now: i128) -> i128 {
        let Shape::Bucket { amount, period, .. } = self.shape else {
            return 0;
        };
        let (mut level, mut at) = (0, i128::MIN / 4);
        for grant in &self.grants {
            level = (level - (grant.at - at).saturating_mul(amount)).max(0);
            level += grant.amount * period;
            at = grant.at;
        }
        (level - (now - at).saturating_mul(amount)).max(0)
    }

    /// What one unit weighs: a bucket counts in units times its period.
    fn scale(&self) -> i128 {
        match self.shape {
            Shape::Bucket { period, .. } => period,
            _ => 1,
        }
    }
}
