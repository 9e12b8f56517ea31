//! One call and one answer, whatever the protocol: each room of this folder says the
//! same [`Call`] in its own protocol, and reads its answer into the same [`Answer`].

mod call;
mod grpc;
mod http;
mod json;
mod library;
mod protocols;
mod resp;

pub use call::{Answer, Call, Client, PATIENCE, Verb, Word, used_of};
pub use grpc::Grpc;
pub use http::Http;
pub use library::Library;
pub use protocols::{PROTOCOLS, Protocol};
pub use resp::Resp;
