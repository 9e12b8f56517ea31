//! Every history of small instances: what a node is granted is never spent beyond the bound of
//! `docs/reference/tiers.md`; and with one safeguard off a history is found that does so.

use std::time::Duration;

use tidegate_model::{Found, Instance, explore, instances};

fn found(instance: &Instance) -> Found {
    explore(
        instance,
        2,
        (&mut std::io::sink(), Duration::from_millis(10)),
    )
}

/// Every history of those whose names begin so keeps the bound, and one reaches it.
fn keeps(name: &str) {
    let whole = instances::whole();
    let mut chosen = whole.iter().filter(|(its, _)| its.starts_with(name));
    let (_, instance) = chosen.next().expect("an instance of this name");
    let found = found(instance);
    println!("{} states, {} of {}", found.states, found.most, found.bound);
    assert!(found.is_as_it_should_be(instance), "{found:?}");
}

#[test]
fn two_nodes_admit_at_most_what_a_window_has_whatever_is_lost_late_doubled_or_killed() {
    keeps("window: 2 nodes");
}

#[test]
fn two_nodes_admit_at_most_what_a_bucket_lets_in_while_grants_are_held_longer() {
    keeps("bucket: 2 nodes");
}

#[test]
fn without_any_one_safeguard_the_model_finds_how_more_is_admitted() {
    for (name, instance, most) in instances::without() {
        let found = found(&instance);
        println!(
            "{name}: {} states, {} of {}",
            found.states, found.most, found.bound
        );
        assert!(found.is_as_it_should_be(&instance), "{name}: {found:?}");
        let Some(most) = most else { continue };
        assert_eq!(found.most, most, "{name}");
        // It is the safeguard alone that makes the difference.
        let whole = Instance {
            off: None,
            ..instance
        };
        let found = self::found(&whole);
        assert!(
            found.beyond.is_none() && found.owes.is_none(),
            "{name}: {found:?}"
        );
    }
}
