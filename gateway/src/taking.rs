//! A connection whose client takes what it is written.
//!
//! Over HTTP/1.1 an answer that nobody takes fills the socket, and nothing asks for more of it: the
//! connection would stay for as long as the client holds it, and the provider's with it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection that breaks off once nothing could be written for so long.
pub struct Taking<S> {
    stream: S,
    within: Duration,
    /// Until when something has to be taken; nothing where nobody waits for that.
    stalls: Option<Pin<Box<Sleep>>>,
}

impl<S> Taking<S> {
    /// `stream`, whose client takes something `within` this time, where something is to be taken.
    pub const fn new(stream: S, within: Duration) -> Self {
        Self {
            stream,
            within,
            stalls: None,
        }
    }

    /// # Errors
    /// `TimedOut`, if nothing was taken for too long.
    fn taken(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalls = None;
            return written;
        }
        let within = self.within;
        let stalls = self.stalls.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalls.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taking<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Taking<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.taken(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.taken(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
