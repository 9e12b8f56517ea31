//! Lines of Python as headers.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers of a request or of a response. What is none is left out: who sends it says so.
pub(super) fn headers(lines: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}
