//! Versions as headers have them.

use axum::http::HeaderValue;

/// A version as an `ETag`.
pub(crate) fn tag(version: u64) -> HeaderValue {
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    tag.unwrap_or(HeaderValue::from_static("\"0\""))
}
