//! Answers into messages; nothing where the answer is that to another call.

use std::collections::HashMap;

use tidegate::{Limit, ListedKey, Metadata, Span, Timestamp, Unit, Verdict};
use tidegate_service::{
    Acquired, Acquisition, ActivePolicy, Answer, Finished, GrantedLease, Granting, Level,
    MemberForecast, OverrideTarget, PublicLease, PublicUsage, Record, Setting, StoredOverride,
    Told, settings_of,
};

use crate::error::problem;
use crate::proto;

/// Whether it may start, or what is charged, or what would be decided.
pub fn check(answer: Answer) -> Option<proto::CheckResponse> {
    Some(match answer {
        Answer::Decided(decided) | Answer::Charged(decided) => told(&decided.told()),
        Answer::Foretold(decided, overridden) => proto::CheckResponse {
            overrides: levels(overridden),
            ..told(&decided.told())
        },
        _ => return None,
    })
}

/// The answers to the checks of a batch.
pub fn many(answer: Answer) -> Option<Vec<proto::CheckResponse>> {
    let Answer::Many(answers) = answer else {
        return None;
    };
    let answers = answers.into_iter().map(|one| match one {
        Ok(decided) => told(&decided.told()),
        Err(error) => proto::CheckResponse {
            problem: Some(problem(&error)),
            ..Default::default()
        },
    });
    Some(answers.collect())
}

/// A lease, or why not.
pub fn acquired(acquisition: &Acquisition) -> proto::AcquireResponse {
    proto::AcquireResponse {
        decision: Some(told(&acquisition.told())),
        lease: match &acquisition.acquired {
            Acquired::Granted(granted) => Some(lease(granted)),
            Acquired::Refused(_) | Acquired::Degraded(_) => None,
        },
    }
}

/// Units to spend without asking, or why there are none.
pub fn granted(granting: &Granting) -> proto::GrantResponse {
    let amounts = granting.amounts();
    let amounts = amounts.map(|(limit, amount)| (limit.name().to_owned(), amount));
    let calls = granting.amounts().map(|(limit, _)| limit);
    let calls = calls.filter(|limit| limit.is_counted());
    proto::GrantResponse {
        decision: Some(told(&granting.told())),
        grant: granting.grant().map(|grant| proto::Grant {
            id: grant.id().to_string(),
            amounts: amounts.collect(),
            calls: calls.map(|limit| limit.name().to_owned()).collect(),
            good_for_ms: u64::try_from(grant.good_for().as_millis()).unwrap_or(u64::MAX),
            good_until_us: grant.good_until().as_micros(),
            granted_at_us: grant.granted_at().as_micros(),
            expires_at_us: grant.expires_at().as_micros(),
        }),
    }
}

/// What fits, by limit, or by that for each member of a pool.
pub fn forecast(answer: Answer) -> Option<proto::ForecastResponse> {
    let Answer::Forecast(_, forecasts, is_one) = answer else {
        return None;
    };
    let limits = |member: &MemberForecast| {
        let limits = member.limits.iter();
        limits
            .map(|(name, one)| (name.clone(), foreseen(one)))
            .collect()
    };
    let (limits, members) = match &forecasts[..] {
        [one] if is_one => (limits(one), HashMap::new()),
        several => {
            let members = several.iter().map(|member| {
                let name = member.member.clone().unwrap_or_default();
                let limits = limits(member);
                (name, proto::MemberForecast { limits })
            });
            (HashMap::new(), members.collect())
        }
    };
    Some(proto::ForecastResponse { limits, members })
}

/// How a lease has ended.
pub fn ended(answer: Answer) -> Option<proto::SettleResponse> {
    match answer {
        Answer::Finished(_, finished) => Some(self::finished(&finished)),
        _ => None,
    }
}

/// When a lease expires now.
pub fn renewed(answer: Answer) -> Option<proto::RenewResponse> {
    match answer {
        Answer::Renewed(renewed) => Some(proto::RenewResponse {
            expires_at_us: renewed.expires_at.as_micros(),
        }),
        _ => None,
    }
}

