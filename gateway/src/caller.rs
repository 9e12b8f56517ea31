//! Whose limits a call counts against.

use http::{HeaderMap, HeaderName, header};
use sha2::{Digest, Sha256};
use tidegate_protocol::bearer;

/// The key of those who show nothing.
const ANONYMOUS: &[u8] = b"anonymous";

/// The headers that a credential stands in, by every dialect.
const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// The credential of a call: a bearer's token, or a key.
pub fn credential(headers: &HeaderMap) -> Option<&[u8]> {
    CREDENTIALS.iter().find_map(|name| {
        let value = headers.get(name)?.as_bytes();
        Some(bearer(value).unwrap_or(value))
    })
}

/// Takes every credential out of a call's headers.
pub fn strip(headers: &mut HeaderMap) {
    for name in &CREDENTIALS {
        headers.remove(name);
    }
}

/// The key that a call counts against: what the header says, or a hash of its credential, of
/// which nothing else is ever shown.
pub fn key(headers: &HeaderMap, named_by: Option<&HeaderName>) -> Vec<u8> {
    let named = named_by.and_then(|name| headers.get(name));
    match (named, credential(headers)) {
        (Some(name), _) if !name.is_empty() => name.as_bytes().to_vec(),
        (_, Some(secret)) => hashed(secret),
        _ => ANONYMOUS.to_vec(),
    }
}

fn hashed(secret: &[u8]) -> Vec<u8> {
    let hash = Sha256::digest(secret);
    let digits = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
    format!("credential-{}", digits.collect::<String>()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_the_header_says_or_a_hash_and_never_the_credential() {
        let mut headers = HeaderMap::new();
        assert_eq!(key(&headers, None), ANONYMOUS);
        headers.insert("authorization", "Bearer sk-secret".parse().unwrap());
        let hashed = key(&headers, None);
        assert!(hashed.starts_with(b"credential-") && hashed.len() == 27);
        let mut other = HeaderMap::new();
        other.insert("x-api-key", "sk-secret".parse().unwrap());
        assert_eq!(
            key(&other, None),
            hashed,
            "the same secret is the same caller"
        );
        let team = HeaderName::from_static("x-team");
        assert_eq!(key(&headers, Some(&team)), hashed);
        headers.insert("x-team", "search".parse().unwrap());
        assert_eq!(key(&headers, Some(&team)), b"search");
        strip(&mut headers);
        assert_eq!(credential(&headers), None);
    }
}
