//! A table as data, and what each of its steps must come to.

use tidegate_core::{Amount, Rule, Span, Standing, Timestamp, Verdict};

/// A limit that was never seen, and what is done to it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rule: Rule,
    /// Whether its requests are admitted while one unit is left.
    pub(super) postpaid: bool,
    pub(super) steps: Vec<Step>,
}

/// One line of a table.
#[derive(Debug)]
pub(super) struct Step {
    /// File and line.
    pub(super) place: String,
    pub(super) at: Timestamp,
    pub(super) deed: Deed,
    /// `None` for what is not requested.
    pub(super) answer: Option<Verdict>,
    pub(super) remaining: Amount,
    pub(super) debt: Amount,
}

/// What a step does. Earlier steps are named by their number in the table, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    /// Take it if it fits, or while one unit is left where that is enough.
    Request(Amount),
    Peek(Amount),
    Charge(Amount),
    Refund(usize, Amount),
    Release(usize),
}

impl Step {
    /// Compares what came of it.
    ///
    /// # Panics
    /// With the place, if it is not as written.
    pub(super) fn must_be(&self, answer: Option<Verdict>, standing: &Standing, how: &str) {
        let place = &self.place;
        assert_eq!(answer, self.answer, "{place}: the answer{how}");
        assert_eq!(
            standing.remaining, self.remaining,
            "{place}: what remains{how}"
        );
        assert_eq!(standing.debt, self.debt, "{place}: the debt{how}");
    }
}

impl Table {
    /// Whether some step cannot be told through a store's contract: there a charge is
    /// for no lease, so that nothing of it comes back, and a lease ends once.
    pub(super) fn is_for_the_core_alone(&self) -> bool {
        let ended: Vec<_> = self.ended().collect();
        ended.iter().enumerate().any(|(nth, &step)| {
            matches!(self.steps[step].deed, Deed::Charge(_)) || ended[..nth].contains(&step)
        })
    }

    /// Whether a step gives back what an earlier one took.
    pub(super) fn needs_leases(&self) -> bool {
        self.rule.is_held() || self.ended().next().is_some()
    }

    /// Whether its clock steps back by more than `span`.
    pub(super) fn steps_back_by_more_than(&self, span: Span) -> bool {
        let mut latest = Timestamp::MIN;
        self.steps.iter().any(|step| {
            latest = latest.max(step.at);
            latest.since(step.at) > span
        })
    }

    /// The earlier steps that are given back, in order.
    fn ended(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| match step.deed {
            Deed::Refund(earlier, _) | Deed::Release(earlier) => Some(earlier),
            _ => None,
        })
    }
}
