//! The library in this process, on memory: what every server is held against.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Select;
use tidegate::internal::{granted_limits, random_lease_id};
use tidegate::{Admission, Decision, Grant, Key, LONGEST_PAGE, LeaseId, PageOf, Request};
use tidegate_memory::{Bounds, MemoryStore};
use tidegate_service::{
    Acquired, ActivePolicy, Answer as Said, AuditEvent, AuditListing, AuditValue, Call as Asked,
    Caller, Charge as Told, Decided, EntityChange, EntityListing, EntityTerms, EntityValue, Finish,
    Finished, Kind, Listing, Namespace, NewEntity, Number, OnlyIf, OverrideOf, OverrideTarget,
    Question, Rate, Report, Scope, Service, ServiceError, Setting, StoredOverride, UsageBy,
    UsageListing, Whose, settings_of,
};
use tokio::runtime::{Builder, Runtime};

use super::call::{Answer, Call, Client, Verb, Word, event_line};

/// Policies in this process.
#[derive(Debug)]
pub struct Library {
    service: Service,
    caller: Caller,
    runtime: Runtime,
}

impl Library {
    /// Over these policies.
    ///
    /// # Errors
    /// If they have faults.
    pub fn of(policies: &str) -> Result<Self, String> {
        let file = tidegate_policy::parse("fleet.toml", policies);
        let file = file.map_err(|faults| faults.to_string())?;
        let service = Service::builder()
            .store(Arc::new(MemoryStore::new(Bounds::default())))
            .build(&file)
            .map_err(|error| error.to_string())?;
        let caller = service.enter(None).map_err(|error| error.to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            service,
            caller,
            runtime: runtime.map_err(|error| error.to_string())?,
        })
    }

    fn policy(&self, call: &Call) -> Result<Arc<ActivePolicy>, ServiceError> {
        self.service
            .policy(&self.caller, Scope::Administer, &call.policy)
    }

    fn told(&self, call: &Call) -> Result<Answer, ServiceError> {
        if call.namespace.is_some() {
            return self.told_by_service(call);
        }
        if !call.is_entity || matches!(call.verb, Verb::Usage | Verb::Audit) {
            return self.told_of(call, call.key.as_bytes());
        }
        let path = self.service.entity_path(&call.key);
        let path = self.runtime.block_on(path)?;
        if !path.charges_parents() && call.verb == Verb::Check {
            // Which limits are asked, the service knows alone.
            return self.told_by_service(call);
        }
        let mut answer = self.told_of(call, path.key())?;
        if answer.facts.contains_key("binding") {
            let levels = self.policy(call)?.policy().levels.clone();
            let level = answer.facts.get("level");
            let level = level.and_then(|level| levels.iter().position(|name| name == level));
            let above = level.and_then(|level| path.ids().nth(level));
            answer.fact("entity", above.unwrap_or(&call.key));
        }
        Ok(answer)
    }

    fn told_of(&self, call: &Call, key: &[u8]) -> Result<Answer, ServiceError> {
        let active = match call.verb {
            Verb::CheckMany | Verb::CheckStream => return Ok(self.many(call)),
            Verb::Throttle => return self.throttle(call),
            Verb::Policies => return Ok(self.policies()),
            Verb::CreateEntity
            | Verb::ShowEntity
            | Verb::ChangeEntity
            | Verb::DeleteEntity
            | Verb::ListEntities
            | Verb::ListChildren => return self.entity(call),
            Verb::Usage => return self.used(call),
            Verb::Audit => return self.events(call),
            Verb::CreateNamespace
            | Verb::ShowNamespace
            | Verb::DeleteNamespace
            | Verb::RestoreNamespace
            | Verb::PurgeNamespace
            | Verb::ListNamespaces => return self.namespace(call),
            Verb::Info | Verb::Health | Verb::Ready | Verb::Metrics | Verb::Apply => {
                return Ok(Answer::default());
            }
            _ => self.policy(call)?,
        };
        let key = Key::from(key);
        let amounts: Vec<_> = call
            .amounts
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        let mut ask = Request::named(&amounts);
        if let Some(cost) = call.cost {
            ask = ask.cost(cost);
        }
        let member = call.member.as_deref();
        let report = Report {
            cool_down: call.cool_down.map(Duration::from_millis),
            ..Report::default()
        };
        let ends = |how| {
            let lease: LeaseId = call.lease.parse().map_err(|_| unknown())?;
            active
                .finish(key, lease, how, &report)
                .wait()
                .map(|finished| ended(&finished))
        };
        match call.verb {
            Verb::Auth => {
                let cost = amounts.first().map_or(1, |(_, cost)| *cost);
                let ask = if amounts.is_empty() {
                    Request::default()
                } else {
                    Request::default().cost(cost)
                };
                let mut answer = decided(&active.check(key, ask).wait()?);
                if answer.admitted() {
                    answer.facts.clear();
                }
                Ok(answer)
            }
            Verb::Acquire => self.acquire(&active, key, ask, call),
            Verb::Grant => {
                let hold = call.ttl.map(Duration::from_millis);
                let granted = active.grant(key, random_lease_id(), (ask, Request::default()), hold);
                Ok(match granted.wait()? {
                    Admission::Granted(grant) => self::granted(&grant),
                    Admission::Refused(refused) => decision(&refused),
                })
            }
            Verb::Return => ends(Finish::Return(ask)),
            Verb::Settle => ends(Finish::Settle(ask)),
            Verb::Release => ends(Finish::Release),
            Verb::Cancel => ends(Finish::Cancel),
            Verb::Renew => {
                let lease = call.lease.parse().map_err(|_| unknown())?;
                let ttl = call.ttl.map(Duration::from_millis);
                active
                    .renew(key, lease, ttl)
                    .wait()
                    .map(|_| Answer::default())
            }
            Verb::Adjust => {
                let lease = call.lease.parse().map_err(|_| unknown())?;
                let adjusted = active.adjust(key, lease, ask, call.overdraw).wait()?;
                Ok(decision(&adjusted))
            }
            Verb::Debit => Ok(decided(&active.debit_at(member, key, ask).wait()?)),
            Verb::Peek => Ok(decision(&active.peek_at(member, key, ask).wait()?)),
            Verb::Forecast => {
                let mut answer = Answer::default();
                for (name, forecast) in active
                    .forecast(member, key, ask)
                    .wait()?
                    .iter()
                    .flat_map(|foreseen| &foreseen.limits)
                {
                    answer.fact(format!("{name}.spendable"), forecast.spendable);
                    answer.fact(format!("{name}.limit"), forecast.standing.limit);
                    answer.fact(format!("{name}.remaining"), forecast.standing.remaining);
                }
                Ok(answer)
            }
            // With the events that are kept of them.
            Verb::Reset => {
                let asked = Asked::Reset(&call.policy, whose(call));
                self.asked(asked).map(|_| Answer::default())
            }
            Verb::Keys => {
                let mut answer = Answer::default();
                for listed in active.list_keys(page(call)).wait()?.items {
                    let key = String::from_utf8_lossy(&listed.key).into_owned();
                    let member = listed.decision.member().unwrap_or_default().to_owned();
                    standings(&mut answer, &listed.decision, &format!("{key} {member} "));
                }
                Ok(answer)
            }
            Verb::Capacity => {
                let mut answer = Answer::default();
                let page = active.capacity(None, beginning(call)).wait()?;
                for sum in page.items.iter().flat_map(|sum| &sum.limits) {
                    let name = &sum.limit;
                    answer.fact(format!("{name}.keys"), sum.keys);
                    answer.fact(format!("{name}.capacity"), sum.capacity);
                    answer.fact(format!("{name}.available"), sum.available);
                }
                Ok(answer)
            }
            Verb::Leases => {
                let mut answer = Answer::default();
                for (place, lease) in active
                    .list_leases(page(call))
                    .wait()?
                    .items
                    .into_iter()
                    .enumerate()
                {
                    let key = String::from_utf8_lossy(&lease.key).into_owned();
                    let member = lease.member.unwrap_or_default();
                    for (limit, taken) in lease.taken {
                        answer.fact(format!("{} {key} {member} {limit}", place + 1), taken);
                    }
                    answer.lease = answer.lease.take().or(Some(lease.handle.to_string()));
                }
                Ok(answer)
            }
            Verb::Revoke => {
                let handle = call.lease.parse().map_err(|_| unknown())?;
                let asked = Asked::Revoke(&call.policy, whose(call), handle);
                Ok(match self.asked(asked)? {
                    Said::Finished(_, finished) => ended(&finished),
                    said => Answer::new(Word::Other(format!("{said:?}"))),
                })
            }
            Verb::SetOverride => {
                let placed = self
                    .service
                    .set_override(&self.caller, &place(call), &limits(call))
                    .wait()?;
                Ok(over(&[placed], false))
            }
            Verb::RemoveOverride => match self
                .service
                .remove_override(&self.caller, &place(call))
                .wait()?
            {
                true => Ok(Answer::default()),
                false => Ok(Answer::new(Word::Gone)),
            },
            Verb::GetOverride => Ok(
                match self.service.override_at(&self.caller, &place(call))? {
                    Some(placed) => over(&[placed], false),
                    None => Answer::new(Word::Gone),
                },
            ),
            Verb::ListOverrides => {
                let placed = self
                    .service
                    .overrides(&self.caller, &place(call), None, 100);
                Ok(over(&placed, true))
            }
            Verb::Policy | Verb::Denied => Ok(Answer::default()),
            _ => Ok(decided(&active.check(key, ask).wait()?)),
        }
    }

    fn acquire<'a>(
        &self,
        active: &ActivePolicy,
        key: Key<'_>,
        mut ask: Request<'a>,
        call: &'a Call,
    ) -> Result<Answer, ServiceError> {
        if let Some(wait) = call.wait {
            ask = ask.within(Duration::from_millis(wait));
        }
        if call.for_refunds {
            ask = ask.wait_for_refunds();
        }
        if let Some(ttl) = call.ttl {
            ask = ask.ttl(Duration::from_millis(ttl));
        }
        if let Some(name) = &call.name {
            ask = ask.idempotency(name.as_bytes());
        }
        let acquired = self.runtime.block_on(active.acquire(key, ask))?;
        Ok(match acquired {
            Acquired::Granted(granted) => {
                let mut answer = Answer::decided(true);
                answer.lease = Some(granted.id.to_string());
                answer.fact("repeated", granted.repeated);
                answer.fact("has a fence", granted.fence.is_some());
                if let Some(member) = granted.member() {
                    answer.fact("member", member);
                }
                answer
            }
            Acquired::Refused(refused) => decision(&refused),
            Acquired::Degraded(_) => Answer::decided(true),
        })
    }

    fn many(&self, call: &Call) -> Answer {
        let mut answer = Answer::default();
        for (place, each) in call.each.iter().enumerate() {
            let each = self.told(each).unwrap_or_else(|error| refusal(&error));
            answer.fact(format!("{place}"), each.word_text());
            for (name, value) in each.facts {
                if name.contains('.') {
                    answer.fact(format!("{place} {name}"), value);
                }
            }
        }
        answer
    }

    fn entity(&self, call: &Call) -> Result<Answer, ServiceError> {
        let metadata: BTreeMap<_, _> = call.words.iter().cloned().collect();
        let terms = EntityTerms {
            only_if: call.version.map(OnlyIf::number),
            reason: None,
        };
        let asked = match call.verb {
            Verb::CreateEntity => {
                let new = NewEntity {
                    id: &call.key,
                    parent: call.parent.as_deref(),
                    name: "",
                    metadata,
                    charge_parents: call.charge_parents.unwrap_or(true),
                };
                Asked::CreateEntity(new, None)
            }
            Verb::ShowEntity => Asked::Entity(&call.key),
            Verb::ChangeEntity => {
                let change = EntityChange {
                    parent: call.parent.as_deref(),
                    metadata: Some(metadata).filter(|words| !words.is_empty()),
                    charge_parents: call.charge_parents,
                    ..EntityChange::default()
                };
                Asked::ChangeEntity(&call.key, change, terms)
            }
            Verb::DeleteEntity => Asked::DeleteEntity(&call.key, terms),
            verb => Asked::Entities(EntityListing {
                of: (verb == Verb::ListChildren).then_some(&*call.key),
                after: call.cursor.as_deref().map(Into::into),
                ..EntityListing::default()
            }),
        };
        let said = self.asked(asked)?;
        let mut answer = Answer::default();
        match said {
            Said::EntityKept(one) => entity(&mut answer, &one.id, &one.value),
            Said::Entities(page) => {
                let all = page.items.iter();
                all.for_each(|one| entity(&mut answer, &one.id, &one.value));
                answer.next = page.next;
            }
            Said::Entity(one, ancestors) => {
                entity(&mut answer, &one.id, &one.value);
                answer.fact("ancestors", ancestors.join(" > "));
            }
            _ => {}
        }
        Ok(answer)
    }

    fn asked(&self, asked: Asked<'_>) -> Result<Said, ServiceError> {
        self.runtime
            .block_on(self.service.call(&self.caller, asked))
    }

    /// A check, of whose whole the service decides.
    fn told_by_service(&self, call: &Call) -> Result<Answer, ServiceError> {
        let caller = self.caller.clone().at(call.namespace.as_deref())?;
        let amounts = call.amounts.iter();
        let amounts = amounts.map(|(name, amount)| (&**name, Number::Units(*amount)));
        let asked = Asked::Check(Question {
            policy: &call.policy,
            whose: whose(call),
            amounts: amounts.collect(),
            ..Question::default()
        });
        let said = self.runtime.block_on(self.service.call(&caller, asked))?;
        Ok(match said {
            Said::Decided(decided) => told_of(&decided),
            said => Answer::new(Word::Other(format!("{said:?}"))),
        })
    }

    fn used(&self, call: &Call) -> Result<Answer, ServiceError> {
        let listing = UsageListing {
            listing: Listing {
                select: match call.is_entity {
                    true => Select::All,
                    false => Select::Key(call.key.as_bytes()),
                },
                after: call.cursor.as_deref().map(Into::into),
                most: None,
            },
            entity: call.is_entity.then_some(&*call.key),
            since: None,
            until: None,
            by: UsageBy::Hour,
        };
        let mut answer = Answer::default();
        if let Said::Usage(_, page) = self.asked(Asked::Usage(&call.policy, listing))? {
            for one in page.items {
                let key = String::from_utf8_lossy(&one.used.key);
                answer.used(&key, &one.used.limit, one.used.amount);
            }
            answer.next = page.next;
        }
        Ok(answer)
    }

    fn events(&self, call: &Call) -> Result<Answer, ServiceError> {
        let of = match call.is_entity {
            true => OverrideOf::default(),
            false => OverrideOf {
                policy: Some(&call.policy),
                key: Some(call.key.as_bytes()),
                entity: None,
            },
        };
        let listing = AuditListing {
            of,
            entity: call.is_entity.then_some(&*call.key),
            after: call.cursor.as_deref().map(Into::into),
            ..AuditListing::default()
        };
        let mut answer = Answer::default();
        if let Said::Audit(page) = self.asked(Asked::Audit(listing))? {
            answer.items = page.items.iter().map(event).collect();
            answer.next = page.next;
        }
        Ok(answer)
    }

    fn namespace(&self, call: &Call) -> Result<Answer, ServiceError> {
        let name = &*call.key;
        let asked = match call.verb {
            Verb::CreateNamespace => Asked::CreateNamespace(name, None),
            Verb::DeleteNamespace => Asked::DeleteNamespace(name, None),
            Verb::RestoreNamespace => Asked::RestoreNamespace(name, None),
            Verb::PurgeNamespace => Asked::PurgeNamespace(name, None),
            Verb::ShowNamespace => Asked::Namespace(name),
            _ => Asked::Namespaces(call.cursor.as_deref().map(Into::into), None),
        };
        let mut answer = Answer::default();
        let mut shown = |one: &Namespace| {
            answer.fact(format!("namespace {}", one.name), one.state.name());
        };
        match self.asked(asked)? {
            Said::Namespace(one) => shown(&one),
            Said::Namespaces(page) => {
                page.items.iter().for_each(shown);
                answer.next = page.next;
            }
            Said::Purged(purged) => answer.fact("done", purged.is_done),
            _ => {}
        }
        Ok(answer)
    }

    fn throttle(&self, call: &Call) -> Result<Answer, ServiceError> {
        let rate = Rate {
            capacity: 10,
            count: 10,
            period_secs: 34_560_000,
        };
        let active = self.service.ad_hoc(&self.caller, rate).wait()?;
        let mut answer = decided(&active.check(call.key.as_bytes(), Request::from(1)).wait()?);
        answer.facts.remove("binding");
        Ok(answer)
    }

    fn policies(&self) -> Answer {
        let mut answer = Answer::default();
        for active in self.service.policies(&self.caller) {
            answer.fact(format!("policy {}", active.policy().name), "served");
        }
        answer
    }
}

