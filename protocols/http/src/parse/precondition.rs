//! What has to be there for a change to be made: `If-Match` and `If-None-Match` (RFC 9110).

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use tidegate_service::OnlyIf;

use crate::app::App;
use crate::error::Problem;

/// What has to be there; nothing if that was not said.
pub(crate) struct Precondition(pub(crate) Option<OnlyIf>);

impl FromRequestParts<App> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let matches = field(&parts.headers, &IF_MATCH)?
            .map(if_match)
            .transpose()?;
        let none = field(&parts.headers, &IF_NONE_MATCH)?
            .map(if_none_match)
            .transpose()?;
        match (matches, none) {
            (Some(_), Some(_)) => Err(Problem::invalid(
                "give `If-Match` or `If-None-Match`, not both",
            )),
            (matches, none) => Ok(Self(matches.or(none))),
        }
    }
}

/// What a field says, that comes once.
fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    match (first.map(|value| value.to_str()), all.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text.trim())),
        _ => Err(Problem::invalid(format!(
            "`{name}` is given once, in ASCII"
        ))),
    }
}

fn if_match(text: &str) -> Result<OnlyIf, Problem> {
    if text == "*" {
        return Ok(OnlyIf::Present);
    }
    let digits = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let version = digits.and_then(|digits| digits.parse().ok());
    version.map(OnlyIf::Version).ok_or_else(|| {
        Problem::invalid(
            "`If-Match` is `*` or one `ETag` as an answer had it, such as \"17\", with its quotes",
        )
    })
}

fn if_none_match(text: &str) -> Result<OnlyIf, Problem> {
    match text {
        "*" => Ok(OnlyIf::Absent),
        _ => Err(Problem::invalid(
            "`If-None-Match` is `*`: only if nothing is set there",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_is_a_star_or_a_version_in_quotes() {
        assert_eq!(if_match("*").unwrap(), OnlyIf::Present);
        assert_eq!(if_match("\"17\"").unwrap(), OnlyIf::Version(17));
        assert_eq!(if_none_match("*").unwrap(), OnlyIf::Absent);
        let wrong = [
            "",
            "17",
            "\"",
            "\"\"",
            "\"x\"",
            "\"+1\"",
            "\"1\", \"2\"",
            "W/\"1\"",
        ];
        for text in wrong {
            assert!(if_match(text).is_err(), "{text}");
        }
        assert!(if_match("\"18446744073709551616\"").is_err());
        assert!(if_none_match("\"1\"").is_err());
    }
}
