//! Headers that carry a credential.

use http::{HeaderName, header};

/// The headers that a credential stands in, by every dialect.
pub const CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// Whether a credential stands in the header of this name.
pub fn is_credential(name: &HeaderName) -> bool {
    CREDENTIALS.contains(name)
}

/// Whether what stands in the header of this name is nobody's business but its receiver's.
pub fn is_secret(name: &HeaderName) -> bool {
    is_credential(name) || matches!(*name, header::PROXY_AUTHORIZATION | header::COOKIE)
}
