//! Several limits, of several keys, as one step: all or nothing.
//!
//! [`compose`] asks every part and charges none; [`commit`] charges every
//! part. A store calls the second only after the first admitted, under the
//! same lock. A *shadow* part is decided and recorded but refuses nobody.

use crate::amount::Amount;
use crate::charge::{DecisionTime, LeaseTerm, Receipt};
use crate::rule::{Rule, State};
use crate::verdict::Verdict;

/// How a cost is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Payment {
    /// The whole amount must fit.
    #[default]
    Prepaid,
    /// Admitted while one unit is left; the crossing one counts in full.
    Postpaid,
}

impl Payment {
    /// How much of `amount` must fit for it to be admitted.
    #[inline]
    #[must_use]
    pub fn must_fit(self, amount: Amount) -> Amount {
        match self {
            Self::Prepaid => amount,
            Self::Postpaid => amount.min(1),
        }
    }
}

/// One limit's share in a step.
#[derive(Debug)]
pub struct Part<'a> {
    /// The limit.
    pub rule: &'a Rule,
    /// Its state for the key in question.
    pub state: &'a mut State,
    /// What is asked of it; 0 leaves it out.
    pub amount: Amount,
    /// How the amount is admitted.
    pub payment: Payment,
    /// Decide and record, but refuse nobody.
    pub shadow: bool,
    /// When, by this limit's calendar.
    pub time: DecisionTime,
    /// This part's own answer, filled in by [`compose`].
    pub verdict: Verdict,
    /// This part's receipt, filled in by [`commit`].
    pub receipt: Receipt,
}

/// The answer of several limits together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Composite {
    /// Admitted only if every part (but shadows) admits; else the latest instant.
    pub verdict: Verdict,
    /// The part that binds: the one whose refusal lasts longest.
    pub binding: Option<usize>,
}

impl<'a> Part<'a> {
    /// A prepaid part that may refuse.
    #[must_use]
    pub fn new(rule: &'a Rule, state: &'a mut State, amount: Amount, time: DecisionTime) -> Self {
        Self {
            rule,
            state,
            amount,
            payment: Payment::Prepaid,
            shadow: false,
            time,
            verdict: Verdict::Admit,
            receipt: Receipt::default(),
        }
    }

    fn quote(&mut self) -> Verdict {
        self.rule.observe(self.state, &self.time);
        let must_fit = self.payment.must_fit(self.amount);
        if self.amount > 0 {
            self.verdict = self.rule.quote(self.state, must_fit, &self.time);
        }
        self.verdict
    }
}

/// Asks every part and charges none: after a refusal every state answers as it
/// would have, had nobody asked.
///
/// One thing is written even then: that the clock stepped back by more than the
/// limit's own refill ([`Rule::observe`]). Whoever asks next at this instant
/// would write the same; not to write it would put off the end of every refusal
/// again at each refusal, until the clock was back where it had stood. On a
/// clock that never steps back by so much no state changes at all.
pub fn compose(parts: &mut [Part<'_>]) -> Composite {
    let mut answer = Composite {
        verdict: Verdict::Admit,
        binding: None,
    };
    for (index, part) in parts.iter_mut().enumerate() {
        let verdict = part.quote();
        if !part.shadow && verdict.outlasts(answer.verdict) {
            answer = Composite {
                verdict,
                binding: Some(index),
            };
        }
    }
    answer
}

/// Charges every part: what was asked, where it was admitted. A shadow that
/// would have refused is not charged, so that it goes on as if it had.
pub fn commit(parts: &mut [Part<'_>], term: Option<LeaseTerm>) {
    for part in parts.iter_mut().filter(|p| p.amount > 0) {
        if part.verdict.admitted() {
            part.receipt = part.rule.charge(part.state, part.amount, &part.time, term);
        }
    }
}
