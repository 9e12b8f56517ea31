//! A connection that has a place, and has to begin.
//!
//! Until a client has said that it speaks HTTP/2 the server keeps no time: it
//! could connect, say nothing, and stay. So the first bytes have a deadline
//! here; from there on the server asks whether it lives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_service::count_timeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use crate::unasked::OfConnection;

/// HTTP/2's preface, in bytes.
const PREFACE: usize = 24;

/// A connection, its place among the others, and what it has to say first.
pub struct Connection<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
    /// How many streams that need no token it may have.
    streams: OfConnection,
    /// How much of the preface is still to come, and until when; nothing once
    /// it has been read.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Connection<S> {
    pub fn new(
        stream: S,
        (place, streams): (OwnedSemaphorePermit, OfConnection),
        within: Duration,
    ) -> Self {
        Self {
            stream,
            _place: place,
            streams,
            preface: Some((PREFACE, Box::pin(sleep(within)))),
        }
    }

    fn has_read(&mut self, bytes: usize) {
        self.preface = match self.preface.take() {
            Some((left, deadline)) if left > bytes => Some((left - bytes, deadline)),
            _ => None,
        };
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = OfConnection;

    fn connect_info(&self) -> OfConnection {
        self.streams.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
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
        match &mut self.preface {
            Some((_, deadline)) => {
                ready!(deadline.as_mut().poll(context));
                count_timeout("grpc");
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
