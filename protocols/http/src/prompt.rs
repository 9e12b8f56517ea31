//! A connection that has to begin.
//!
//! Before the server knows which version of HTTP it speaks, it keeps no time:
//! a client could connect, say nothing (or a few letters), and stay. So the
//! first bytes have a deadline here; from there on the server has its own.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_service::count_timeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What tells the versions apart: HTTP/2's preface.
const OPENING: usize = 24;

/// A connection whose opening has a deadline.
pub(crate) struct Prompt<I> {
    io: I,
    /// How much of the opening is still to come, and until when; nothing once
    /// it has been read.
    opening: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<I> Prompt<I> {
    pub(crate) fn new(io: I, within: Duration) -> Self {
        let deadline = Box::pin(sleep(within));
        Self {
            io,
            opening: Some((OPENING, deadline)),
        }
    }

    fn has_read(&mut self, bytes: usize) {
        self.opening = match self.opening.take() {
            Some((left, deadline)) if left > bytes => Some((left - bytes, deadline)),
            _ => None,
        };
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Prompt<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_ready() {
            self.has_read(buffer.filled().len() - before);
            return read;
        }
        match &mut self.opening {
            Some((_, deadline)) => {
                ready!(deadline.as_mut().poll(context));
                count_timeout("http");
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Prompt<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