impl Client for Library {
    fn ask(&mut self, call: &Call) -> Result<Answer, String> {
        Ok(self.told(call).unwrap_or_else(|error| {
            let mut answer = refusal(&error);
            answer.explain(call, &error.to_string());
            answer
        }))
    }

    /// It answers at once.
    fn patience(&mut self, _: Duration) {}
}

fn unknown() -> ServiceError {
    tidegate::LeaseError::Unknown.into()
}

fn refusal(error: &ServiceError) -> Answer {
    let mut answer = Answer::new(match error.kind() {
        Kind::NotFound | Kind::Ended | Kind::InUse | Kind::Deleted => Word::Gone,
        Kind::Conflict => Word::Conflict,
        Kind::Invalid => Word::Invalid,
        Kind::Never => Word::Never,
        Kind::Busy => Word::Busy,
        Kind::Unavailable => Word::Unavailable,
        kind => Word::Other(format!("{kind:?}")),
    });
    answer.detail = error.to_string();
    answer
}

fn whose(call: &Call) -> Whose<'_> {
    match call.is_entity {
        true => Whose::Entity(&call.key),
        false => Whose::Key(call.key.as_bytes()),
    }
}

fn entity(answer: &mut Answer, id: &str, value: &EntityValue) {
    let words = value.metadata.iter();
    let words = words.map(|(word, says)| (&**word, &**says));
    let parent = value.parent.as_deref();
    answer.entity(id, parent, words, value.charge_parents);
}

