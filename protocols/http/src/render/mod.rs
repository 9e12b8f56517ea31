//! Answers into HTTP and JSON.
//!
//! | room | holds |
//! |---|---|
//! | `answer` | decisions and leases, and refusals, which are problems |
//! | `forecast`, `ended`, `listing` | what else the service answers |
//! | `headers` | the standard fields of rate limits |
//! | `instant` | points of time |

pub(crate) mod answer;
pub(crate) mod ended;
pub(crate) mod forecast;
pub(crate) mod headers;
pub(crate) mod instant;
pub(crate) mod listing;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tidegate_protocol::Delivery;
use tidegate_service::{Answer, Entry, Told};

use answer::{Many, json};
use ended::{Ended, Renewed};
use forecast::ForecastBody;
use headers::Style;
use instant::Instant;
use listing::{Keys, Leases};

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
        Answer::Forecast(served, forecasts, is_one) => {
            json(ok, &ForecastBody::of(served, forecasts, *is_one))
        }
        Answer::Acquired(served, entry, lease) => {
            let told = Told::entered(served, entry);
            let response = match entry {
                Entry::Granted(granted) => answer::granted(&told, granted, style),
                Entry::Refused(_) | Entry::Degraded(_) => answer::decided(&told, style),
            };
            // A lease goes along until it is delivered.
            match lease.clone() {
                Some(lease) => response.map(|body| Body::new(Delivery::new(body, lease))),
                None => response,
            }
        }
        Answer::Finished(served, finished) => json(ok, &Ended::of(served, finished)),
        Answer::Renewed(at) => {
            let expires_at = Instant(*at);
            json(ok, &Renewed { expires_at })
        }
        Answer::Forgotten => StatusCode::NO_CONTENT.into_response(),
        Answer::Keys(_, page) => json(ok, &Keys::from(page)),
        Answer::Leases(served, page) => json(ok, &Leases::of(served, page)),
    }
}
