//! A connection, encrypted or not.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection, encrypted or not.
#[derive(Debug)]
pub enum Stream {
    /// In the clear.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What knows who is at the other end of it.
pub trait Peer {
    /// The address at the other end, if it has one.
    fn peer(&self) -> Option<SocketAddr>;
}

impl Peer for TcpStream {
    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }
}

impl Peer for Stream {
    fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(stream) => stream.peer(),
            Self::Tls(stream) => stream.get_ref().0.peer(),
        }
    }
}

/// A pipe within the process has no address.
impl Peer for DuplexStream {
    fn peer(&self) -> Option<SocketAddr> {
        None
    }
}

/// The same call on whichever it is.
macro_rules! on {
    ($stream:expr, $io:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Plain(io) => {
                let $io = Pin::new(io);
                $call
            }
            Stream::Tls(io) => {
                let $io = Pin::new(io);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self, io => io.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on!(self, io => io.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, io => io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, io => io.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on!(self, io => io.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }
}
