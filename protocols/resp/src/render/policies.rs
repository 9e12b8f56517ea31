//! What the policies say.

use std::sync::Arc;

use tidegate::{Limit, Period};
use tidegate_service::ActivePolicy;

use super::facts;
use super::reply::Replies;

/// By name.
pub(super) fn policies(replies: &mut Replies, policies: &[Arc<ActivePolicy>]) {
    replies.map(policies.len());
    policies.iter().for_each(|active| one(replies, active));
}

fn one(replies: &mut Replies, active: &ActivePolicy) {
    let policy = active.policy();
    replies.text(&policy.name);
    replies.map(if policy.is_pool() { 3 } else { 2 });
    replies.text("levels");
    replies.array(policy.levels.len());
    policy.levels.iter().for_each(|level| replies.text(level));
    replies.text("limits");
    replies.map(policy.limits.len());
    policy.limits.iter().for_each(|each| limit(replies, each));
    if policy.is_pool() {
        replies.text("members");
        members(replies, active);
    }
}

/// Each member of a pool: its weight, its load, until when it cools down, and
/// its limits.
fn members(replies: &mut Replies, active: &ActivePolicy) {
    let policy = active.policy();
    replies.map(policy.members.len());
    for (said, stands) in policy.members.iter().zip(active.members()) {
        replies.text(&said.name);
        replies.map(4);
        replies.text("weight");
        replies.count(said.weight.into());
        replies.text("load");
        replies.count(stands.load());
        replies.text("cooling_until_us");
        match stands.cooling() {
            Some(until) => replies.integer(until.as_micros()),
            None => replies.null(),
        }
        replies.text("limits");
        replies.map(said.limits.len());
        said.limits.iter().for_each(|each| limit(replies, each));
    }
}

fn limit(replies: &mut Replies, limit: &Limit) {
    replies.text(limit.name());
    replies.map(4);
    replies.text("counts");
    replies.text(match (limit.is_concurrency(), limit.is_counted()) {
        (true, _) => "concurrency",
        (_, true) => "calls",
        (_, false) => "amounts",
    });
    replies.text("limit");
    facts::amount(replies, limit.amounts(), limit.capacity());
    replies.text("at_most");
    facts::amount(replies, limit.amounts(), limit.at_most());
    replies.text("per");
    facts::optional_text(replies, limit.period().map(per).as_deref());
}

/// A duration in milliseconds, or a calendar's unit in its zone.
fn per(period: &Period) -> String {
    match period {
        Period::Every(duration) => format!("{} ms", duration.as_millis()),
        Period::Day { zone } => format!("day in {zone}"),
        Period::Week { zone } => format!("week in {zone}"),
        Period::Month { zone } => format!("month in {zone}"),
    }
}
