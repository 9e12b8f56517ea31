//! Overrides, in the protocol's words.

use std::collections::HashMap;

use tidegate::{Limit, Page};
use tidegate_service::{Caller, Level, Place, Placed, Service, Setting, bounds, settings_of};
use tonic::Status;

use crate::parse::{after, most};
use crate::{error, proto};

/// The place of a request that must name one.
fn named(place: Option<&proto::Place>) -> Result<Place, Status> {
    let missing = "the request has no `place`; an empty one means every key in every policy";
    placed_at(place.ok_or_else(|| Status::invalid_argument(missing))?)
}

fn placed_at(place: &proto::Place) -> Result<Place, Status> {
    let place = Place::read(place.policy.as_deref(), place.key.as_deref());
    place.map_err(|wrong| error::status(&wrong))
}

pub async fn set(
    service: &Service,
    caller: &Caller,
    request: &proto::SetOverrideRequest,
) -> Result<proto::Override, Status> {
    let place = named(request.place.as_ref())?;
    let mut limits: Vec<_> = request
        .limits
        .iter()
        .map(|(name, numbers)| (name.clone(), fields(numbers)))
        .collect();
    // A map has no order; what is wrong is told in one.
    limits.sort_by(|(one, _), (other, _)| one.cmp(other));
    let placed = service.write_override(caller, &place, &limits);
    let placed = placed.await.map_err(|wrong| error::status(&wrong))?;
    Ok(shown(&placed))
}

pub async fn remove(
    service: &Service,
    caller: &Caller,
    request: &proto::RemoveOverrideRequest,
) -> Result<proto::RemoveOverrideResponse, Status> {
    let place = named(request.place.as_ref())?;
    let removed = service.remove_override(caller, &place);
    let removed = removed.await.map_err(|wrong| error::status(&wrong))?;
    Ok(proto::RemoveOverrideResponse { removed })
}

pub fn list(
    service: &Service,
    caller: &Caller,
    request: &proto::ListOverridesRequest,
) -> Result<proto::ListOverridesResponse, Status> {
    let most = bounds::page(most(request.limit));
    let most = most.map_err(|wrong| error::status(&wrong))?;
    let of = request.of.as_ref().map(placed_at).transpose()?;
    let of = of.unwrap_or_default();
    let page = match request.exact {
        true => service.override_at(caller, &of).map(|one| Page {
            items: Vec::from_iter(one),
            next: None,
        }),
        false => service.list_overrides(caller, &of, after(&request.cursor), most),
    };
    let Page { items, next } = page.map_err(|wrong| error::status(&wrong))?;
    Ok(proto::ListOverridesResponse {
        overrides: items.iter().map(shown).collect(),
        cursor: next.unwrap_or_default().into(),
    })
}

fn shown(placed: &Placed) -> proto::Override {
    let limits = placed.limits.iter();
    proto::Override {
        place: Some(proto::Place {
            policy: placed.place.resource.clone(),
            key: placed.place.entity.clone().map(Into::into),
        }),
        level: level(placed.place.level()).into(),
        limits: limits
            .map(|limit| (limit.name().to_owned(), numbers(limit)))
            .collect(),
        inert: placed.inert.clone(),
    }
}

/// The limits of a peek whose numbers are an override's.
pub fn levels(overridden: Vec<(String, Level)>) -> HashMap<String, i32> {
    let named = overridden.into_iter();
    named.map(|(name, at)| (name, level(at).into())).collect()
}

const fn level(level: Level) -> proto::OverrideLevel {
    match level {
        Level::EntityAndResource => proto::OverrideLevel::EntityAndResource,
        Level::Entity => proto::OverrideLevel::Entity,
        Level::Resource => proto::OverrideLevel::Resource,
        Level::System => proto::OverrideLevel::System,
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
    amounts.chain(counts).chain(texts).collect()
}

/// The same of a limit that is set.
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
            // An override has no other fields; the unit is told with the policy.
            _ => {}
        }
    }
    numbers
}
