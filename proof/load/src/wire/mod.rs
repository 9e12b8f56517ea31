//! Asks and answers as bytes, on connections that answer in order.

mod exchange;
mod http;
mod resp;

pub use exchange::{Answer, LeaseId, Step, Wire};
pub use http::Http;
pub use resp::Resp;
