//! Leases across ancestors, into debt, and of what was not taken at first.

use super::talk::{Scenario, Talk, row};
use crate::talk::{Call, Verb};

pub(super) const SCENARIOS: &[Scenario] = &[
    row("adjust, across ancestors", Verb::Adjust, |talk| {
        let (ann, bob) = users(talk);
        let lease = talk.lease(tree(Verb::Acquire, &ann, 20, 20))?;
        talk.lease(tree(Verb::Acquire, &bob, 50, 50))?;
        // What all of them may have, too much for all, too much for ann.
        for (shared, tokens) in [(40, 40), (60, 50), (45, 61), (50, 60), (10, 10)] {
            talk.say(tree(Verb::Adjust, &ann, shared, tokens).lease(&lease))?;
            talk.say(tree(Verb::Peek, &bob, 1, 1))?;
        }
        for cost in [30, 51] {
            let adjust = Call::of(Verb::Adjust, "tree", &ann).cost(cost);
            talk.say(adjust.lease(&lease))?;
        }
        talk.say(tree(Verb::Peek, &ann, 1, 1)).map(drop)
    }),
    row("adjust, into debt", Verb::Adjust, |talk| {
        let (ann, bob) = users(talk);
        let lease = talk.lease(tree(Verb::Acquire, &ann, 20, 20))?;
        for (shared, tokens) in [(90, 70), (150, 80), (150, 80)] {
            let adjust = tree(Verb::Adjust, &ann, shared, tokens).lease(&lease);
            talk.say(adjust.into_debt())?;
            talk.say(tree(Verb::Peek, &bob, 1, 1))?;
        }
        talk.say(tree(Verb::Check, &bob, 1, 1))?;
        talk.say(tree(Verb::Adjust, &ann, 151, 50).lease(&lease))?;
        // Of what was taken too much, some comes back.
        talk.say(tree(Verb::Adjust, &ann, 70, 30).lease(&lease))?;
        talk.say(tree(Verb::Check, &bob, 20, 20))?;
        talk.say(tree(Verb::Settle, &ann, 110, 65).lease(&lease))?;
        talk.say(tree(Verb::Peek, &ann, 1, 1))?;
        talk.say(tree(Verb::Peek, &bob, 1, 1)).map(drop)
    }),
    row("adjust, of what was not taken", Verb::Adjust, |talk| {
        let of = |verb| Call::of(verb, "both", &talk.key);
        let (acquire, adjust) = (of(Verb::Acquire), of(Verb::Adjust));
        let lease = talk.lease(acquire.amount("input", 20))?;
        for output in [30, 101, 60] {
            let adjust = adjust.clone().lease(&lease);
            talk.say(adjust.amount("output", output))?;
            talk.peek_of("both", "output")?;
        }
        talk.say(Call::of(Verb::Release, "both", &talk.key).lease(&lease))?;
        talk.peek_of("both", "output")
    }),
    row("settle, of what was not taken", Verb::Settle, |talk| {
        let of = |verb| Call::of(verb, "both", &talk.key);
        let (acquire, settle) = (of(Verb::Acquire).amount("input", 20), of(Verb::Settle));
        for output in [30, 110] {
            let lease = talk.lease(acquire.clone())?;
            let settle = settle.clone().lease(&lease);
            let settle = settle.amount("input", 5).amount("output", output);
            talk.say(settle.clone())?;
            talk.say(settle)?;
            talk.peek_of("both", "output")?;
        }
        talk.peek_of("both", "input")
    }),
];

/// Two below one.
fn users(talk: &Talk<'_>) -> (String, String) {
    (format!("{}/ann", talk.key), format!("{}/bob", talk.key))
}

/// So much of what all users share, and of the user's own.
fn tree(verb: Verb, user: &str, shared: u64, tokens: u64) -> Call {
    let call = Call::of(verb, "tree", user);
    call.amount("shared", shared).amount("tokens", tokens)
}
