//! So many entities at three levels: 64 roots, 64 teams in each, and users.

use std::collections::BTreeMap;

use tidegate_service::{NewEntity, Service};
use tidegate_store::block_on;

/// How many belong to each at the first two levels.
const EACH: u32 = 64;

/// Entities by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    users: u32,
}

impl Family {
    /// So many in all.
    pub const fn of(entities: u32) -> Self {
        let users = entities - EACH - EACH * EACH;
        Self { users }
    }

    pub const fn users(self) -> u32 {
        self.users
    }

    pub fn user(self, number: u32) -> String {
        format!("user-{number:08}")
    }

    /// The key of the same limits.
    pub fn key_of(self, user: &str) -> String {
        let number: u32 = user.trim_start_matches("user-").parse().unwrap_or(0);
        let team = team_of(number);
        format!("{}/{}/{user}", root(team / EACH), self::team(team))
    }

    /// Some ids, drawn among the first so many users.
    pub fn some(self, among: u32, count: u32) -> Vec<String> {
        let mut random = fastrand::Rng::with_seed(7);
        let all = (0..count).map(|_| self.user(random.u32(0..among)));
        all.collect()
    }

    /// Has `service` create all of them.
    pub fn create(self, service: &Service) -> Result<(), String> {
        let caller = service.enter(None).map_err(|error| error.to_string())?;
        let create = |id: &str, parent: Option<&str>| {
            let new = NewEntity {
                id,
                parent,
                name: "",
                metadata: BTreeMap::new(),
                charge_parents: true,
            };
            let created = block_on(service.create_entity(&caller, &new, None));
            created.map(drop).map_err(|error| error.to_string())
        };
        for number in 0..EACH {
            create(&root(number), None)?;
        }
        for number in 0..EACH * EACH {
            create(&team(number), Some(&root(number / EACH)))?;
        }
        (0..self.users)
            .try_for_each(|number| create(&self.user(number), Some(&team(team_of(number)))))
    }
}

/// Neighbours by their numbers are of one team.
const fn team_of(user: u32) -> u32 {
    user / 256 % (EACH * EACH)
}

fn root(number: u32) -> String {
    format!("org-{number:02}")
}

fn team(number: u32) -> String {
    format!("team-{number:04}")
}
