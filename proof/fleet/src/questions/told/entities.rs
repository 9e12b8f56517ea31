//! Entities: created, moved, changed, deleted.

use super::both::{Both, Setting, row};
use crate::questions::common::expect;
use crate::talk::{Answer, Call, Verb, Word};

pub(super) const SETTINGS: &[Setting] = &[
    row("entity created", Verb::CreateEntity, |both| {
        let root = both.key.clone();
        let check = Call::of(Verb::Check, "deep", &format!("{root} ann")).by_id();
        both.other_says(&Word::Gone, &check)?;
        both.staff()?;
        both.until_other("it knows her", &check, Answer::admitted)?;
        expect_left(&both.other.ask(&peek(&check))?, "org", 5)
    }),
    row("entity moved", Verb::ChangeEntity, |both| {
        let [_, ads, ann] = both.staff()?;
        let check = Call::of(Verb::Check, "deep", &ann).by_id();
        let seen = both.other_says(&Word::Admitted, &check)?;
        expect_left(&seen, "team", 9)?;
        both.done(&Call::entity(Verb::ChangeEntity, &ann).below(&ads))?;
        both.until_other("she is in the other team", &peek(&check), |said| {
            said.number("team.remaining") == Some(10)
        })?;
        // What she has used goes with her, and the next is the new team's.
        let seen = both.other_says(&Word::Admitted, &check)?;
        expect_left(&seen, "user", 6)?;
        expect_left(&seen, "team", 9)?;
        let seen = both.one.ask(&peek(&check))?;
        expect_left(&seen, "team", 9)
    }),
    row("entity moved, of its parent", Verb::ChangeEntity, |both| {
        let [_, ads, team] = both.staff()?;
        let ann = format!("{} in {team}", both.key);
        both.done(&Call::entity(Verb::CreateEntity, &ann).below(&team))?;
        let check = Call::of(Verb::Check, "deeper", &ann).by_id();
        let seen = both.other_says(&Word::Admitted, &check)?;
        expect_left(&seen, "unit", 9)?;
        both.done(&Call::entity(Verb::ChangeEntity, &team).below(&ads))?;
        both.until_other("she is in the other unit", &peek(&check), |said| {
            said.number("unit.remaining") == Some(10)
        })?;
        let shown = Call::entity(Verb::ShowEntity, &ann);
        let ancestors = format!("{} > {ads} > {team}", both.key);
        both.until_other("it shows where she is", &shown, |said| {
            said.facts.get("ancestors") == Some(&ancestors)
        })
    }),
    row(
        "entity moved, with its limits",
        Verb::ChangeEntity,
        |both| {
            let [_, ads, ann] = both.staff()?;
            let name = format!("/{}//{ann}", both.key);
            let set = Call::of(Verb::SetOverride, "deep", &name).amount("user", 2);
            both.done(&set.measured("calls", "400d"))?;
            let check = Call::of(Verb::Check, "deep", &ann).by_id();
            both.until_other("it has her limit", &peek(&check), |said| {
                said.number("user.limit") == Some(2)
            })?;
            both.other_says(&Word::Admitted, &check)?;
            both.done(&Call::entity(Verb::ChangeEntity, &ann).below(&ads))?;
            both.until_other("she is in the other team", &peek(&check), |said| {
                said.number("team.remaining") == Some(10)
            })?;
            let seen = both.other_says(&Word::Admitted, &check)?;
            expect_left(&seen, "user", 0)?;
            both.other_says(&Word::Refused, &check).map(drop)
        },
    ),
    row("entity changed", Verb::ChangeEntity, |both| {
        let [_, _, ann] = both.staff()?;
        let shown = Call::entity(Verb::ShowEntity, &ann);
        both.other_says(&Word::Done, &shown)?;
        both.done(&Call::entity(Verb::ChangeEntity, &ann).word("tier", "gold"))?;
        let tier = format!("entity {ann} tier");
        both.until_other("it shows the change", &shown, |said| {
            said.facts.get(&tier).is_some_and(|tier| tier == "gold")
        })
    }),
    row(
        "entity changed, charging no parents",
        Verb::ChangeEntity,
        |both| {
            let [_, _, ann] = both.staff()?;
            let check = Call::of(Verb::Check, "deep", &ann).by_id();
            for _ in 0..6 {
                both.other_says(&Word::Admitted, &check)?;
            }
            // The root's calls are used up; two of her own are left.
            let refused = both.other_says(&Word::Refused, &check)?;
            let whose = refused.facts.get("entity");
            expect(whose == Some(&both.key), || format!("{refused:?}"))?;
            both.done(&Call::entity(Verb::ChangeEntity, &ann).charging_parents(false))?;
            both.until_other("it asks her own limit alone", &check, Answer::admitted)?;
            both.done(&Call::entity(Verb::ChangeEntity, &ann).charging_parents(true))?;
            both.until_other("it asks the root's, too", &peek(&check), |said| {
                said.word == Word::Refused
            })
        },
    ),
    row("entity deleted", Verb::DeleteEntity, |both| {
        let [_, _, ann] = both.staff()?;
        let check = Call::of(Verb::Check, "deep", &ann).by_id();
        both.other_says(&Word::Admitted, &check)?;
        both.done(&Call::entity(Verb::DeleteEntity, &ann))?;
        both.until_other("it knows her no more", &check, |said| {
            said.word == Word::Gone
        })
    }),
    row("entities listed", Verb::ListEntities, |both| {
        let [search, _, ann] = both.staff()?;
        let fact = format!("entity {ann} of");
        let list = Call::entity(Verb::ListEntities, "");
        both.until_other("it lists her", &list, |said| {
            said.facts.get(&fact) == Some(&search)
        })?;
        both.done(&Call::entity(Verb::DeleteEntity, &ann))?;
        both.until_other("it lists her no more", &list, |said| {
            said.told() && !said.facts.contains_key(&fact)
        })
    }),
    row("children listed", Verb::ListChildren, |both| {
        let [search, ads, ann] = both.staff()?;
        let fact = format!("entity {ann} of");
        let of = |team: &str| Call::entity(Verb::ListChildren, team);
        both.until_other("it lists her", &of(&search), |said| {
            said.facts.contains_key(&fact)
        })?;
        both.done(&Call::entity(Verb::ChangeEntity, &ann).below(&ads))?;
        both.until_other("it lists her there", &of(&ads), |said| {
            said.facts.contains_key(&fact)
        })?;
        both.until_other("it lists her here no more", &of(&search), |said| {
            said.told() && !said.facts.contains_key(&fact)
        })
    }),
];

/// The same, without taking anything.
fn peek(check: &Call) -> Call {
    let mut peek = check.clone();
    peek.verb = Verb::Peek;
    peek
}

fn expect_left(said: &Answer, limit: &str, left: u64) -> Result<(), String> {
    let found = said.number(&format!("{limit}.remaining"));
    expect(found == Some(left), || {
        format!("{left} of {limit}: {said:?}")
    })
}

impl Both<'_> {
    /// A root, two teams below it and a user below the first, created at the first server:
    /// the teams and the user.
    fn staff(&mut self) -> Result<[String; 3], String> {
        let root = self.key.clone();
        let [search, ads, ann] = ["search", "ads", "ann"].map(|id| format!("{root} {id}"));
        self.done(&Call::entity(Verb::CreateEntity, &root))?;
        for (id, parent) in [(&search, &root), (&ads, &root), (&ann, &search)] {
            self.done(&Call::entity(Verb::CreateEntity, id).below(parent))?;
        }
        Ok([search, ads, ann])
    }
}
