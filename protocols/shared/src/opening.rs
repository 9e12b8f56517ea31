//! A connection whose first bytes have a deadline.
//!
//! Before a server knows that its client speaks HTTP, and which version of it, it keeps no
//! time: a client could connect, say nothing (or a few letters), and stay. From there on
//! the server has deadlines of its own.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_service::count_timeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What tells the versions apart: HTTP/2's preface, in bytes.
const PREFACE: usize = 24;

/// A connection whose first 24 bytes have a deadline.
#[derive(Debug)]
pub struct Opening<S> {
    stream: S,
    protocol: &'static str,
    /// How many bytes are still to come, and until when; nothing once they have been read.
    opening: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Opening<S> {
    /// `stream`, which has to open `within` this time. One that does not is an error
    /// (`TimedOut`), and counted as `protocol`'s.
    pub fn new(stream: S, protocol: &'static str, within: Duration) -> Self {
        Self {
            stream,
            protocol,
            opening: Some((PREFACE, Box::pin(sleep(within)))),
        }
    }

    fn has_read(&mut self, bytes: usize) {
        self.opening = match self.opening.take() {
            Some((left, deadline)) if left > bytes => Some((left - bytes, deadline)),
            _ => None,
        };
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.has_read(buffer.filled().len() - before);
            return read;
        }
        let Some((_, deadline)) = &mut self.opening else {
            return Poll::Pending;
        };
        ready!(deadline.as_mut().poll(context));
        count_timeout(self.protocol);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
