//! Connections that write in turn.
//!
//! An answer wakes whoever waits for it, and to wake somebody who sleeps costs a
//! server as much as a fifth of its time. A client on the same machine that is
//! quicker than the server sleeps again before the next of its connections is
//! answered, so that each answer pays for it. So an answer waits for one round of
//! the runtime's tasks: what came at once is read first and answered at once
//! then. Who comes alone does not wait: that was tried a few answers ago.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Peer;

/// How many answers wait for nobody after one has waited in vain.
const ALONE: usize = 16;

/// The connections of one listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Counts>);

/// Hints, that decide about nothing but who goes first.
#[derive(Debug, Default)]
struct Counts {
    /// How many connections were read from and not answered since.
    owing: AtomicUsize,
    /// How often anyone was read from.
    received: AtomicUsize,
    /// How many more answers wait for nobody.
    alone: AtomicUsize,
}

impl Turns {
    /// `stream`, as one of them.
    pub(crate) fn of<S>(&self, stream: S) -> InTurn<S> {
        InTurn {
            stream,
            turns: self.clone(),
            owes: Owes::Nothing,
        }
    }

    fn receive(&self) -> Received {
        Received {
            among: self.0.owing.fetch_add(1, Ordering::Relaxed) > 0,
            number: self.0.received.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether an answer has others to wait for, as far as one can tell before.
    fn waits(&self, received: Received) -> bool {
        let alone = &self.0.alone;
        let left = alone.load(Ordering::Relaxed);
        if !received.among && left > 0 {
            alone.store(left - 1, Ordering::Relaxed);
        }
        received.among || left == 0
    }

    /// An answer has waited, for others or in vain.
    fn waited(&self, received: Received) {
        let last = self.0.received.load(Ordering::Relaxed);
        if !received.among && last == received.number.wrapping_add(1) {
            self.0.alone.store(ALONE, Ordering::Relaxed);
        }
    }
}

/// A connection that is answered in turn with the others of its listener.
#[derive(Debug)]
pub struct InTurn<S> {
    stream: S,
    turns: Turns,
    owes: Owes,
}

impl<S: Peer> Peer for InTurn<S> {
    fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer()
    }
}

/// What a connection owes to its client.
#[derive(Clone, Copy, Debug)]
enum Owes {
    Nothing,
    /// It has received something.
    Answer(Received),
    /// And has waited for the others with what it has to say.
    AnswerNow(Received),
}

/// What was so when a connection received something.
#[derive(Clone, Copy, Debug)]
struct Received {
    /// Others were read from and not answered yet.
    among: bool,
    /// How many had been read from before, ever.
    number: usize,
}

impl<S> InTurn<S> {
    fn receive(&mut self) {
        if matches!(self.owes, Owes::Nothing) {
            self.owes = Owes::Answer(self.turns.receive());
        }
    }

    /// Whether it may say something; if not, it is called again soon.
    fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        match self.owes {
            Owes::Answer(received) if self.turns.waits(received) => {
                self.owes = Owes::AnswerNow(received);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Owes::AnswerNow(received) => self.turns.waited(received),
            Owes::Answer(_) | Owes::Nothing => {}
        }
        self.settle();
        Poll::Ready(())
    }

    fn settle(&mut self) {
        if !matches!(self.owes, Owes::Nothing) {
            self.owes = Owes::Nothing;
            self.turns.0.owing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<S> Drop for InTurn<S> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurn<S> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.receive();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurn<S> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_turn(context) {
            Poll::Ready(()) => Pin::new(&mut self.stream).poll_write(context, bytes),
            Poll::Pending => Poll::Pending,
        }
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.poll_turn(context) {
            Poll::Ready(()) => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A connection that was asked something, and the client's end of it.
    async fn connected(turns: &Turns) -> (InTurn<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(64);
        let mut both = (turns.of(server), client);
        request(&mut both).await;
        both
    }

    async fn request((server, client): &mut (InTurn<DuplexStream>, DuplexStream)) {
        client.write_all(b"?").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
    }

    /// How often a connection has to be called until it has answered.
    async fn calls((server, client): &mut (InTurn<DuplexStream>, DuplexStream)) -> usize {
        let mut calls = 0;
        let written = poll_fn(|context| {
            calls += 1;
            Pin::new(&mut *server).poll_write(context, b"!")
        });
        assert_eq!(written.await.unwrap(), 1);
        assert_eq!(client.read_u8().await.unwrap(), b'!');
        calls
    }

    #[tokio::test]
    async fn answers_to_what_came_at_once_wait_for_one_round() {
        let turns = Turns::default();
        let (mut one, mut other) = (connected(&turns).await, connected(&turns).await);
        assert_eq!(calls(&mut one).await, 2);
        // What belongs to the same answer goes with it.
        assert_eq!(calls(&mut one).await, 1);
        assert_eq!(calls(&mut other).await, 2);
        request(&mut one).await;
        request(&mut other).await;
        assert_eq!(calls(&mut other).await, 2);
        assert_eq!(calls(&mut one).await, 2);
    }

    #[tokio::test]
    async fn who_is_alone_waits_once_and_then_no_more_for_a_while() {
        let turns = Turns::default();
        let mut one = connected(&turns).await;
        assert_eq!(calls(&mut one).await, 2);
        for _ in 0..ALONE {
            request(&mut one).await;
            assert_eq!(calls(&mut one).await, 1);
        }
        request(&mut one).await;
        assert_eq!(calls(&mut one).await, 2);
    }

    #[tokio::test]
    async fn who_has_heard_nothing_speaks_at_once() {
        let turns = Turns::default();
        let _connected = connected(&turns).await;
        let (server, client) = duplex(64);
        assert_eq!(calls(&mut (turns.of(server), client)).await, 1);
    }

    #[tokio::test]
    async fn who_is_gone_is_owed_nothing() {
        let turns = Turns::default();
        drop(connected(&turns).await);
        assert_eq!(turns.0.owing.load(Ordering::Relaxed), 0);
    }
}
