//! Whose limits a call counts against.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Uri};
use sha2::{Digest, Sha256};
use tidegate::Key;
use tidegate_llm::Provider;
use tidegate_protocol::bearer;

use crate::credentials::CREDENTIALS;
use crate::settings::{Settings, Upstream};

/// The key of those who show nothing.
const ANONYMOUS: &[u8] = b"anonymous";

/// Where a credential stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Header(HeaderName),
    /// `key` of Gemini's query.
    Query,
}

/// Where the credential of a call stands. What the provider looks at comes first, or a caller would
/// have as many keys as it can invent values of a header that nobody checks.
fn place(headers: &HeaderMap, uri: &Uri, provider: Provider) -> Option<Place> {
    let (own, _) = Upstream::credential_header(provider);
    if headers.contains_key(&own) {
        return Some(Place::Header(own));
    }
    if provider == Provider::Gemini && uri.query().and_then(key_of).is_some() {
        return Some(Place::Query);
    }
    let other = CREDENTIALS
        .into_iter()
        .find(|name| headers.contains_key(name));
    other.map(Place::Header)
}

/// The credential of a call: a bearer's token, or a key.
pub fn credential<'h>(
    headers: &'h HeaderMap,
    uri: &Uri,
    provider: Provider,
) -> Option<Cow<'h, [u8]>> {
    match place(headers, uri, provider)? {
        Place::Query => key_of(uri.query()?).map(Cow::Owned),
        Place::Header(name) => {
            // Over HTTP/2 it comes with the spaces around it.
            let value = headers.get(name)?.as_bytes().trim_ascii();
            Some(Cow::Borrowed(bearer(value).unwrap_or(value)))
        }
    }
}

/// Takes every credential out of a call but the one that it counts by: by whichever of several the
/// provider goes, nobody has called it with another.
pub fn keep_one(head: &mut Parts, settings: &Settings) {
    let place = place(&head.headers, &head.uri, settings.provider());
    let of_header = match &place {
        Some(Place::Header(name)) => head.headers.remove(name).map(|value| (name, value)),
        _ => None,
    };
    strip(&mut head.headers);
    if let Some((name, value)) = of_header {
        head.headers.insert(name, value);
    }
    let mut upstreams = settings.upstreams.iter();
    let reads_query = upstreams.any(|upstream| upstream.provider == Provider::Gemini);
    let path = head.uri.path_and_query().filter(|_| reads_query);
    let Some(path) = path.filter(|path| path.query().is_some()) else {
        return;
    };
    let path = with_keys(path.as_str(), usize::from(place == Some(Place::Query)));
    let mut parts = head.uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
}

/// `key` of a query: Gemini's other place for a credential.
fn key_of(query: &str) -> Option<Vec<u8>> {
    let mut all = form_urlencoded::parse(query.as_bytes());
    let (_, key) = all.find(|(name, _)| name == "key")?;
    Some(key.into_owned().into_bytes())
}

/// A path with its query, of whose keys only the first `most` are left.
pub fn with_keys(path: &str, most: usize) -> String {
    let Some((path, query)) = path.split_once('?') else {
        return path.to_owned();
    };
    let mut keys = 0;
    let kept = query.split('&').filter(|one| {
        keys += usize::from(key_of(one).is_some());
        keys <= most || key_of(one).is_none()
    });
    let kept: Vec<&str> = kept.collect();
    match kept.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", kept.join("&")),
    }
}

/// Takes every credential out of a call's headers.
pub fn strip(headers: &mut HeaderMap) {
    for name in &CREDENTIALS {
        headers.remove(name);
    }
}

/// What the header says that names whose limits count, if it says something.
pub fn named<'h>(headers: &'h HeaderMap, by: Option<&HeaderName>) -> Option<&'h [u8]> {
    let name = by.and_then(|name| headers.get(name))?.as_bytes();
    Some(name).filter(|name| !name.is_empty())
}

/// What a caller is called by its credential alone: a hash of it, of which nothing else is ever
/// shown.
pub fn by_credential(credential: Option<&[u8]>) -> Arc<[u8]> {
    match credential {
        Some(secret) => hashed(secret),
        None => ANONYMOUS.into(),
    }
}

/// `key`, below a root.
pub fn below(root: &str, key: &[u8]) -> Vec<u8> {
    [&Key::path([root]), &b"/"[..], key].concat()
}

