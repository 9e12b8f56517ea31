//! The model counts states as one that differ in what can change nothing: the names of nodes and
//! leases, how long ago something was over. Here it is tried: whatever can follow the one can
//! follow the other.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;
use tidegate_model::{Fleet, Instance, State, instances};

fn name_of(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// What can come next.
fn followers(fleet: &Fleet, state: &State) -> Vec<State> {
    let mut actions = Vec::new();
    fleet.actions(state, &mut actions);
    let next = actions.into_iter();
    next.filter_map(|action| fleet.next_state(state, action))
        .collect()
}

/// Goes on from `most` states, and from others that count as one of them; how many of those.
fn try_out(instance: &Instance, most: usize) -> usize {
    let fleet = Fleet::new(instance.clone());
    let mut first: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    let mut to_do: VecDeque<State> = fleet.init_states().into();
    let mut tried = 0;
    while let Some(state) = to_do.pop_front() {
        let (name, next) = (name_of(&state), followers(&fleet, &state));
        let names: BTreeSet<u64> = next.iter().map(name_of).collect();
        match first.get(&name) {
            Some(known) => {
                tried += 1;
                assert_eq!(known, &names, "{state:#?}");
            }
            None if first.len() < most => {
                first.insert(name, names);
                to_do.extend(next);
            }
            None => {}
        }
    }
    tried
}

#[test]
fn states_that_count_as_one_go_on_alike() {
    for (name, instance) in instances::whole() {
        let tried = try_out(&instance, 1_000);
        println!("{name}: {tried} tried");
        assert!(tried > 1_000, "{name}: {tried}");
    }
}
