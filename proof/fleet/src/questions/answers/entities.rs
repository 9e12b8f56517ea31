//! Entities, and what is asked by their ids.

use super::talk::{Scenario, Talk, at_one, row};
use crate::talk::{Call, Verb};

pub(super) const SCENARIOS: &[Scenario] = &[
    row("entity created", Verb::CreateEntity, |talk| {
        let (root, team) = (talk.key.clone(), format!("{} team", talk.key));
        let create = |id: &str| Call::entity(Verb::CreateEntity, id);
        talk.say(create(&team).below(&root))?;
        talk.say(create(&root).word("tier", "gold"))?;
        talk.say(create(&root))?;
        talk.say(create(&team).below(&root))?;
        talk.say(create("..").below(&root))?;
        talk.say(Call::entity(Verb::ShowEntity, &team))?;
        Ok(())
    }),
    row("entity shown", Verb::ShowEntity, |talk| {
        let (root, team) = talk.family()?;
        for id in [&root, &team, "nobody"] {
            talk.say(Call::entity(Verb::ShowEntity, id))?;
        }
        Ok(())
    }),
    row("entity changed", Verb::ChangeEntity, |talk| {
        let (root, team) = talk.family()?;
        let change = |id: &str, says| Call::entity(Verb::ChangeEntity, id).word("tier", says);
        talk.say(change(&root, "gold"))?;
        talk.say(change(&root, "silver"))?;
        talk.say(change(&root, "tin").on_version(u64::MAX / 4))?;
        talk.say(change("nobody", "gold"))?;
        talk.say(Call::entity(Verb::ShowEntity, &root))?;
        talk.say(Call::entity(Verb::ShowEntity, &team)).map(drop)
    }),
    row("entity deleted", Verb::DeleteEntity, |talk| {
        let (root, team) = talk.family()?;
        let delete = |id: &str| Call::entity(Verb::DeleteEntity, id);
        talk.say(delete(&root))?;
        talk.say(delete(&team).on_version(u64::MAX / 4))?;
        talk.say(delete(&team))?;
        talk.say(delete(&team))?;
        talk.say(delete(&root))?;
        talk.say(Call::entity(Verb::ShowEntity, &root)).map(drop)
    }),
    row("entities listed", Verb::ListEntities, |talk| {
        let (_, team) = talk.family()?;
        talk.say(Call::entity(Verb::ListEntities, ""))?;
        talk.say(Call::entity(Verb::DeleteEntity, &team))?;
        talk.say(Call::entity(Verb::ListEntities, "")).map(drop)
    }),
    row("children listed", Verb::ListChildren, |talk| {
        let (root, team) = talk.family()?;
        for id in [&root, &team, "nobody"] {
            talk.say(Call::entity(Verb::ListChildren, id))?;
        }
        talk.say(Call::entity(Verb::DeleteEntity, &team))?;
        talk.say(Call::entity(Verb::ListChildren, &root)).map(drop)
    }),
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("check, by an entity's id", Verb::Check, |talk| {
            let (_, team) = talk.family()?;
            talk.often(5, |_| Call::of(Verb::Check, "deep", &team).by_id())?;
            talk.often(2, |_| Call::of(Verb::Peek, "deep", &team).by_id())?;
            talk.say(Call::of(Verb::Check, "deep", "nobody").by_id())?;
            talk.say(Call::of(Verb::Reset, "deep", &team).by_id())?;
            talk.say(Call::of(Verb::Check, "deep", &team).by_id())
                .map(drop)
        })
    },
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("acquire, by an entity's id", Verb::Acquire, |talk| {
            let (root, _) = talk.family()?;
            let of = |verb| Call::of(verb, "job", &root).by_id();
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(Call::entity(Verb::DeleteEntity, &root))?;
            talk.say(of(Verb::Adjust).lease(&lease).amount("tokens", 30))?;
            talk.say(of(Verb::Settle).lease(&lease).amount("tokens", 5))?;
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(of(Verb::Release).lease(&lease))?;
            let lease = talk.lease(of(Verb::Acquire).amount("tokens", 20))?;
            talk.say(of(Verb::Cancel).lease(&lease)).map(drop)
        })
    },
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row(
            "check, by an entity's id, its root's limit",
            Verb::Check,
            |talk| {
                let (root, ann) = talk.family()?;
                let bob = format!("{} bob", talk.key);
                talk.say(Call::entity(Verb::CreateEntity, &bob).below(&root))?;
                let of = |verb, id: &str| Call::of(verb, "deep", id).by_id();
                // Of the root's six, with more left to each of the two.
                for (id, times) in [(&ann, 3), (&bob, 4), (&ann, 1)] {
                    (0..times).try_for_each(|_| talk.say(of(Verb::Check, id)).map(drop))?;
                }
                talk.say(of(Verb::Peek, &bob))?;
                talk.say(of(Verb::Check, &root))?;
                talk.say(of(Verb::Reset, &root))?;
                talk.say(of(Verb::Check, &bob)).map(drop)
            },
        )
    },
    Scenario {
        besides: &[Verb::CreateEntity],
        in_turn: false,
        ..row(
            "check, by an entity's id, charging no parents",
            Verb::Check,
            |talk| {
                let (root, ann) = talk.family()?;
                let bob = format!("{} bob", talk.key);
                let bob = Call::entity(Verb::CreateEntity, &bob).below(&root);
                talk.say(bob.charging_parents(false))?;
                let check = |id: &str| Call::of(Verb::Check, "deep", id).by_id();
                let bob = format!("{} bob", talk.key);
                for (id, times) in [(&ann, 4), (&bob, 3)] {
                    (0..times).try_for_each(|_| talk.say(check(id)).map(drop))?;
                }
                let change =
                    |charge| Call::entity(Verb::ChangeEntity, &bob).charging_parents(charge);
                talk.say(change(true))?;
                talk.say(Call::entity(Verb::ShowEntity, &bob))?;
                talk.say(check(&bob))?;
                talk.say(check(&bob))?;
                talk.say(check(&ann)).map(drop)
            },
        )
    },
    row(
        "entity created, at the ninth level",
        Verb::CreateEntity,
        |talk| {
            let id = |level: usize| format!("{} {level}", talk.key);
            let ids: Vec<_> = (1..=9).map(id).collect();
            talk.say(Call::entity(Verb::CreateEntity, &ids[0]))?;
            for pair in ids.windows(2) {
                talk.say(
                    Call::entity(Verb::CreateEntity, &pair[1])
                        .below(&pair[0])
                        .why(),
                )?;
            }
            talk.say(Call::entity(Verb::ShowEntity, &ids[7]))?;
            talk.say(Call::entity(Verb::ShowEntity, &ids[8]).why())
                .map(drop)
        },
    ),
    at_one("entity moved", Verb::ChangeEntity, |talk| {
        let [_, search, ads, ann] = talk.staff()?;
        let move_to = |parent: &str| Call::entity(Verb::ChangeEntity, &ann).below(parent);
        let check = || {
            Call::of(Verb::Check, "staff", &ann)
                .by_id()
                .amount("tokens", 3)
        };
        let lists = |talk: &mut Talk<'_>| {
            talk.say(Call::entity(Verb::ShowEntity, &ann))?;
            talk.say(Call::entity(Verb::ListChildren, &search))?;
            talk.say(Call::entity(Verb::ListChildren, &ads)).map(drop)
        };
        talk.say(check())?;
        talk.say(move_to(&ads))?;
        lists(talk)?;
        talk.say(check())?;
        talk.say(move_to(&search))?;
        lists(talk)
    }),
    row("entity moved, refused", Verb::ChangeEntity, |talk| {
        let [root, search, ads, ann] = talk.staff()?;
        let other = format!("{} other", talk.key);
        let others = format!("{} other team", talk.key);
        talk.say(Call::entity(Verb::CreateEntity, &other))?;
        talk.say(Call::entity(Verb::CreateEntity, &others).below(&other))?;
        let moves = [
            (&search, &search),
            (&search, &ann),
            (&root, &ann),
            (&ann, &root),
            (&ann, &ann),
            (&ann, &others),
            (&other, &root),
        ];
        for (id, parent) in moves {
            talk.say(Call::entity(Verb::ChangeEntity, id).below(parent).why())?;
        }
        let nobody = Call::entity(Verb::ChangeEntity, &ann).below("nobody");
        talk.say(nobody.why())?;
        let seat = |verb| Call::of(verb, "staff", &ann).by_id().amount("seats", 1);
        let lease = talk.lease(seat(Verb::Acquire))?;
        let move_it = Call::entity(Verb::ChangeEntity, &ann).below(&ads);
        talk.say(move_it.why())?;
        for id in [&ann, &search, &root] {
            talk.say(Call::entity(Verb::DeleteEntity, id).why())?;
        }
        talk.say(Call::of(Verb::Release, "staff", &ann).by_id().lease(&lease))?;
        for id in [&ann, &search] {
            talk.say(Call::entity(Verb::ShowEntity, id))?;
        }
        talk.say(Call::entity(Verb::DeleteEntity, &ann)).map(drop)
    }),
    Scenario {
        besides: &[Verb::CreateEntity],
        in_turn: false,
        ..row("override set, of an entity", Verb::SetOverride, |talk| {
            let [root, _, ads, ann] = talk.staff()?;
            let name = format!("/{root}//{ann}");
            let set = Call::of(Verb::SetOverride, "staff", &name).amount("seats", 1);
            talk.say(set.measured("concurrency", ""))?;
            let seat = |verb| Call::of(verb, "staff", &ann).by_id().amount("seats", 1);
            talk.say(seat(Verb::Peek))?;
            talk.say(Call::entity(Verb::ChangeEntity, &ann).below(&ads))?;
            let lease = talk.lease(seat(Verb::Acquire))?;
            talk.say(seat(Verb::Peek))?;
            talk.say(Call::of(Verb::Release, "staff", &ann).by_id().lease(&lease))?;
            talk.say(Call::of(Verb::RemoveOverride, "staff", &name))?;
            talk.say(seat(Verb::Peek)).map(drop)
        })
    },
];
