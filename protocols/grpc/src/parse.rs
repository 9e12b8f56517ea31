//! Calls out of messages.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use tidegate::{Outcome, Select, Timestamp};
use tidegate_service::{
    Amounts, Call, Field, GrantTerms, LeaseHandle, Listing, Number, OfLease, OnlyIf,
    OverrideListing, OverrideOf, OverrideTerms, Question, Report, ServiceError, Setting, Terms,
    Until, UsageBy, UsageListing, Uses, Whose, bounds,
};
use tonic::Status;

use crate::error::status;
use crate::proto;
use crate::proto::list_keys_request::Select as OfKeys;
use crate::proto::list_leases_request::Select as OfLeases;
use crate::proto::list_usage_request::Select as OfUsage;

/// What is asked of a policy's limits.
fn question(request: &proto::CheckRequest) -> Result<Question<'_>, ServiceError> {
    Ok(Question {
        policy: &request.policy,
        whose: whose(&request.key, request.entity.as_deref())?,
        member: said(&request.member),
        cost: request.cost.map(Number::Units),
        amounts: amounts(&request.amounts),
    })
}

/// Whose limits are meant: those of a key, or of an entity.
fn whose<'a>(key: &'a [u8], entity: Option<&'a str>) -> Result<Whose<'a>, ServiceError> {
    match entity {
        None => Ok(Whose::Key(key)),
        Some(id) if key.is_empty() => Ok(Whose::Entity(id)),
        Some(_) => Err(ServiceError::Form {
            field: Field::Entity,
            wrong: "it stands in place of a `key`; give one of the two",
        }),
    }
}

/// A call that asks this of a policy's limits.
pub fn asked<'a>(
    request: &'a proto::CheckRequest,
    call: fn(Question<'a>) -> Call<'a>,
) -> Result<Call<'a>, Status> {
    let question = question(request).map_err(|error| status(&error))?;
    Ok(call(question))
}

fn amounts(amounts: &HashMap<String, u64>) -> Amounts<'_> {
    let amounts = amounts.iter();
    amounts
        .map(|(name, &amount)| (name.as_str(), Number::Units(amount)))
        .collect()
}

fn uses(cost: Option<u64>, named: &HashMap<String, u64>) -> Uses<'_> {
    Uses {
        cost: cost.map(Number::Units),
        amounts: amounts(named),
    }
}

pub fn check_many(request: &proto::CheckManyRequest) -> Call<'_> {
    Call::CheckMany(request.checks.iter().map(question).collect())
}

pub fn acquire(request: &proto::AcquireRequest) -> Result<Call<'_>, Status> {
    let missing = || Status::invalid_argument("the acquisition has no `request`");
    let question = question(request.request.as_ref().ok_or_else(missing)?);
    let question = question.map_err(|error| status(&error))?;
    let terms = Terms {
        wait_ms: request.wait_ms.unwrap_or_default(),
        wait_for_refunds: request.wait_for_refunds,
        ttl_ms: request.ttl_ms,
        priority: request.priority.into(),
        idempotency: request.idempotency_key.as_deref(),
        standings: false,
        passed_over: &[],
    };
    Ok(Call::Acquire(question, terms))
}

pub fn grant(request: &proto::GrantRequest) -> Result<Call<'_>, Status> {
    let missing = || Status::invalid_argument("the grant has no `request`");
    let question = question(request.request.as_ref().ok_or_else(missing)?);
    let question = question.map_err(|error| status(&error))?;
    let lease = Some(&*request.lease).filter(|lease| !lease.is_empty());
    let lease = lease.map(|lease| bounds::lease(lease.as_bytes()));
    let terms = GrantTerms {
        least: amounts(&request.least),
        hold_ms: request.hold_ms,
        lease: lease.transpose().map_err(|error| status(&error))?,
    };
    Ok(Call::Grant(question, Box::new(terms)))
}

pub fn return_grant(request: &proto::ReturnRequest) -> Result<Call<'_>, Status> {
    let id = bounds::lease(request.lease.as_bytes());
    let whose = whose(&request.key, request.entity.as_deref());
    let of = OfLease {
        policy: &request.policy,
        whose: whose.map_err(|error| status(&error))?,
        lease: id.map_err(|error| status(&error))?,
    };
    Ok(Call::Return(of, uses(request.cost, &request.used)))
}

pub fn settle(request: &proto::SettleRequest) -> Result<Call<'_>, Status> {
    let (of, report) = ended(named(request.lease.as_ref())?)?;
    Ok(Call::Settle(of, report, uses(request.cost, &request.used)))
}

