//! What tests of the service share.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate_policy::{PolicyFile, parse};

/// A sound file of policies.
pub fn file(text: &str) -> PolicyFile {
    parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// What a future that does not wait comes to.
pub fn now<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).as_mut().poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
