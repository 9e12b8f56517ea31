//! What the store keeps beside limits: what was used, what was changed, namespaces.

use std::time::Duration;

use super::talk::{Scenario, Talk, at_one, row};
use crate::talk::{Call, Verb};

pub(super) const SCENARIOS: &[Scenario] = &[
    row("usage", Verb::Usage, |talk| {
        let ann = format!("{}/ann", talk.key);
        let of = |verb| Call::of(verb, "counted", &ann);
        let much = |verb, spend, units| of(verb).amount("spend", spend).amount("units", units);
        talk.say(of(Verb::Usage))?;
        talk.say(much(Verb::Check, 3, 2))?;
        talk.say(much(Verb::Check, 4, 5))?;
        // Refused: not counted.
        talk.say(much(Verb::Check, 1, 59))?;
        talk.say(much(Verb::Debit, 10, 1))?;
        let lease = talk.lease(much(Verb::Acquire, 20, 20))?;
        for key in [&ann, &talk.key.clone()] {
            talk.often(2, |_| Call::of(Verb::Usage, "counted", key))?;
        }
        talk.say(much(Verb::Adjust, 25, 15).lease(&lease))?;
        talk.say(much(Verb::Settle, 6, 30).lease(&lease))?;
        talk.say(much(Verb::Settle, 6, 30).lease(&lease))?;
        let lease = talk.lease(much(Verb::Acquire, 7, 7))?;
        talk.say(of(Verb::Cancel).lease(&lease))?;
        talk.say(of(Verb::Reset))?;
        for key in [&ann, &talk.key.clone()] {
            talk.often(2, |_| Call::of(Verb::Usage, "counted", key))?;
        }
        Ok(())
    }),
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("usage, by an entity's id", Verb::Usage, |talk| {
            let (root, ann) = talk.family()?;
            let of = |verb, id: &str| Call::of(verb, "counted", id).by_id();
            let check = of(Verb::Check, &ann);
            let check = check.amount("spend", 3).amount("units", 2);
            (0..3).try_for_each(|_| talk.say(check.clone()).map(drop))?;
            for id in [&ann, &root] {
                talk.often(2, |_| of(Verb::Usage, id))?;
            }
            talk.say(of(Verb::Usage, "nobody").why()).map(drop)
        })
    },
    row("usage, of leases that expired", Verb::Usage, |talk| {
        let acquire = Call::of(Verb::Acquire, "given_back", &talk.key);
        let acquire = acquire.amount("units", 5).amount("spend", 2);
        for _ in 0..3 {
            talk.lease(acquire.clone().amount("running", 1))?;
        }
        let_expire();
        talk.often(2, |key| Call::of(Verb::Usage, "given_back", key))
    }),
    // The overrides are all set at the first server, which need not be told of them.
    row("audit", Verb::Audit, |talk| {
        let of = |verb| Call::of(verb, "slots", &talk.key);
        let set = |running| of(Verb::SetOverride).amount("running", running);
        let calls = [
            set(5).measured("concurrency", ""),
            of(Verb::Audit),
            set(7).measured("concurrency", ""),
            of(Verb::Reset),
            of(Verb::RemoveOverride),
            of(Verb::Audit),
            of(Verb::RemoveOverride),
        ];
        for call in calls {
            talk.say(call)?;
        }
        talk.lease(Call::of(Verb::Acquire, "slots", &talk.key))?;
        let handle = talk.lease(Call::of(Verb::Leases, "slots", &talk.key))?;
        talk.say(Call::of(Verb::Revoke, "slots", &talk.key).lease(&handle))?;
        talk.often(2, |key| Call::of(Verb::Audit, "slots", key))
    }),
    Scenario {
        besides: &[Verb::CreateEntity],
        ..row("audit, of an entity", Verb::Audit, |talk| {
            let (root, team) = talk.family()?;
            let change = Call::entity(Verb::ChangeEntity, &team);
            talk.say(change.word("tier", "gold"))?;
            talk.say(Call::entity(Verb::DeleteEntity, &root))?;
            let change = Call::entity(Verb::ChangeEntity, &team);
            talk.say(change.charging_parents(false))?;
            talk.say(Call::entity(Verb::DeleteEntity, &team))?;
            for id in [&team, &root] {
                talk.often(2, |_| Call::of(Verb::Audit, "", id).by_id())?;
            }
            Ok(())
        })
    },
    row("namespace created", Verb::CreateNamespace, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name()).why();
        let calls = [
            of(Verb::ShowNamespace),
            of(Verb::CreateNamespace),
            of(Verb::CreateNamespace),
            of(Verb::ShowNamespace),
            Call::of(Verb::CreateNamespace, "", "no/name"),
            Call::of(Verb::CreateNamespace, "", "default"),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
    row("namespace shown", Verb::ShowNamespace, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name()).why();
        let verbs = [Verb::ShowNamespace, Verb::CreateNamespace];
        let calls = [verbs, [Verb::ShowNamespace; 2]].concat();
        let calls: Vec<_> = calls.into_iter().map(of).collect();
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
    row("check, in a namespace", Verb::Check, |talk| {
        talk.say(Call::of(Verb::CreateNamespace, "", &talk.name()))?;
        let within = checked(talk).within(&talk.name());
        for _ in 0..3 {
            talk.say(within.clone())?;
            // A key of that name is another there.
            talk.say(checked(talk))?;
        }
        talk.say(checked(talk).within("nobody").why()).map(drop)
    }),
    at_one("namespace deleted", Verb::DeleteNamespace, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name()).why();
        let within = checked(talk).within(&talk.name()).why();
        let calls = [
            of(Verb::DeleteNamespace),
            of(Verb::CreateNamespace),
            within.clone(),
            of(Verb::DeleteNamespace),
            of(Verb::DeleteNamespace),
            of(Verb::CreateNamespace),
            of(Verb::ShowNamespace),
            within,
            checked(talk),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
    at_one("namespace restored", Verb::RestoreNamespace, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name()).why();
        let within = checked(talk).within(&talk.name()).why();
        let calls = [
            of(Verb::RestoreNamespace),
            of(Verb::CreateNamespace),
            of(Verb::RestoreNamespace),
            within.clone(),
            of(Verb::DeleteNamespace),
            within.clone(),
            of(Verb::RestoreNamespace),
            within.clone(),
            within,
            of(Verb::ShowNamespace),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
    at_one("namespace purged, in use", Verb::PurgeNamespace, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name());
        let calls = [
            of(Verb::PurgeNamespace).why(),
            of(Verb::CreateNamespace),
            checked(talk).within(&talk.name()),
            of(Verb::PurgeNamespace).why(),
            checked(talk).within(&talk.name()),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
    at_one("namespaces listed", Verb::ListNamespaces, |talk| {
        let of = |verb| Call::of(verb, "", &talk.name());
        let calls = [
            of(Verb::ListNamespaces),
            of(Verb::CreateNamespace),
            of(Verb::ListNamespaces),
            of(Verb::DeleteNamespace),
            of(Verb::ListNamespaces),
        ];
        calls
            .into_iter()
            .try_for_each(|call| talk.say(call).map(drop))
    }),
];

/// Two of them, and no third.
fn checked(talk: &Talk<'_>) -> Call {
    Call::of(Verb::Check, "plain", &talk.key).amount("units", 4)
}

/// Leases of `given_back` last for as long.
#[expect(
    clippy::disallowed_methods,
    reason = "what expires does so by the store's clock, which is the machine's"
)]
fn let_expire() {
    std::thread::sleep(Duration::from_millis(300));
}
