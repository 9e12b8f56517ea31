//! Answers into HTTP and JSON.
//!
//! | room | holds |
//! |---|---|
//! | `answer` | decisions and leases, and refusals, which are problems |
//! | `grant` | units to be spent without asking |
//! | `forecast`, `ended`, `listing`, `capacity`, `fleet`, `overrides`, `entities`, `namespaces`, `audit`, `policies` | what else the service answers |
//! | `example` | answers as the document shows them |
//! | `headers` | the standard fields of rate limits |
//! | `instant`, `tag` | points of time; versions |

pub(crate) mod answer;
pub(crate) mod audit;
pub(crate) mod capacity;
pub(crate) mod ended;
pub(crate) mod entities;
pub(crate) mod example;
pub(crate) mod fleet;
pub(crate) mod forecast;
pub(crate) mod grant;
pub(crate) mod headers;
pub(crate) mod instant;
pub(crate) mod listing;
pub(crate) mod namespaces;
pub(crate) mod overrides;
pub(crate) mod policies;
pub(crate) mod tag;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tidegate_protocol::Delivery;
use tidegate_service::{Acquired, Answer};

use crate::error::Problem;
use answer::{Many, json};
use audit::Audit;
use capacity::Capacity;
use ended::{Ended, Renewed};
use entities::Entities;
use fleet::Fleet;
use forecast::ForecastBody;
use headers::Style;
use listing::{Denied, Keys, Leases, Used};
use namespaces::{Namespaces, Purged};
use overrides::Overrides;
use policies::Policies;
use tag::tagged;

/// What the service has answered. What was used already is charged, so that a debit is no
/// refusal, whether any more may start or not.
pub(crate) fn render(answer: Answer, style: Style) -> Response {
    let ok = StatusCode::OK;
    match &answer {
        Answer::Decided(decided) => answer::decided(&decided.told(), style),
        Answer::Charged(decided) => answer::told(&decided.told(), style),
        Answer::Foretold(decided, overridden) => {
            answer::foretold(&decided.told(), overridden, style)
        }
        Answer::Many(answers) => json(ok, &Many::from(&answers[..])),
        Answer::Forecast(active, forecasts, is_one) => {
            json(ok, &ForecastBody::of(active, forecasts, *is_one))
        }
        Answer::Acquired(acquisition) => {
            let told = acquisition.told();
            let response = match &acquisition.acquired {
                Acquired::Granted(granted) => answer::granted(&told, granted, style),
                Acquired::Refused(_) | Acquired::Degraded(_) => answer::decided(&told, style),
            };
            // A lease goes along until it is delivered.
            match acquisition.lease.clone() {
                Some(lease) => response.map(|body| Body::new(Delivery::new(body, lease))),
                None => response,
            }
        }
        Answer::Granted(granting) => {
            let response = grant::granted(granting, style);
            match granting.lease.clone() {
                Some(lease) => response.map(|body| Body::new(Delivery::new(body, lease))),
                None => response,
            }
        }
        Answer::Finished(active, finished) => json(ok, &Ended::of(active, finished)),
        Answer::Renewed(renewed) => json(ok, &Renewed::from(*renewed)),
        Answer::Forgotten => StatusCode::NO_CONTENT.into_response(),
        Answer::Keys(_, page) => json(ok, &Keys::from(page)),
        Answer::Capacity(active, page) => json(ok, &Capacity::of(active, page)),
        Answer::Fleet(active, page) => json(ok, &Fleet::of(active, page)),
        Answer::Leases(active, page) => json(ok, &Leases::of(active, page)),
        Answer::Usage(active, page) => json(ok, &Used::of(active, page)),
        Answer::Denied(denied) => json(ok, &Denied::from(&denied[..])),
        Answer::OverrideSet(set) => tagged(json(ok, &overrides::Shown::from(set)), set.version),
        Answer::Removed(_, true) => StatusCode::NO_CONTENT.into_response(),
        Answer::Removed(target, false) => Problem::not_found(format!(
            "no override is set for {target}; GET /v1/overrides lists those that are"
        ))
        .into_response(),
        Answer::Override(set) => {
            let page = json(ok, &Overrides::from(set));
            match set {
                Some(set) => tagged(page, set.version),
                None => page,
            }
        }
        Answer::Overrides(page) => json(ok, &Overrides::from(page)),
        Answer::Audit(page) => json(ok, &Audit::from(page)),
        Answer::EntityKept(entity) => {
            tagged(json(ok, &entities::Shown::from(entity)), entity.version)
        }
        Answer::Entity(entity, ancestors) => {
            let shown = entities::Shown::below(entity, ancestors);
            tagged(json(ok, &shown), entity.version)
        }
        Answer::Entities(page) => json(ok, &Entities::from(page)),
        Answer::Namespace(namespace) => json(ok, &namespaces::Shown::from(namespace)),
        Answer::Namespaces(page) => json(ok, &Namespaces::from(page)),
        Answer::Purged(purge) => json(ok, &Purged::from(*purge)),
        Answer::Policies(policies) => json(ok, &Policies::from(&policies[..])),
        Answer::Policy(active) => json(ok, &policies::Shown::from(&**active)),
        Answer::Denials(_) | Answer::Rated(_) => Problem::other().into_response(),
    }
}