pub fn renew(request: &proto::RenewRequest) -> Result<Call<'_>, Status> {
    let of = of_lease(named(request.lease.as_ref())?)?;
    Ok(Call::Renew(of, request.ttl_ms))
}

pub fn adjust(request: &proto::AdjustRequest) -> Result<Call<'_>, Status> {
    let of = of_lease(named(request.lease.as_ref())?)?;
    let to = uses(request.cost, &request.amounts);
    Ok(Call::Adjust(of, to, request.overdraw))
}

/// A lease that ends, with what is said of its work.
pub fn ended(lease: &proto::LeaseRequest) -> Result<(OfLease<'_>, Report), Status> {
    Ok((of_lease(lease)?, report(lease)?))
}

fn named(lease: Option<&proto::LeaseRequest>) -> Result<&proto::LeaseRequest, Status> {
    lease.ok_or_else(|| Status::invalid_argument("the request names no lease"))
}

fn of_lease(lease: &proto::LeaseRequest) -> Result<OfLease<'_>, Status> {
    let id = bounds::lease(lease.lease.as_bytes());
    Ok(OfLease {
        policy: &lease.policy,
        whose: whose(&lease.key, lease.entity.as_deref()).map_err(|error| status(&error))?,
        lease: id.map_err(|error| status(&error))?,
    })
}

/// What is said of the work when a lease ends.
fn report(lease: &proto::LeaseRequest) -> Result<Report, Status> {
    let unknown = |_| Status::invalid_argument("there is no such outcome");
    let outcome = proto::Outcome::try_from(lease.outcome).map_err(unknown)?;
    Ok(Report {
        outcome: match outcome {
            proto::Outcome::Succeeded => Outcome::Succeeded,
            proto::Outcome::Ignored => Outcome::Ignored,
            proto::Outcome::Dropped => Outcome::Dropped,
        },
        cool_down: lease.cool_down_ms.map(Duration::from_millis),
    })
}

/// Whose refusals are watched; all that the caller may observe if no policy is named.
pub fn watch(request: &proto::WatchDenialsRequest) -> Call<'_> {
    Call::WatchDenials(said(&request.policy))
}

pub fn revoke(request: &proto::RevokeLeaseRequest) -> Result<Call<'_>, Status> {
    let handle = LeaseHandle::read(request.handle.as_bytes());
    let handle = handle.map_err(|error| status(&error))?;
    let whose = whose(&request.key, request.entity.as_deref());
    let whose = whose.map_err(|error| status(&error))?;
    Ok(Call::Revoke(&request.policy, whose, handle))
}

pub fn reset(request: &proto::ResetRequest) -> Result<Call<'_>, Status> {
    let whose = whose(&request.key, request.entity.as_deref());
    let whose = whose.map_err(|error| status(&error))?;
    Ok(Call::Reset(&request.policy, whose))
}

pub fn keys(request: &proto::ListKeysRequest) -> Call<'_> {
    let select = match &request.select {
        Some(OfKeys::Key(key)) => Select::Key(key),
        Some(OfKeys::Prefix(prefix)) => Select::Prefix(prefix),
        None => Select::All,
    };
    let listing = listing(select, &request.cursor, request.limit);
    Call::Keys(&request.policy, listing)
}

pub fn leases(request: &proto::ListLeasesRequest) -> Call<'_> {
    let select = match &request.select {
        Some(OfLeases::Key(key)) => Select::Key(key),
        Some(OfLeases::Prefix(prefix)) => Select::Prefix(prefix),
        None => Select::All,
    };
    let listing = listing(select, &request.cursor, request.limit);
    Call::Leases(&request.policy, listing)
}

pub fn usage(request: &proto::ListUsageRequest) -> Result<Call<'_>, Status> {
    let (select, entity) = match &request.select {
        Some(OfUsage::Key(key)) => (Select::Key(key), None),
        Some(OfUsage::Prefix(prefix)) => (Select::Prefix(prefix), None),
        Some(OfUsage::Entity(id)) => (Select::All, Some(id.as_str())),
        None => (Select::All, None),
    };
    let listing = UsageListing {
        listing: listing(select, &request.cursor, request.limit),
        entity,
        since: request.since_us.map(Timestamp::from_micros),
        until: request.until_us.map(Timestamp::from_micros),
        by: match proto::UsageBy::try_from(request.by) {
            Ok(proto::UsageBy::Hour) => UsageBy::Hour,
            Ok(proto::UsageBy::Day) => UsageBy::Day,
            Ok(proto::UsageBy::Month) => UsageBy::Month,
            Err(_) => {
                return Err(Status::invalid_argument(
                    "`by` is no time that usage is added up by",
                ));
            }
        },
    };
    Ok(Call::Usage(&request.policy, listing))
}