pub fn keys(answer: Answer) -> Option<proto::ListKeysResponse> {
    match answer {
        Answer::Keys(_, page) => Some(proto::ListKeysResponse {
            keys: page.items.into_iter().map(key).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

pub fn leases(answer: Answer) -> Option<proto::ListLeasesResponse> {
    match answer {
        Answer::Leases(_, page) => Some(proto::ListLeasesResponse {
            leases: page.items.into_iter().map(held).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

pub fn usage(answer: Answer) -> Option<proto::ListUsageResponse> {
    match answer {
        Answer::Usage(_, page) => Some(proto::ListUsageResponse {
            usage: page.items.into_iter().map(used).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

pub fn policies(answer: Answer) -> Option<proto::ListPoliciesResponse> {
    match answer {
        Answer::Policies(policies) => Some(proto::ListPoliciesResponse {
            policies: policies.iter().map(|active| policy(active)).collect(),
        }),
        _ => None,
    }
}

pub fn placed(answer: Answer) -> Option<proto::Override> {
    match answer {
        Answer::OverrideSet(placed) => Some(shown(&placed)),
        _ => None,
    }
}

pub fn removed(answer: Answer) -> Option<proto::RemoveOverrideResponse> {
    match answer {
        Answer::Removed(_, removed) => Some(proto::RemoveOverrideResponse { removed }),
        _ => None,
    }
}

pub fn overrides(answer: Answer) -> Option<proto::ListOverridesResponse> {
    let (items, next) = match answer {
        Answer::Override(placed) => (Vec::from_iter(placed), None),
        Answer::Overrides(page) => (page.items, page.next),
        _ => return None,
    };
    Some(proto::ListOverridesResponse {
        overrides: items.iter().map(shown).collect(),
        cursor: next.unwrap_or_default().into(),
    })
}

fn told(told: &Told<'_>) -> proto::CheckResponse {
    proto::CheckResponse {
        admitted: told.admitted(),
        not_until_us: told.not_until().map(|at| at.as_micros()),
        retry_after_ms: told.retry_after().map(Span::millis_up),
        binding: told.binding().unwrap_or_default().to_owned(),
        limits: told
            .limits()
            .map(|stand| (stand.name.to_owned(), standing(&stand.standing)))
            .collect(),
        shadowed: told.shadowed(),
        degraded: told.degraded(),
        problem: None,
        level: told.level().unwrap_or_default().to_owned(),
        member: told.member().unwrap_or_default().to_owned(),
        overrides: HashMap::new(),
        entity: told.entity().unwrap_or_default().to_owned(),
    }
}

fn standing(standing: &tidegate::Standing) -> proto::Standing {
    proto::Standing {
        limit: standing.limit,
        remaining: standing.remaining,
        debt: standing.debt,
        replenish_at_us: standing.replenish_at.map(|at| at.as_micros()),
        full_at_us: standing.full_at.map(|at| at.as_micros()),
    }
}

fn lease(granted: &GrantedLease) -> proto::Lease {
    proto::Lease {
        id: granted.id.to_string(),
        fence: granted.fence,
        expires_at_us: granted.expires_at.as_micros(),
        repeated: granted.repeated,
        member: granted.member().unwrap_or_default().to_owned(),
        metadata: words(granted.metadata()),
        granted_at_us: granted.granted_at.as_micros(),
    }
}

fn words(metadata: &Metadata) -> HashMap<String, String> {
    metadata.clone().into_iter().collect()
}

fn key(listed: ListedKey) -> proto::ListedKey {
    let standings = listed.decision.standings();
    let limits = standings.map(|(name, s)| (name.to_owned(), standing(&s)));
    proto::ListedKey {
        member: listed.decision.member().unwrap_or_default().to_owned(),
        limits: limits.collect(),
        key: listed.key.into(),
    }
}

fn used(of: PublicUsage) -> proto::UsedInHour {
    proto::UsedInHour {
        key: of.used.key.into(),
        member: of.member.unwrap_or_default(),
        limit: of.used.limit,
        hour_us: of.used.starts_at.as_micros(),
        amount: of.used.amount,
    }
}

fn held(held: PublicLease) -> proto::ListedLease {
    proto::ListedLease {
        key: held.key.into(),
        member: held.member.unwrap_or_default(),
        handle: held.handle.to_string(),
        fence: held.fence,
        expires_at_us: held.expires_at.as_micros(),
        taken: held.taken.into_iter().collect(),
        granted_at_us: held.granted_at.as_micros(),
    }
}

fn policy(active: &ActivePolicy) -> proto::Policy {
    let policy = active.policy();
    let members = policy.members.iter().zip(active.members());
    let names = |limits: &[Limit]| limits.iter().map(|l| l.name().to_owned()).collect();
    proto::Policy {
        name: policy.name.clone(),
        limits: names(&policy.limits),
        levels: policy.levels.clone(),
        members: members
            .map(|(said, stands)| proto::Member {
                name: said.name.clone(),
                limits: names(&said.limits),
                metadata: words(&said.metadata),
                weight: said.weight,
                load: stands.load(),
                cooling_until_us: stands.cooling().map(|at| at.as_micros()),
            })
            .collect(),
        metadata: words(&policy.metadata),
        shadow: policy.shadow,
        units: policy
            .limit_lists()
            .flatten()
            .filter(|limit| limit.amounts() != Unit::ONE)
            .map(|limit| (limit.name().to_owned(), limit.amounts().to_string()))
            .collect(),
    }
}

fn finished(finished: &Finished) -> proto::SettleResponse {
    let settlement = &finished.settlement;
    let usage = |usage: tidegate::Usage| proto::Usage {
        taken: usage.taken,
        used: usage.used,
    };
    let usages = settlement.usages();
    proto::SettleResponse {
        expired: settlement.expired(),
        repeated: settlement.repeated(),
        limits: usages
            .map(|(name, used)| (name.to_owned(), usage(used)))
            .collect(),
        member: finished.member.clone().unwrap_or_default(),
        cooling_until_us: finished.cooling_until.map(|at| at.as_micros()),
    }
}

fn foreseen(forecast: &tidegate::Forecast) -> proto::Forecast {
    let not_until = match forecast.verdict {
        Verdict::NotUntil(at) => Some(at.as_micros()),
        Verdict::Admit | Verdict::Never => None,
    };
    proto::Forecast {
        spendable: forecast.spendable,
        not_until_us: not_until,
        never: forecast.verdict == Verdict::Never,
        standing: Some(standing(&forecast.standing)),
    }
}

fn shown(placed: &StoredOverride) -> proto::Override {
    proto::Override {
        place: Some(place(placed.target.clone())),
        level: level(placed.target.level()).into(),
        inert: placed.inert.clone(),
        version: placed.version,
        ..override_of(&placed.limits, &placed.record)
    }
}

/// A policy and a key; unset where every one is meant.
pub fn place(target: OverrideTarget) -> proto::Place {
    proto::Place {
        policy: target.policy,
        key: target.key.map(Into::into),
    }
}

/// What an override says, and who set it: not where it is set.
pub fn override_of(limits: &[Limit], record: &Record) -> proto::Override {
    let numbers = |limit: &Limit| (limit.name().to_owned(), numbers(limit));
    proto::Override {
        limits: limits.iter().map(numbers).collect(),
        by: record.by.clone().unwrap_or_default(),
        reason: record.reason.clone().unwrap_or_default(),
        expires_at_us: record.expires_at.map(micros),
        created_at_us: record.created_at.map(micros),
        changed_at_us: record.changed_at.map(micros),
        ..Default::default()
    }
}

pub const fn micros(at: Timestamp) -> i64 {
    at.as_micros()
}

/// The limits of a peek whose numbers are an override's.
fn levels(overridden: Vec<(String, Level)>) -> HashMap<String, i32> {
    let named = overridden.into_iter();
    named.map(|(name, at)| (name, level(at).into())).collect()
}

const fn level(level: Level) -> proto::OverrideLevel {
    match level {
        Level::KeyAndPolicy => proto::OverrideLevel::KeyAndPolicy,
        Level::Key => proto::OverrideLevel::Key,
        Level::Policy => proto::OverrideLevel::Policy,
        Level::Everything => proto::OverrideLevel::Everything,
    }
}

/// The fields of a limit that is set.
fn numbers(limit: &Limit) -> proto::LimitNumbers {
    let mut numbers = proto::LimitNumbers::default();
    for (field, setting) in settings_of(limit) {
        match (field, setting) {
            ("calls", Setting::Units(count)) => numbers.calls = Some(count),
            ("rate", Setting::Units(count)) => numbers.rate = Some(count),
            ("budget", Setting::Units(count)) => numbers.budget = Some(count),
            ("concurrency", Setting::Units(count)) => numbers.concurrency = Some(count),
            ("burst", Setting::Units(count)) => numbers.burst = Some(count),
            ("sub_windows", Setting::Integer(count)) => numbers.sub_windows = Some(count),
            ("max_entries", Setting::Integer(count)) => numbers.max_entries = Some(count),
            ("per", Setting::Text(text)) => numbers.per = text,
            ("zone", Setting::Text(text)) => numbers.zone = text,
            ("ttl", Setting::Text(text)) => numbers.ttl = text,
            ("algorithm", Setting::Text(text)) => numbers.algorithm = text,
            ("added", Setting::Flag(added)) => numbers.added = added,
            // An override has no other fields; the unit is told with the policy.
            _ => {}
        }
    }
    numbers
}
