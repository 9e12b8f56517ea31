//! A conversation for each connection, until the server stops.

use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::{Stream as Connections, StreamExt};
use tokio::io::AsyncWrite;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::shares::{Share, Shares};

/// Tells a conversation that the server stops.
#[derive(Clone, Debug)]
pub struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Ends when the server stops.
    pub async fn come(mut self) {
        // The sender outlives every connection, or is as good as closed.
        let _ = self.0.wait_for(|closing| *closing).await;
    }
}

/// Talks on each of `connections`, at most `most` at once, until they or `shutdown` end; then
/// no more are accepted, each conversation is told, and has as long as `drain` to end. A
/// conversation has its share of the connections, which it keeps, and says whose it is once it
/// knows.
///
/// One connection too many is told `full`, as far as that goes without waiting, and closed.
pub async fn serve<S, T>(
    connections: impl Connections<Item = S>,
    (most, full): (usize, &[u8]),
    drain: Duration,
    shutdown: impl Future<Output = ()>,
    talk: impl Fn(S, Closing, Share) -> T,
) where
    S: AsyncWrite + Unpin,
    T: Future<Output = ()> + Send + 'static,
{
    let (close, closing) = watch::channel(false);
    let shares = Shares::new(most);
    let mut talks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    // Boxed, so that it can be dropped, and with it the port given back.
    let mut connections = Box::pin(connections);
    loop {
        tokio::select! {
            () = shutdown.as_mut() => break,
            Some(_) = talks.join_next() => {}
            accepted = connections.next() => match (accepted, shares.take()) {
                (None, _) => break,
                (Some(stream), None) => turn_away(stream, full),
                (Some(stream), Some(share)) => {
                    talks.spawn(talk(stream, Closing(closing.clone()), share));
                }
            },
        }
    }
    drop(connections);
    let _ = close.send(true);
    let all = async { while talks.join_next().await.is_some() {} };
    // Whoever needs longer is cut off: the set ends them when it is dropped.
    let _ = timeout(drain, all).await;
}

fn turn_away(mut stream: impl AsyncWrite + Unpin, words: &[u8]) {
    let mut context = Context::from_waker(Waker::noop());
    let _ = Pin::new(&mut stream).poll_write(&mut context, words);
    let _ = Pin::new(&mut stream).poll_flush(&mut context);
}
