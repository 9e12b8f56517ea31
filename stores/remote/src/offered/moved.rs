//! Amounts and answers, from the places of one plan to those of another.
//!
//! The table's plan may have limits that a user's has not: nothing is asked of them, and
//! nothing said.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Bounds};
use tidegate_store::{Decision, Ending, OwnedVerb, Reply, Terms, Verb};

/// For each limit of a user's plan its place in the table's; `None`: the same.
#[derive(Clone, Debug)]
pub(super) struct Places {
    places: Option<Arc<[usize]>>,
    /// So many limits the table's plan has.
    count: usize,
}

impl Places {
    /// That both have the same places.
    pub(super) const fn same(count: usize) -> Self {
        Self {
            places: None,
            count,
        }
    }

    pub(super) fn new(places: Vec<usize>, count: usize) -> Self {
        Self {
            places: Some(places.into()),
            count,
        }
    }

    /// `theirs`, in the table's places; where there is none, `else`.
    fn spread<T: Copy>(&self, theirs: &[T], otherwise: T) -> Vec<T> {
        let Some(places) = &self.places else {
            return theirs.to_vec();
        };
        let mut ours = vec![otherwise; self.count];
        for (&place, &one) in places.iter().zip(theirs) {
            ours[place] = one;
        }
        ours
    }

    pub(super) fn calendars(&self, theirs: &[Option<Bounds>]) -> Vec<Option<Bounds>> {
        self.spread(theirs, None)
    }

    pub(super) fn verb(&self, verb: OwnedVerb) -> OwnedVerb {
        if self.places.is_none() {
            return verb;
        }
        let amounts = |amounts: &[Amount]| self.spread(amounts, 0);
        match verb.lend() {
            Verb::Take {
                amounts: taken,
                lease,
                detail,
            } => {
                let least = lease.and_then(|terms| terms.least).map(amounts);
                OwnedVerb::of(Verb::Take {
                    amounts: &amounts(taken),
                    lease: lease.map(|terms| Terms {
                        least: least.as_deref(),
                        ..terms
                    }),
                    detail,
                })
            }
            Verb::Debit { amounts: charged } => OwnedVerb::of(Verb::Debit {
                amounts: &amounts(charged),
            }),
            Verb::Peek { amounts: asked } => OwnedVerb::of(Verb::Peek {
                amounts: &amounts(asked),
            }),
            Verb::End {
                id,
                ending,
                remember,
            } => {
                let (used, refunds);
                let ending = match ending {
                    Ending::Settle(theirs) => {
                        used = self.spread(theirs, None);
                        Ending::Settle(&used)
                    }
                    Ending::Fail(theirs) => {
                        refunds = self.spread(theirs, false);
                        Ending::Fail(&refunds)
                    }
                    ending => ending,
                };
                OwnedVerb::of(Verb::End {
                    id,
                    ending,
                    remember,
                })
            }
            Verb::Adjust {
                id,
                to,
                overdraw,
                detail,
            } => OwnedVerb::of(Verb::Adjust {
                id,
                to: &self.spread(to, None),
                overdraw,
                detail,
            }),
            verb @ (Verb::Renew { .. } | Verb::Reset) => OwnedVerb::of(verb),
        }
    }

    /// What the table answered, in the user's places.
    pub(super) fn reply(&self, reply: &mut Reply) {
        let Some(places) = &self.places else { return };
        match reply {
            Reply::Decision(decision) => decided(places, decision),
            Reply::Partial(partial) => {
                decided(places, &mut partial.decision);
                partial.amounts = gathered(places, &partial.amounts, 0);
            }
            Reply::Batch(answers) => {
                for reply in answers.iter_mut().flatten() {
                    self.reply(reply);
                }
            }
            _ => {}
        }
    }
}

fn decided(places: &[usize], decision: &mut Decision) {
    if !decision.standings.is_empty() {
        decision.standings = gathered(places, &decision.standings, None);
    }
    let binding = decision.binding;
    decision.binding = places.iter().position(|place| Some(*place) == binding);
}

fn gathered<A>(places: &[usize], ours: &[A::Item], otherwise: A::Item) -> SmallVec<A>
where
    A: smallvec::Array,
    A::Item: Copy,
{
    let theirs = places.iter().map(|place| ours.get(*place).copied());
    theirs.map(|one| one.unwrap_or(otherwise)).collect()
}
