//! A key in the path of a call, which is taken out before the call goes on.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::PathAndQuery;
use tidegate_llm::dialect::plain;

/// What stands for the key in a pattern.
const KEY: &str = "{key}";

/// Where a path names whose limits count: `/team/{key}` at its beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPath {
    pattern: String,
}

/// A pattern that names no place for a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` names no place for a key; write the beginning of a path with one {{key}} in it, such as /team/{{key}}"
)]
pub struct BadKeyPath(String);

impl KeyPath {
    /// The key in a path that begins so, and the address without that beginning. `None` if the path does
    /// not begin so, letter for letter, or if it cannot be told what the key is
    /// ([`plain`]).
    pub(crate) fn taken(&self, uri: &Uri) -> Option<(Vec<u8>, Uri)> {
        let mut rest = uri.path();
        let mut key = None;
        for wanted in self.pattern.split('/').skip(1) {
            let behind = rest.strip_prefix('/')?;
            let end = behind.find('/').unwrap_or(behind.len());
            let (segment, others) = behind.split_at(end);
            match wanted {
                KEY => key = Some(plain(segment)?.strip_prefix('/')?.into()),
                _ if wanted == segment => {}
                _ => return None,
            }
            rest = others;
        }
        let rest = if rest.is_empty() { "/" } else { rest };
        let query = uri.query().map(|query| format!("?{query}"));
        let mut parts = uri.clone().into_parts();
        let path = PathAndQuery::try_from(format!("{rest}{}", query.unwrap_or_default()));
        parts.path_and_query = Some(path.ok()?);
        Some((key?, Uri::from_parts(parts).ok()?))
    }
}

impl FromStr for KeyPath {
    type Err = BadKeyPath;

    fn from_str(text: &str) -> Result<Self, BadKeyPath> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        let is_segment = |segment: &str| {
            let is_name = !segment.is_empty() && segment.chars().all(is_plain);
            segment == KEY || is_name && !matches!(segment, "." | "..")
        };
        let segments = text.strip_prefix('/').map(|rest| rest.split('/'));
        let is_sound = segments.is_some_and(|mut segments| segments.all(is_segment));
        match is_sound && text.matches(KEY).count() == 1 {
            true => Ok(Self {
                pattern: text.to_owned(),
            }),
            false => Err(BadKeyPath(text.to_owned())),
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pattern: &str, uri: &str) -> Option<(String, String)> {
        let pattern: KeyPath = pattern.parse().expect("a pattern");
        let (key, uri) = pattern.taken(&uri.parse().expect("an address"))?;
        Some((String::from_utf8(key).expect("text"), uri.to_string()))
    }

    #[test]
    fn a_key_is_taken_out_of_a_path_that_begins_as_the_pattern() {
        let is = |pattern, uri, key: &str, rest: &str| {
            let expected = Some((key.to_owned(), rest.to_owned()));
            assert_eq!(taken(pattern, uri), expected, "{pattern} {uri}");
        };
        is("/{key}", "/search/v1/chat", "search", "/v1/chat");
        is(
            "/team/{key}",
            "/team/search/v1?a=b&c",
            "search",
            "/v1?a=b&c",
        );
        is("/{key}/llm", "/search/llm/v1//x", "search", "/v1//x");
        is("/team/{key}", "/team/search", "search", "/");
        is("/team/{key}", "/team/search/", "search", "/");
        is("/team/{key}", "http://g:1/team/s/v1", "s", "http://g:1/v1");
        // As others decode it: a key is the same however it is spelt. A slash in it begins a level.
        is("/team/{key}", "/team/se%61rch/v1", "search", "/v1");
        is("/team/{key}", "/team/acme%2Falice/v1", "acme/alice", "/v1");
        is("/team/{key}", "/team/team/team/x", "team", "/team/x");
    }

    #[test]
    fn a_path_that_begins_otherwise_has_no_key() {
        for uri in [
            "/",
            "/v1/chat/completions",
            "/team",
            "/team/",
            "/team//v1",
            "/Team/search/v1",
            "/%74eam/search/v1",
            "//team/search/v1",
            "/teams/search/v1",
            "/team/../v1",
            "/team/%2e/v1",
            "/team/a%3Bb/v1",
            "/team/a%5Cb/v1",
            "/team/a%20b/v1",
            "/team/%ff/v1",
            "/team/%2F/v1",
            "/team/a%2F%2E%2E/v1",
        ] {
            assert_eq!(taken("/team/{key}", uri), None, "{uri}");
        }
    }

    #[test]
    fn a_pattern_has_one_place_for_a_key() {
        for bad in [
            "",
            "/",
            "2",
            "team/{key}",
            "/team",
            "/{key}/{key}",
            "/team/{key}/",
            "//{key}",
            "/a{key}",
            "/{Key}",
            "/../{key}",
            "/./{key}",
            "/a b/{key}",
            "/a%20/{key}",
            "/?/{key}",
            "/é/{key}",
        ] {
            assert_eq!(bad.parse::<KeyPath>(), Err(BadKeyPath(bad.to_owned())));
        }
        let error = "/team".parse::<KeyPath>().unwrap_err().to_string();
        assert!(
            error.ends_with("with one {key} in it, such as /team/{key}"),
            "{error}"
        );
        assert_eq!(
            "/team/{key}".parse::<KeyPath>().unwrap().to_string(),
            "/team/{key}"
        );
    }
}
