//! Whether the client of an HTTP/1.1 request is still there.
//!
//! While a request is under way hyper looks for the end of its connection, but only for as long as
//! it has nothing of a next request: a client that has sent one behind it could go away unseen, keep
//! its place in a line, and be granted what nobody takes. So what comes meanwhile is
//! read here, and with it the end; hyper gets it when it asks.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So many bytes are read behind a request that is under way. The end of a connection that has
/// sent more is seen once it is answered.
const MOST_AHEAD: usize = 8 * 1024;

/// How many at once.
const CHUNK: usize = 4 * 1024;

/// Whether a request of HTTP/1.1, which answers one at a time, is under way on a connection.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<AtomicBool>);

/// A request that is under way, until it is dropped.
pub(crate) struct UnderWay(Busy);

impl Busy {
    pub(crate) fn begin(&self) -> UnderWay {
        self.0.store(true, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Busy(busy) = &self.0;
        busy.store(false, Ordering::Relaxed);
    }
}

/// A connection that [`Presence`] looks at, too.
pub(crate) struct Seen<S>(Arc<Mutex<Shared<S>>>);

/// What sees that a client has gone.
pub(crate) struct Presence<S> {
    shared: Arc<Mutex<Shared<S>>>,
    busy: Busy,
}

struct Shared<S> {
    stream: S,
    /// What was read and not asked for yet.
    ahead: VecDeque<u8>,
    /// Whether who reads waits for more.
    is_awaited: bool,
}

/// `stream`, to be read and written, and what sees its end while a request is under way. Both are
/// for one task.
pub(crate) fn watched<S>(stream: S, busy: Busy) -> (Seen<S>, Presence<S>) {
    let shared = Arc::new(Mutex::new(Shared {
        stream,
        ahead: VecDeque::new(),
        is_awaited: false,
    }));
    let seen = Seen(Arc::clone(&shared));
    (seen, Presence { shared, busy })
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncRead + Unpin> Presence<S> {
    /// Ends when the client has gone while a request is under way. It is to be asked after the
    /// connection was, by the same task: it is told of no request that begins otherwise.
    pub(crate) async fn gone(&self) {
        poll_fn(|context| match self.busy.is_busy() {
            true => lock(&self.shared).poll_end(context),
            false => Poll::Pending,
        })
        .await;
    }
}

impl<S: AsyncRead + Unpin> Shared<S> {
    /// Reads ahead, to the end if it has come.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.ahead.len() < MOST_AHEAD {
            let mut chunk = [0; CHUNK];
            let left = CHUNK.min(MOST_AHEAD - self.ahead.len());
            let mut chunk = ReadBuf::new(&mut chunk[..left]);
            match Pin::new(&mut self.stream).poll_read(context, &mut chunk) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if chunk.filled().is_empty() => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    self.ahead.reserve_exact(chunk.filled().len());
                    self.ahead.extend(chunk.filled());
                }
            }
            // It came between two looks: the connection is to ask again.
            if std::mem::take(&mut self.is_awaited) {
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (ahead, _) = self.ahead.as_slices();
        if ahead.is_empty() {
            let read = Pin::new(&mut self.stream).poll_read(context, buffer);
            self.is_awaited = read.is_pending();
            return read;
        }
        let fits = ahead.len().min(buffer.remaining());
        buffer.put_slice(&ahead[..fits]);
        self.ahead.drain(..fits);
        if self.ahead.is_empty() {
            self.ahead = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Seen<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seen<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut lock(&self.0).stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut lock(&self.0).stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).stream.is_write_vectored()
    }
}