fn listing<'a>(select: Select<'a>, cursor: &'a [u8], limit: u32) -> Listing<'a> {
    Listing {
        select,
        after: after(cursor).map(Into::into),
        most: most(limit),
    }
}

/// How many items a page has; 0 is not said.
pub fn most(limit: u32) -> Option<u64> {
    Some(u64::from(limit)).filter(|limit| *limit > 0)
}

/// A text that is not empty.
pub fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Where a page goes on, if it is not the first.
pub fn after(cursor: &[u8]) -> Option<&[u8]> {
    Some(cursor).filter(|cursor| !cursor.is_empty())
}

pub fn set_override(request: &proto::SetOverrideRequest) -> Result<Call<'_>, Status> {
    let of = placed(request.place.as_ref())?;
    let limits = request.limits.iter();
    let mut limits: Vec<_> = limits
        .map(|(name, numbers)| (name.clone(), fields(numbers)))
        .collect();
    // A map has no order; what is wrong is told in one.
    limits.sort_by(|(one, _), (other, _)| one.cmp(other));
    let until = match (request.expires_at_us, request.expires_in_ms) {
        (Some(_), Some(_)) => {
            return Err(Status::invalid_argument(
                "give `expires_at_us` or `expires_in_ms`, not both",
            ));
        }
        (at, millis) => {
            let at = at.map(|at| Until::At(Timestamp::from_micros(at)));
            at.or(millis.map(|millis| Until::For(Duration::from_millis(millis))))
        }
    };
    let terms = OverrideTerms {
        until,
        ..terms(request.if_version, &request.reason)
    };
    Ok(Call::SetOverride(of, Cow::Owned(limits), terms))
}

fn terms(if_version: Option<u64>, reason: &str) -> OverrideTerms<'_> {
    OverrideTerms {
        only_if: if_version.map(OnlyIf::number),
        reason: said(reason),
        until: None,
    }
}

pub fn remove_override(request: &proto::RemoveOverrideRequest) -> Result<Call<'_>, Status> {
    let of = placed(request.place.as_ref())?;
    let terms = terms(request.if_version, &request.reason);
    Ok(Call::RemoveOverride(of, terms))
}

pub fn overrides(request: &proto::ListOverridesRequest) -> Call<'_> {
    Call::Overrides(OverrideListing {
        of: request.of.as_ref().map(of_place).unwrap_or_default(),
        exact: request.exact,
        after: after(&request.cursor).map(Into::into),
        most: most(request.limit),
    })
}

/// The place of a request that must name one.
fn placed(place: Option<&proto::Place>) -> Result<OverrideOf<'_>, Status> {
    let missing = "the request has no `place`; an empty one means every key in every policy";
    let place = place.ok_or_else(|| Status::invalid_argument(missing))?;
    Ok(of_place(place))
}

pub fn of_place(place: &proto::Place) -> OverrideOf<'_> {
    OverrideOf {
        policy: place.policy.as_deref(),
        key: place.key.as_deref(),
        entity: None,
    }
}

/// The fields of a limit that were given.
fn fields(numbers: &proto::LimitNumbers) -> Vec<(String, Setting)> {
    let amounts = [
        ("calls", numbers.calls),
        ("rate", numbers.rate),
        ("budget", numbers.budget),
        ("concurrency", numbers.concurrency),
        ("burst", numbers.burst),
    ];
    let counts = [
        ("sub_windows", numbers.sub_windows),
        ("max_entries", numbers.max_entries),
    ];
    let texts = [
        ("per", &numbers.per),
        ("zone", &numbers.zone),
        ("ttl", &numbers.ttl),
        ("algorithm", &numbers.algorithm),
    ];
    let amounts = amounts
        .into_iter()
        .filter_map(|(field, amount)| Some((field.to_owned(), Setting::Units(amount?))));
    let counts = counts
        .into_iter()
        .filter_map(|(field, count)| Some((field.to_owned(), Setting::Integer(count?))));
    let texts = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(field, text)| (field.to_owned(), Setting::Text(text.clone())));
    let added = numbers
        .added
        .then(|| ("added".to_owned(), Setting::Flag(true)));
    amounts.chain(counts).chain(texts).chain(added).collect()
}
