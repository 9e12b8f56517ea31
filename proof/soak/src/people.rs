//! Entities of a service: who belongs to whom, asked by the id alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Decision, LeaseId, LimitSet, Settlement, Store};
use tidegate_policy::Scope;
use tidegate_service::{
    Acquired, Answer, Call, Caller, NewEntity, Number, OfLease, Question, Report, Service, Terms,
    Uses, Whose,
};
use tidegate_store::block_on;

use crate::keys::{TEAMS, USERS};
use crate::work::Amounts;

/// The name of its policy, and of its lane.
pub const NAME: &str = "people";

const OTHER: &str = "another call is answered";

/// A service with so many organisations, their teams and their users.
pub struct People {
    service: Service,
    caller: Caller,
}

/// The id at the end of a path of entities.
fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn amounts<'a>(amounts: Amounts) -> tidegate_service::Amounts<'a> {
    let whole = |&(limit, amount)| (limit, Number::Whole(amount));
    amounts.iter().map(whole).collect()
}

impl People {
    /// Where each organisation may call so often a second, and each user's tokens are plenty.
    pub fn new(
        store: &Arc<dyn Store>,
        clock: &Clock,
        (orgs, calls): (u64, u64),
        remember: Duration,
    ) -> Result<Self, String> {
        let text = format!(
            "[policy.{NAME}]\nkey = 'org/team/user'\nremember = '{}s'\n[policy.{NAME}.limits]\n\
             calls = {{ calls = {calls}, per = '1s', algorithm = 'fixed_window', level = 'org' }}\n\
             tokens = {{ rate = 100_000_000, per = '1s', level = 'user' }}\n",
            remember.as_secs()
        );
        let file = tidegate_policy::parse("soak", &text).map_err(|error| error.to_string())?;
        let service = Service::builder().store(Arc::clone(store));
        let service = service.clock(clock.clone()).build(&file);
        let service = service.map_err(|error| error.to_string())?;
        let caller = service.enter(None).map_err(|error| error.to_string())?;
        let people = Self { service, caller };
        for org in 0..orgs {
            people.create(&format!("o{org}"), None)?;
            for team in 0..TEAMS {
                people.create(&format!("o{org}t{team}"), Some(&format!("o{org}")))?;
            }
            for user in 0..USERS {
                let team = format!("o{org}t{}", user % TEAMS);
                people.create(&format!("o{org}u{user}"), Some(&team))?;
            }
        }
        Ok(people)
    }

    fn create(&self, id: &str, parent: Option<&str>) -> Result<(), String> {
        let new = NewEntity {
            id,
            parent,
            name: "",
            metadata: BTreeMap::new(),
            charge_parents: true,
        };
        let created = block_on(self.service.create_entity(&self.caller, &new, None));
        created.map(drop).map_err(|error| error.to_string())
    }

    /// The limits that they are asked by.
    pub fn set(&self) -> Result<LimitSet, String> {
        let active = self.service.policy(&self.caller, Scope::Observe, NAME);
        let active = active.map_err(|error| error.to_string())?;
        Ok(active.set().clone())
    }

    /// Asks for a lease of the entity at the end of `path`.
    pub async fn acquire(
        &self,
        path: &str,
        taken: Amounts,
    ) -> Result<Result<LeaseId, Decision>, String> {
        let question = Question {
            policy: NAME,
            whose: Whose::Entity(id_of(path)),
            amounts: amounts(taken),
            ..Question::default()
        };
        let call = Call::Acquire(question, Terms::default());
        let Answer::Acquired(acquisition) = self.ask(call).await? else {
            return Err(OTHER.to_owned());
        };
        if let Some(lease) = &acquisition.lease {
            lease.deliver();
        }
        match acquisition.acquired {
            Acquired::Granted(granted) => Ok(Ok(granted.id)),
            Acquired::Refused(decision) => Ok(Err(decision)),
            Acquired::Degraded(error) => Err(error.to_string()),
        }
    }

    /// Settles it, by the same id.
    pub async fn settle(
        &self,
        path: &str,
        lease: LeaseId,
        used: Amounts,
    ) -> Result<Settlement, String> {
        let of = OfLease {
            policy: NAME,
            whose: Whose::Entity(id_of(path)),
            lease,
        };
        let uses = Uses {
            cost: None,
            amounts: amounts(used),
        };
        let call = Call::Settle(of, Report::default(), uses);
        match self.ask(call).await? {
            Answer::Finished(_, finished) => Ok(finished.settlement),
            _ => Err(OTHER.to_owned()),
        }
    }

    async fn ask(&self, call: Call<'_>) -> Result<Answer, String> {
        let answer = self.service.call(&self.caller, call).await;
        answer.map_err(|error| error.to_string())
    }
}
