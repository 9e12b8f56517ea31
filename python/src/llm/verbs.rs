//! The verbs of a meter: what a request is, and the call that it begins.

use std::collections::HashMap;

use http::Method;
use pyo3::prelude::*;
use tidegate_llm::Asked;
use tidegate_llm::dialect::plain;

use super::call::{Body, LlmCall};
use super::headers::headers;
use super::meter::{LlmMeter, Written, WrittenWeight};

#[pymethods]
impl LlmMeter {
    /// `members`: the limits of a set, or of each set of a pool.
    #[new]
    fn new(
        py: Python<'_>,
        members: Vec<Vec<Bound<'_, PyAny>>>,
        counts: HashMap<String, String>,
        prices: HashMap<String, Written<'_>>,
        weights: HashMap<String, WrittenWeight<'_>>,
        provider: Option<&str>,
    ) -> PyResult<Self> {
        Self::of(py, members, counts, prices, weights, provider)
    }

    /// Whether a request uses tokens: then its body is to be read.
    fn uses_tokens(&self, method: &str, path: &str, headers: Vec<(String, String)>) -> bool {
        asked(method, path, &headers).is_some_and(|asked| asked.uses_tokens)
    }

    /// A request as a call. `body` of one that uses tokens.
    fn call(
        slf: Py<Self>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        body: Option<&[u8]>,
        key: String,
    ) -> LlmCall {
        let body = match (asked(method, path, &headers), body) {
            (None, _) => Body::Unclear,
            (Some(asked), None) => Body::Passes(asked),
            (Some(asked), Some(body)) => Body::Read(asked, body),
        };
        LlmCall::new(slf, body, key)
    }
}

fn asked(method: &str, path: &str, lines: &[(String, String)]) -> Option<Asked> {
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    Some(Asked::of(&method, &plain(path)?, &headers(lines)))
}
