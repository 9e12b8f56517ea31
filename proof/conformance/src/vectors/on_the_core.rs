//! The core as a player of tables.

use tidegate_core::{
    ChargeReference, DecisionTime, LeaseTerm, Part, Payment, Rule, Span, State, Verdict, commit,
    compose,
};

use super::table::{Deed, Step, Table};

/// A limit, its state, and what each step so far charged.
struct Limit<'t> {
    rule: &'t Rule,
    payment: Payment,
    ttl: Span,
    state: State,
    charged: Vec<(ChargeReference, LeaseTerm)>,
}

/// Plays `table`.
pub(super) fn play(table: &Table) {
    let mut limit = Limit {
        rule: &table.rule,
        payment: match table.postpaid {
            true => Payment::Postpaid,
            false => Payment::Prepaid,
        },
        ttl: match &table.rule {
            Rule::Slots(slots) => slots.ttl(),
            _ => Span::ZERO,
        },
        state: State::Fresh,
        charged: Vec::new(),
    };
    for step in &table.steps {
        let answer = limit.act(step);
        let standing = table
            .rule
            .standing(&limit.state, &DecisionTime::at(step.at));
        step.must_be(answer, &standing, "");
    }
}

impl Limit<'_> {
    fn act(&mut self, step: &Step) -> Option<Verdict> {
        let time = DecisionTime::at(step.at);
        let term = LeaseTerm {
            id: self.charged.len() as u128,
            expires_at: time.now + self.ttl,
        };
        let mut reference = ChargeReference::default();
        let answer = match step.deed {
            Deed::Request(amount) => Some(self.ask(amount, time, Some(term), &mut reference)),
            Deed::Peek(amount) => Some(self.ask(amount, time, None, &mut reference)),
            Deed::Charge(amount) => {
                let state = &mut self.state;
                reference = self.rule.charge(state, amount, &time, Some(term)).reference;
                None
            }
            Deed::Refund(earlier, amount) => {
                let (reference, _) = self.charged[earlier];
                self.rule.refund(&mut self.state, amount, reference, &time);
                None
            }
            Deed::Release(earlier) => {
                let (_, term) = self.charged[earlier];
                self.rule.release(&mut self.state, term, time.now);
                None
            }
        };
        self.charged.push((reference, term));
        answer
    }

    /// Asks; takes it for `term`, if there is one and it fits.
    fn ask(
        &mut self,
        amount: u64,
        time: DecisionTime,
        term: Option<LeaseTerm>,
        reference: &mut ChargeReference,
    ) -> Verdict {
        let mut part = Part::new(self.rule, &mut self.state, amount, time);
        part.payment = self.payment;
        let mut parts = [part];
        let verdict = compose(&mut parts).verdict;
        if verdict.admitted() && term.is_some() {
            commit(&mut parts, term);
            *reference = parts[0].receipt.reference;
        }
        verdict
    }
}
