//! Whose leases are asked for.

/// So many keys are asked about at a time, where they come and go,
const POPULATION: u64 = 500;
/// and after so many asks, one has gone for good and a new one has come.
const ASKS_A_KEY: u64 = 2;
/// So many users has an organisation, where there are any, and a tenth of it a team.
pub const USERS: u64 = 50;
/// So many teams has an organisation of a fixed number.
pub const TEAMS: u64 = 5;

/// Whose leases are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// A population that moves on through a space without end.
    Moving,
    /// The same, each under its team and its organisation.
    MovingPaths,
    /// So many, in turn.
    Fixed(u64),
    /// Users of so many organisations, in turn.
    Paths(u64),
    /// The same, as paths of entities.
    Entities(u64),
}

impl Keys {
    /// The nth of them, and the number of its ledgers.
    pub fn at(self, nth: u64) -> (String, u64) {
        let moving = nth / ASKS_A_KEY + scatter(nth) % POPULATION;
        match self {
            Self::Moving => (moving.to_string(), 0),
            Self::MovingPaths => {
                let (org, team) = (moving / USERS, moving / (USERS / 10));
                (format!("{org}/{team}/{moving}"), 0)
            }
            Self::Fixed(keys) => ((nth % keys).to_string(), nth % keys),
            Self::Paths(orgs) => {
                let (org, user) = (nth % orgs, scatter(nth) % USERS);
                (format!("{org}/{}/{user}", user % TEAMS), org)
            }
            Self::Entities(orgs) => {
                let (org, user) = (nth % orgs, scatter(nth) % USERS);
                (
                    format!("/o{org}/o{org}t{}/o{org}u{user}", user % TEAMS),
                    org,
                )
            }
        }
    }
}

/// Numbers without an order, the same each time (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
const fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_population_that_moves_has_its_size_and_leaves_its_keys_behind() {
        let keys = |from: u64| (from..from + 1_000).map(|nth| Keys::Moving.at(nth).0);
        let early: BTreeSet<_> = keys(0).collect();
        let late: BTreeSet<_> = keys(10_000).collect();
        assert!((400..1_100).contains(&early.len()), "{}", early.len());
        assert!(early.is_disjoint(&late));
    }
}