fn event(event: &AuditEvent) -> String {
    let id = event.entity.as_deref();
    let kept = |value: &Option<AuditValue>| {
        value.as_ref().map(|value| {
            let mut answer = Answer::default();
            match value {
                AuditValue::Override(value) => limit_facts(&mut answer, "", &value.limits),
                AuditValue::Entity(value) => entity(&mut answer, id.unwrap_or_default(), value),
                other => answer.fact("other", format!("{other:?}")),
            }
            answer
        })
    };
    let key = event.target.key.as_deref().map(String::from_utf8_lossy);
    event_line(
        event.action.name(),
        [
            event.target.policy.as_deref(),
            key.as_deref(),
            id,
            event.by.as_deref(),
        ],
        [kept(&event.before), kept(&event.after)],
    )
}

/// What the service tells of a check.
fn told_of(decided: &Decided) -> Answer {
    let told = decided.told();
    let mut answer = Answer::decided(told.admitted());
    let texts = [
        ("binding", told.binding()),
        ("level", told.level()),
        ("entity", told.entity()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            answer.fact(name, text);
        }
    }
    for stand in told.limits() {
        answer.fact(format!("{}.limit", stand.name), stand.standing.limit);
        answer.fact(
            format!("{}.remaining", stand.name),
            stand.standing.remaining,
        );
    }
    answer
}