fn hashed(secret: &[u8]) -> Arc<[u8]> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = *b"credential-0123456789abcdef";
    let digits = name["credential-".len()..].chunks_exact_mut(2);
    for (two, byte) in digits.zip(Sha256::digest(secret)) {
        two[0] = DIGITS[usize::from(byte >> 4)];
        two[1] = DIGITS[usize::from(byte & 15)];
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Provider::{Anthropic, Gemini, OpenAi};

    fn key(headers: &HeaderMap, by: Option<&HeaderName>, provider: Provider) -> Vec<u8> {
        let credential = credential(headers, &Uri::from_static("/"), provider);
        let by_credential = || by_credential(credential.as_deref()).to_vec();
        named(headers, by).map_or_else(by_credential, <[u8]>::to_vec)
    }

    #[test]
    fn a_key_is_what_the_header_says_or_a_hash_and_never_the_credential() {
        let mut headers = HeaderMap::new();
        assert_eq!(key(&headers, None, OpenAi), ANONYMOUS);
        headers.insert("authorization", "Bearer sk-secret".parse().unwrap());
        let hashed = key(&headers, None, OpenAi);
        // printf sk-secret | sha256sum
        assert_eq!(hashed, b"credential-746b4ad1ca9129e1");
        let mut other = HeaderMap::new();
        other.insert("x-api-key", "sk-secret".parse().unwrap());
        assert_eq!(
            key(&other, None, OpenAi),
            hashed,
            "the same secret is the same caller"
        );
        for same in ["Bearer\tsk-secret", " bearer  sk-secret ", " sk-secret"] {
            other.insert("authorization", same.parse().unwrap());
            assert_eq!(key(&other, None, OpenAi), hashed, "{same:?}");
        }
        let team = HeaderName::from_static("x-team");
        assert_eq!(key(&headers, Some(&team), OpenAi), hashed);
        headers.insert("x-team", "search".parse().unwrap());
        assert_eq!(key(&headers, Some(&team), OpenAi), b"search");
        strip(&mut headers);
        assert_eq!(credential(&headers, &Uri::from_static("/"), OpenAi), None);
    }

    #[test]
    fn geminis_key_in_a_query_is_a_credential_behind_that_of_its_header() {
        let uri = Uri::from_static("/v1beta/models/m:generateContent?alt=sse&%6Bey=a%2Db&key=c");
        let mut headers = HeaderMap::new();
        assert_eq!(credential(&headers, &uri, Gemini), Some(b"a-b"[..].into()));
        assert_eq!(credential(&headers, &uri, OpenAi), None);
        headers.insert("x-goog-api-key", "d".parse().unwrap());
        assert_eq!(credential(&headers, &uri, Gemini), Some(b"d"[..].into()));
        let with = |most| with_keys("/m?alt=sse&%6Bey=a%2Db&key=c", most);
        assert_eq!(with(0), "/m?alt=sse");
        assert_eq!(with(1), "/m?alt=sse&%6Bey=a%2Db");
        assert_eq!(with(usize::MAX), "/m?alt=sse&%6Bey=a%2Db&key=c");
        assert_eq!(with_keys("/m?key=a", 0), "/m");
    }

    #[test]
    fn a_header_that_the_provider_does_not_look_at_makes_no_new_caller() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "sk-secret".parse().unwrap());
        let known = key(&headers, None, Anthropic);
        headers.insert("authorization", "Bearer invented".parse().unwrap());
        assert_eq!(key(&headers, None, Anthropic), known);
        assert_ne!(key(&headers, None, OpenAi), known);
    }

    #[test]
    fn a_call_keeps_the_one_credential_that_it_counts_by() {
        let kept = |provider: Provider, path: &str, all: &[(&str, &str)]| {
            let upstream = Upstream {
                name: "one".into(),
                provider,
                base: Uri::from_static("http://127.0.0.1:1"),
                secret: None,
            };
            let mut call = http::Request::post(path);
            for (name, value) in all {
                call = call.header(*name, *value);
            }
            let (mut head, ()) = call.body(()).unwrap().into_parts();
            let before = key(&head.headers, None, provider);
            keep_one(&mut head, &Settings::new("llm", vec![upstream]));
            let mut left = vec![head.uri.to_string()];
            left.extend(
                head.headers
                    .values()
                    .map(|value| value.to_str().unwrap().to_owned()),
            );
            assert_eq!(key(&head.headers, None, provider), before);
            left
        };
        let (bearer, other) = (("authorization", "Bearer a"), ("authorization", "Bearer b"));
        let (x, azure) = (("x-api-key", "x"), ("api-key", "z"));
        assert_eq!(
            kept(OpenAi, "/v1", &[bearer, other, x]),
            ["/v1", "Bearer a"]
        );
        assert_eq!(kept(Anthropic, "/v1", &[bearer, x, azure]), ["/v1", "x"]);
        assert_eq!(kept(Anthropic, "/v1", &[bearer]), ["/v1", "Bearer a"]);
        let team = ("x-team", "search");
        assert_eq!(kept(OpenAi, "/v1?key=k", &[team]), ["/v1?key=k", "search"]);
        let google = ("x-goog-api-key", "g");
        assert_eq!(kept(Gemini, "/m?key=k", &[google, bearer]), ["/m", "g"]);
    }

    #[test]
    fn a_call_that_counts_by_its_query_keeps_the_first_key_alone() {
        let upstream = Upstream::of(Gemini).unwrap();
        let call = http::Request::post("/m?alt=sse&key=a&key=b");
        let call = call.header("authorization", "Bearer a").body(());
        let (mut head, ()) = call.unwrap().into_parts();
        keep_one(&mut head, &Settings::new("llm", vec![upstream]));
        assert_eq!(head.uri, "/m?alt=sse&key=a");
        assert!(head.headers.is_empty());
    }
}
