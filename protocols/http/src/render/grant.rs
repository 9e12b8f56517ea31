//! Units that were granted, to be spent without asking.

use std::collections::BTreeMap;

use axum::response::Response;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::Limit;
use tidegate_service::Granting;

use super::answer::{Answer, decided, with_headers};
use super::example;
use super::headers::Style;
use super::instant::{Instant, millis_down};
use crate::parse::amount::InUnit;
use crate::parse::request;

/// The answer to a request for a grant.
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::grant())]
pub(crate) struct Grant<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    grant: Units<'a>,
}

/// What was granted, for its holder alone.
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::units())]
struct Units<'a> {
    /// The id of the lease that it is, which only its holder knows.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"), example = request::Lease::EXAMPLE)]
    id: String,
    /// How much was granted of each limit that the key has, by name: 0 of one that was not asked
    /// for. Of a limit with a `unit`, a decimal in quotes, with every digit of the unit.
    #[schemars(with = "BTreeMap<String, InUnit>", example = json!({"rpm": 20, "tpm": 40000}))]
    amounts: Amounts<'a>,
    /// Those that count calls: of each, a request that does not name it spends 1.
    calls: Vec<&'a str>,
    /// For how many milliseconds it is good. A client counts these by a clock of its own that
    /// never steps back, from before it sent the request, and spends nothing in the last
    /// thousandth of them.
    good_for_ms: u64,
    /// Until when that is, by the store's clock: the end of the first of the windows that were
    /// charged, or when the lease expires.
    good_until: Instant,
    /// When it was granted, by the store's clock.
    granted_at: Instant,
    /// When the lease expires. What was not returned by then was used.
    expires_at: Instant,
}

struct Amounts<'a>(&'a Granting);

impl Serialize for Amounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amounts = self.0.amounts();
        serializer.collect_map(
            amounts.map(|(limit, amount)| (limit.name(), InUnit(limit.amounts(), amount))),
        )
    }
}

/// Units were granted, or not.
pub(crate) fn granted(granting: &Granting, style: Style) -> Response {
    let told = granting.told();
    let Some(grant) = granting.grant() else {
        return decided(&told, style);
    };
    let limits = || granting.amounts().map(|(limit, _)| limit);
    let answer = Grant {
        answer: Answer::of(&told),
        grant: Units {
            id: grant.id().to_string(),
            amounts: Amounts(granting),
            calls: limits()
                .filter(|limit| limit.is_counted())
                .map(Limit::name)
                .collect(),
            good_for_ms: millis_down(grant.good_for()),
            good_until: Instant(grant.good_until()),
            granted_at: Instant(grant.granted_at()),
            expires_at: Instant(grant.expires_at()),
        },
    };
    with_headers(&answer, &told, style)
}