fn decided(told: &Told) -> Answer {
    match told {
        Told::Decided(said) => decision(said),
        Told::Degraded(_) => Answer::decided(true),
    }
}

fn decision(said: &Decision) -> Answer {
    let mut answer = Answer::decided(said.admitted());
    let texts = [
        ("binding", said.binding()),
        ("level", said.binding_level()),
        ("member", said.member()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            answer.fact(name, text);
        }
    }
    if said.shadowed() {
        answer.fact("shadowed", true);
    }
    standings(&mut answer, said, "");
    answer
}

fn standings(answer: &mut Answer, said: &Decision, before: &str) {
    for (name, stands) in said.standings() {
        answer.fact(format!("{before}{name}.limit"), stands.limit);
        answer.fact(format!("{before}{name}.remaining"), stands.remaining);
    }
}

fn granted(grant: &Grant) -> Answer {
    let mut answer = Answer::decided(true);
    answer.lease = Some(grant.id().to_string());
    for (limit, amount) in granted_limits(grant) {
        answer.fact(format!("{}.granted", limit.name()), amount);
        if limit.is_counted() {
            answer.fact(format!("{} counts calls", limit.name()), true);
        }
    }
    answer
}

fn ended(finished: &Finished) -> Answer {
    let mut answer = Answer::default();
    let settlement = &finished.settlement;
    answer.fact("expired", settlement.expired());
    answer.fact("repeated", settlement.repeated());
    if let Some(member) = &finished.member {
        answer.fact("member", member);
    }
    if finished.cooling_until.is_some() {
        answer.fact("cools down", true);
    }
    for (name, usage) in settlement.usages() {
        answer.fact(format!("{name}.taken"), usage.taken);
        answer.fact(format!("{name}.used"), usage.used);
    }
    answer
}

