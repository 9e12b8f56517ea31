//! Namespaces: created, deleted, restored, purged.

use std::time::Duration;

use super::both::{Both, Setting, row};
use crate::questions::common::{expect, until};
use crate::talk::{Answer, Call, Verb, Word};

/// A deleted namespace is purged ten seconds after a server has heard of it; a busy machine takes
/// longer.
const PURGED: Duration = Duration::from_secs(40);

pub(super) const SETTINGS: &[Setting] = &[
    row("namespace created", Verb::CreateNamespace, |both| {
        let check = both.within();
        both.other_says(&Word::Gone, &check)?;
        both.done(&both.of(Verb::CreateNamespace))?;
        both.until_other("it knows the namespace", &check, Answer::admitted)?;
        // Both count the same there, and another at home.
        let answer = both.one.ask(&check)?;
        expect(answer.word == Word::Refused, || format!("{answer:?}"))?;
        let mut home = check.clone();
        home.namespace = None;
        both.other_says(&Word::Admitted, &home)?;
        let answer = both.one.ask(&home)?;
        expect(answer.word == Word::Refused, || format!("{answer:?}"))
    }),
    row("namespace deleted", Verb::DeleteNamespace, |both| {
        both.used()?;
        both.done(&both.of(Verb::DeleteNamespace))?;
        let check = both.within();
        let answer = both.one.ask(&check)?;
        expect(answer.word == Word::Gone, || format!("{answer:?}"))?;
        both.until_other("it refuses all there", &check, |said| {
            said.word == Word::Gone
        })
    }),
    row("namespace restored", Verb::RestoreNamespace, |both| {
        both.used()?;
        let check = both.within();
        both.done(&both.of(Verb::DeleteNamespace))?;
        both.until_other("it refuses all there", &check, |said| {
            said.word == Word::Gone
        })?;
        both.done(&both.of(Verb::RestoreNamespace))?;
        both.until_other("it goes on where it was", &check, |said| {
            said.word == Word::Refused
        })
    }),
    row("namespace purged", Verb::PurgeNamespace, |both| {
        both.used()?;
        let (check, purge) = (both.within(), both.of(Verb::PurgeNamespace));
        both.done(&both.of(Verb::DeleteNamespace))?;
        both.until_other("it refuses all there", &check, |said| {
            said.word == Word::Gone
        })?;
        let (purges, one) = (both.purges, &mut both.one);
        until("it is purged, or cannot be", PURGED, || {
            let said = one.ask(&purge)?;
            Ok(match purges {
                true => said.facts.get("done").is_some_and(|done| done == "true"),
                false => said.word == Word::Invalid,
            })
        })?;
        let shown = both.of(Verb::ShowNamespace);
        if !purges {
            // Nothing has changed.
            let said = both.other_says(&Word::Done, &shown)?;
            let state = said.facts.values().next();
            return expect(state.is_some_and(|state| state == "deleted"), || {
                format!("{said:?}")
            });
        }
        both.until_other("it is gone", &shown, |said| said.word == Word::Gone)?;
        both.done(&both.of(Verb::CreateNamespace))?;
        both.until_other("it begins anew", &check, Answer::admitted)
    }),
    row("namespaces listed", Verb::ListNamespaces, |both| {
        both.done(&both.of(Verb::CreateNamespace))?;
        let list = Call::of(Verb::ListNamespaces, "", "");
        let fact = format!("namespace {}", both.name());
        let is = |said: &Answer, state| said.facts.get(&fact).is_some_and(|found| found == state);
        both.until_other("it lists the namespace", &list, |said| is(said, "active"))?;
        both.done(&both.of(Verb::DeleteNamespace))?;
        both.until_other("it lists it as deleted", &list, |said| is(said, "deleted"))
    }),
];

impl Both<'_> {
    fn name(&self) -> String {
        self.key.replace(' ', "-")
    }

    fn of(&self, verb: Verb) -> Call {
        Call::of(verb, "", &self.name())
    }

    /// All that its key has in the namespace.
    fn within(&self) -> Call {
        let check = Call::of(Verb::Check, "told", &self.key).amount("units", 10);
        check.within(&self.name())
    }

    /// Created, and the key used up at the other server.
    fn used(&mut self) -> Result<(), String> {
        self.done(&self.of(Verb::CreateNamespace))?;
        let check = self.within();
        // It asks the store for a name that it has never heard.
        self.other_says(&Word::Admitted, &check)?;
        self.other_says(&Word::Refused, &check).map(drop)
    }
}
