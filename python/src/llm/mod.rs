//! Calls of providers of language models: what to take of limits for one, and what it has used.
//!
//! What bodies, headers and streams mean, `tidegate-llm` says; here are the words of Python.

mod call;
mod headers;
mod meter;
mod signals;
mod verbs;

pub(crate) use call::LlmCall;
pub(crate) use meter::LlmMeter;
pub(crate) use signals::_exhausted_for;
