//! Whose limits a call counts against.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Uri, header};
use sha2::{Digest, Sha256};
use tidegate::Key;
use tidegate_llm::Provider;
use tidegate_protocol::bearer;

use crate::settings::Upstream;

/// The key of those who show nothing.
const ANONYMOUS: &[u8] = b"anonymous";

/// The headers that a credential stands in, by every dialect.
const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// The credential of a call: a bearer's token, or a key. What the provider looks at comes first, or
/// a caller would have as many keys as it can invent values of a header that nobody checks.
pub fn credential<'h>(
    headers: &'h HeaderMap,
    uri: &Uri,
    provider: Provider,
) -> Option<Cow<'h, [u8]>> {
    let (own, _) = Upstream::credential_header(provider);
    let of_header = |name: &HeaderName| {
        let value = headers.get(name)?.as_bytes();
        Some(Cow::Borrowed(bearer(value).unwrap_or(value)))
    };
    let of_query = || match provider {
        Provider::Gemini => key_of(uri.query()?).map(Cow::Owned),
        _ => None,
    };
    let others = || CREDENTIALS.iter().find_map(of_header);
    of_header(&own).or_else(of_query).or_else(others)
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
}
