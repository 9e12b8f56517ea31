//! Versions as headers have them.

use axum::http::HeaderValue;
use axum::http::header::ETAG;
use axum::response::Response;

/// An answer about one thing alone, with its version.
pub(super) fn tagged(mut response: Response, version: u64) -> Response {
    response.headers_mut().insert(ETAG, tag(version));
    response
}

/// A version as an `ETag`.
pub(crate) fn tag(version: u64) -> HeaderValue {
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    tag.unwrap_or(HeaderValue::from_static("\"0\""))
}
