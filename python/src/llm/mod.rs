//! Calls of providers of language models: what to take of limits for one, and what it has used.
//!
//! What bodies, headers and streams mean, `tidegate-llm` says; here are the words of Python.

mod call;
mod meter;
mod signals;

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use call::LlmCall;
pub(crate) use meter::LlmMeter;
pub(crate) use signals::_exhausted_for;

/// The headers of a request or of a response. What is none is left out: who sends it says so.
fn headers(lines: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}
