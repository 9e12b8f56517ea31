//! Answers into bytes.
//!
//! | room | holds |
//! |---|---|
//! | [`render`] | what the service has answered |
//! | `policies`, `overrides` | what the policies say, and what holds in its place |
//! | `entities` | who belongs to whom |
//! | `namespaces` | parts of the store that share nothing |
//! | `audit` | what was changed, and by whom |
//! | `facts` | decisions, standings and instants into replies |
//! | `reply` | replies into bytes, in RESP2 and RESP3 |

mod audit;
mod entities;
pub(crate) mod facts;
mod namespaces;
mod overrides;
mod policies;
pub(crate) mod reply;

use std::time::Duration;

use tidegate::{Grant, ListedKey, Page, Timestamp};
use tidegate_service::{
    Acquired, Acquisition, ActivePolicy, Answer, Finished, GrantedLease, Granting, MemberForecast,
    PublicLease, PublicUsage, Told,
};

use crate::error::Fault;
use reply::Replies;

/// How many facts an answer to ACQUIRE has: the lease's four, the decision's,
/// the words that come with it, and when it was granted.
const FACTS: usize = 6 + facts::DECISION_FACTS;

/// Writes what the service has answered.
#[inline]
pub(crate) fn render(replies: &mut Replies, answer: &Answer) {
    match answer {
        Answer::Decided(decided) | Answer::Charged(decided) | Answer::Foretold(decided, _) => {
            self::decided(replies, &decided.told());
        }
        Answer::Many(answers) => {
            replies.array(answers.len());
            answers.iter().for_each(|one| match one {
                Ok(decided) => self::decided(replies, &decided.told()),
                Err(error) => {
                    let fault = Fault::from(error.clone());
                    replies.error(fault.code(), &fault);
                }
            });
        }
        Answer::Forecast(active, forecasts, is_one) => {
            forecast(replies, active, forecasts, *is_one)
        }
        Answer::Acquired(acquisition) => self::acquisition(replies, acquisition),
        Answer::Granted(granting) => self::granted(replies, granting),
        Answer::Finished(active, finished) => self::finished(replies, active, finished),
        Answer::Renewed(renewed) => {
            replies.map(1);
            replies.text("expires_at_us");
            replies.integer(renewed.expires_at.as_micros());
        }
        Answer::Forgotten => replies.ok(),
        Answer::Keys(active, page) => {
            let now = active.now();
            list(replies, "keys", page, |replies, item| {
                listed(replies, active, item, now);
            });
        }
        Answer::Leases(active, page) => {
            list(replies, "leases", page, |replies, item| {
                held(replies, active, item)
            });
        }
        Answer::Usage(active, page) => {
            list(replies, "usage", page, |replies, item| {
                used(replies, active, item)
            });
        }
        Answer::OverrideSet(placed) => overrides::shown(replies, placed),
        // How many were removed.
        Answer::Removed(_, removed) => replies.integer((*removed).into()),
        Answer::Override(Some(placed)) => overrides::shown(replies, placed),
        Answer::Override(None) => replies.null(),
        Answer::Overrides(page) => list(replies, "overrides", page, overrides::shown),
        Answer::EntityKept(entity) => entities::shown(replies, entity),
        Answer::Entity(entity, ancestors) => entities::below(replies, entity, ancestors),
        Answer::Entities(page) => list(replies, "entities", page, entities::shown),
        Answer::Namespace(namespace) => namespaces::shown(replies, namespace),
        Answer::Namespaces(page) => list(replies, "namespaces", page, namespaces::shown),
        Answer::Purged(purge) => namespaces::purged(replies, *purge),
        Answer::Audit(page) => list(replies, "events", page, audit::shown),
        Answer::Policies(policies) => policies::policies(replies, policies),
        // No command makes such a call, or it writes that out itself.
        Answer::Policy(_)
        | Answer::Capacity(..)
        | Answer::Fleet(..)
        | Answer::Denied(_)
        | Answer::Denials(_)
        | Answer::Rated(_) => {
            replies.error(Fault::Other.code(), &Fault::Other);
        }
    }
}

fn decided(replies: &mut Replies, told: &Told<'_>) {
    replies.map(facts::DECISION_FACTS);
    facts::told(replies, told);
}

/// By limit: how many such requests fit, when one does, and the standing. For a pool
/// as a whole, that by member.
fn forecast(
    replies: &mut Replies,
    active: &ActivePolicy,
    forecasts: &[MemberForecast],
    is_one: bool,
) {
    if is_one {
        forecasts
            .iter()
            .for_each(|one| member_forecast(replies, active, one));
        return;
    }
    replies.map(forecasts.len());
    for one in forecasts {
        replies.text(one.member.as_deref().unwrap_or_default());
        member_forecast(replies, active, one);
    }
}

fn member_forecast(replies: &mut Replies, active: &ActivePolicy, foreseen: &MemberForecast) {
    let now = active.now();
    replies.map(foreseen.limits.len());
    for (name, forecast) in &foreseen.limits {
        replies.text(name);
        replies.map(7);
        replies.text("spendable");
        replies.count(forecast.spendable);
        facts::verdict(replies, forecast.verdict, || {
            forecast.verdict.retry_after(now)
        });
        facts::stands(replies, active.unit(name), &forecast.standing, || now);
    }
}