fn page(call: &Call) -> PageOf<'_> {
    PageOf {
        select: match call.key.is_empty() {
            true => Select::All,
            false => Select::Key(call.key.as_bytes()),
        },
        after: None,
        most: LONGEST_PAGE,
    }
}

/// Those that begin with the key, in place of the key alone.
fn beginning(call: &Call) -> PageOf<'_> {
    PageOf {
        select: match call.key.is_empty() {
            true => Select::All,
            false => Select::Prefix(call.key.as_bytes()),
        },
        ..page(call)
    }
}

fn place(call: &Call) -> OverrideTarget {
    OverrideTarget::everything()
        .of_policy(&call.policy)
        .of_key(call.key.as_bytes())
}

/// An override's limits, as a file of policies says them.
fn limits(call: &Call) -> Vec<tidegate::Limit> {
    let (word, per) = call.measure.unwrap_or_default();
    let per = match per.is_empty() {
        true => String::new(),
        false => format!(", per = '{per}'"),
    };
    let amounts = call.amounts.iter();
    let lines = amounts.map(|(limit, amount)| format!("{limit} = {{ {word} = {amount}{per} }}\n"));
    let text = format!("[policy.p.limits]\n{}", lines.collect::<String>());
    let file = tidegate_policy::parse("override.toml", &text);
    let limits = file.map(|file| file.policies[0].limits.clone());
    let limits = limits.unwrap_or_default().into_iter();
    let added = limits.map(|limit| match call.is_added {
        true => limit.added(),
        false => limit,
    });
    added.collect()
}

fn over(overrides: &[StoredOverride], is_listing: bool) -> Answer {
    let mut answer = Answer::default();
    for placed in overrides {
        let policy = placed.target.policy.as_deref().unwrap_or("*");
        let key = placed.target.key.as_deref().unwrap_or(b"*");
        let key = String::from_utf8_lossy(key).into_owned();
        let before = match is_listing {
            true => format!("{policy} {key} "),
            false => String::new(),
        };
        limit_facts(&mut answer, &before, &placed.limits);
    }
    answer
}

fn limit_facts(answer: &mut Answer, before: &str, limits: &[tidegate::Limit]) {
    for limit in limits {
        for (field, setting) in settings_of(limit) {
            let is_amount = ["calls", "rate", "budget", "concurrency"].contains(&field);
            if let (true, Setting::Units(number)) = (is_amount, setting) {
                answer.fact(format!("{before}{}.{field}", limit.name()), number);
            }
        }
    }
}
