//! What a job sees of who does it.

use std::sync::Arc;

use super::attempt::{Attempt, Fate};
use super::limits::Limits;
use crate::pool::LimitPool;

/// The worker that does a job, at one attempt.
#[derive(Debug)]
pub struct Worker {
    /// The limits it works within, whatever the workers were given; with
    /// nothing given they admit everything.
    pub limits: Limits,
    number: usize,
    attempt: u32,
}

impl Worker {
    pub(super) fn new(pool: &LimitPool, number: usize, attempt: u32) -> Self {
        Self {
            limits: Limits::new(pool.clone(), Arc::new(Attempt::default())),
            number,
            attempt,
        }
    }

    /// Which of the workers it is, from 0.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// How often this job has failed before: 0 at the first attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Gives back everything that the attempt has let go of.
    pub(super) fn over(limits: &Limits, fate: Fate) {
        limits.attempt().over(fate);
    }
}