fn acquisition(replies: &mut Replies, acquisition: &Acquisition) {
    replies.map(FACTS);
    let granted = match &acquisition.acquired {
        Acquired::Granted(granted) => Some(granted),
        Acquired::Refused(_) | Acquired::Degraded(_) => None,
    };
    lease(replies, granted);
    facts::told(replies, &acquisition.told());
    replies.text("metadata");
    let words = granted.map(GrantedLease::metadata);
    replies.map(words.map_or(0, |words| words.len()));
    for (name, word) in words.into_iter().flatten() {
        replies.text(name);
        replies.text(word);
    }
    replies.text("granted_at_us");
    facts::optional_instant(replies, granted.map(|granted| granted.granted_at));
}

/// Seven facts of a grant, which are null or empty where there is none, and the decision's.
fn granted(replies: &mut Replies, granting: &Granting) {
    let grant = granting.grant();
    replies.map(7 + facts::DECISION_FACTS);
    replies.text("lease");
    let id = grant.map(|grant| grant.id().to_string());
    facts::optional_text(replies, id.as_deref());
    replies.text("amounts");
    replies.map(granting.amounts().count());
    for (limit, amount) in granting.amounts() {
        replies.text(limit.name());
        facts::amount(replies, limit.amounts(), amount);
    }
    replies.text("calls");
    let calls = || granting.amounts().filter(|(limit, _)| limit.is_counted());
    replies.array(calls().count());
    calls().for_each(|(limit, _)| replies.text(limit.name()));
    replies.text("good_for_ms");
    let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    optional_count(replies, grant.map(|grant| millis(grant.good_for())));
    replies.text("good_until_us");
    facts::optional_instant(replies, grant.map(Grant::good_until));
    replies.text("granted_at_us");
    facts::optional_instant(replies, grant.map(Grant::granted_at));
    replies.text("expires_at_us");
    facts::optional_instant(replies, grant.map(Grant::expires_at));
    facts::told(replies, &granting.told());
}

/// Four facts: what settles it, its fence, its expiry, whether it is an old one.
fn lease(replies: &mut Replies, granted: Option<&GrantedLease>) {
    replies.text("lease");
    let id = granted.map(|granted| granted.id.to_string());
    facts::optional_text(replies, id.as_deref());
    replies.text("fence");
    optional_count(replies, granted.and_then(|granted| granted.fence));
    replies.text("expires_at_us");
    let expires_at = granted.map(|granted| granted.expires_at.as_micros().unsigned_abs());
    optional_count(replies, expires_at);
    replies.text("repeated");
    replies.boolean(granted.is_some_and(|granted| granted.repeated));
}

fn optional_count(replies: &mut Replies, count: Option<u64>) {
    match count {
        Some(count) => replies.count(count),
        None => replies.null(),
    }
}

/// Whether it had expired, whether it was said before, what was used, and the
/// member of a pool, with the end of its cool-down.
fn finished(replies: &mut Replies, active: &ActivePolicy, finished: &Finished) {
    let settlement = &finished.settlement;
    replies.map(5);
    replies.text("expired");
    replies.boolean(settlement.expired());
    replies.text("repeated");
    replies.boolean(settlement.repeated());
    replies.text("used");
    replies.map(settlement.usages().count());
    for (name, usage) in settlement.usages() {
        replies.text(name);
        replies.map(2);
        replies.text("taken");
        facts::amount(replies, active.unit(name), usage.taken);
        replies.text("used");
        facts::amount(replies, active.unit(name), usage.used);
    }
    replies.text("member");
    facts::optional_text(replies, finished.member.as_deref());
    replies.text("cooling_until_us");
    facts::optional_instant(replies, finished.cooling_until);
}

fn list<T>(
    replies: &mut Replies,
    items: &str,
    page: &Page<T>,
    mut item: impl FnMut(&mut Replies, &T),
) {
    replies.map(2);
    replies.text(items);
    replies.array(page.items.len());
    page.items.iter().for_each(|one| item(replies, one));
    facts::cursor(replies, page.next.as_deref());
}

fn listed(replies: &mut Replies, active: &ActivePolicy, listed: &ListedKey, now: Timestamp) {
    let decision = &listed.decision;
    replies.map(3);
    replies.text("key");
    replies.bulk(&listed.key);
    replies.text("member");
    facts::optional_text(replies, decision.member());
    replies.text("limits");
    facts::standings(replies, &Told::decided(active, decision).as_of(now));
}

fn held(replies: &mut Replies, active: &ActivePolicy, held: &PublicLease) {
    replies.map(7);
    replies.text("key");
    replies.bulk(&held.key);
    replies.text("member");
    facts::optional_text(replies, held.member.as_deref());
    replies.text("handle");
    replies.text(&held.handle.to_string());
    replies.text("fence");
    optional_count(replies, held.fence);
    replies.text("expires_at_us");
    replies.integer(held.expires_at.as_micros());
    replies.text("taken");
    replies.map(held.taken.len());
    for (name, amount) in &held.taken {
        replies.text(name);
        facts::amount(replies, active.unit(name), *amount);
    }
    replies.text("granted_at_us");
    replies.integer(held.granted_at.as_micros());
}

fn used(replies: &mut Replies, active: &ActivePolicy, used: &PublicUsage) {
    let PublicUsage { member, used, .. } = used;
    replies.map(5);
    replies.text("key");
    replies.bulk(&used.key);
    replies.text("member");
    facts::optional_text(replies, member.as_deref());
    replies.text("limit");
    replies.text(&used.limit);
    replies.text("hour_us");
    replies.integer(used.starts_at.as_micros());
    replies.text("amount");
    facts::amount(replies, active.unit(&used.limit), used.amount);
}
