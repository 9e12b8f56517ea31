//! Overrides: set, removed and listed.

use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize, Serializer};
use tidegate::{Limit, Page, Unit};
use tidegate_service::{Place, Placed, Setting, bounds, settings_of};

use super::listing::{bytes, key};
use crate::error::Problem;
use crate::parse::amount::InUnit;
use crate::parse::body::Body;
use crate::parse::context::{self, RequestContext};
use crate::parse::request::OverrideRequest;
use crate::render::answer;
use crate::render::listing::Name;

/// What a listing is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    policy: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
    #[serde(default)]
    exact: bool,
    cursor: Option<String>,
    limit: Option<u64>,
}

/// Which override is removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    policy: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
}

pub(crate) async fn all(context: RequestContext, uri: Uri) -> Result<Response, Problem> {
    let query: Query = context::query(&uri)?;
    let most = bounds::page(query.limit)?;
    let after = query.cursor.as_deref();
    let after = after.map(|text| bytes(&URL_SAFE_NO_PAD, text, "cursor"));
    let after = after.transpose()?;
    let of = named(query.policy, query.key, query.key_base64.as_deref())?;
    let (service, caller) = (context.app().service(), context.caller());
    let Page { items, next } = match query.exact {
        true => Page {
            items: Vec::from_iter(service.override_at(caller, &of)?),
            next: None,
        },
        false => service.list_overrides(caller, &of, after.as_deref(), most)?,
    };
    let cursor = next.map(|next| URL_SAFE_NO_PAD.encode(next));
    let overrides = items.iter().map(Shown::from).collect();
    Ok(answer::json(StatusCode::OK, &All { overrides, cursor }))
}

pub(crate) async fn set(
    context: RequestContext,
    Body(request): Body<OverrideRequest>,
) -> Result<Response, Problem> {
    let place = Place::read(request.policy.as_deref(), request.key()?)?;
    let service = context.app().service();
    let placed = service.write_override(context.caller(), &place, &request.limits.0);
    let placed = placed.await?;
    Ok(answer::json(StatusCode::OK, &Shown::from(&placed)))
}

pub(crate) async fn remove(context: RequestContext, uri: Uri) -> Result<Response, Problem> {
    let which: Which = context::query(&uri)?;
    let place = named(which.policy, which.key, which.key_base64.as_deref())?;
    let service = context.app().service();
    match service.remove_override(context.caller(), &place).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::not_found(format!(
            "no override is set for {place}; GET /v1/overrides lists those that are"
        ))),
    }
}

/// The place that a query names.
fn named(
    policy: Option<String>,
    text: Option<String>,
    base64: Option<&str>,
) -> Result<Place, Problem> {
    let key = key(text, base64)?;
    Ok(Place::read(policy.as_deref(), key.as_deref())?)
}

#[derive(Serialize)]
struct All<'a> {
    overrides: Vec<Shown<'a>>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    key: Option<Name<'a>>,
    level: &'static str,
    limits: Limits<'a>,
    inert: &'a [String],
}

impl<'a> From<&'a Placed> for Shown<'a> {
    fn from(placed: &'a Placed) -> Self {
        Self {
            policy: placed.place.resource.as_deref(),
            key: placed.place.entity.as_deref().map(Name::from),
            level: placed.place.level().name(),
            limits: Limits(&placed.limits),
            inert: &placed.inert,
        }
    }
}

/// Limits as requests have them.
struct Limits<'a>(&'a [Limit]);

struct Fields<'a>(&'a Limit);

struct SettingBody(Unit, Setting);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = self.0.iter();
        serializer.collect_map(limits.map(|limit| (limit.name(), Fields(limit))))
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = settings_of(self.0).into_iter();
        serializer.collect_map(
            fields.map(|(field, setting)| (field, SettingBody(self.0.amounts(), setting))),
        )
    }
}

impl Serialize for SettingBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.1 {
            Setting::Integer(number) => serializer.serialize_u64(*number),
            Setting::Units(amount) => InUnit(self.0, *amount).serialize(serializer),
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}
