//! Connections, and how they end.
//!
//! `axum::serve` sets no time for a request's head to arrive: a client could
//! hold a connection for ever with half a line. So the connections are made here.

use std::pin::pin;
use std::sync::Arc;

use futures_util::Stream as Connections;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tidegate_protocol::{Closing, Opening, Peer};
use tidegate_service::Crowded;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::error::Problem;
use crate::presence::{Busy, watched};
use crate::server::Server;
use crate::settings::Settings;

impl Server {
    /// Serves on `connections`, over HTTP/1.1 and HTTP/2, until they or `shutdown` end. Then
    /// connections that are idle are closed, and what was asked is answered, for as long as
    /// [`Settings::drain`] allows.
    ///
    /// A request that waits holds it up for as long as it waits: call
    /// [`Service::close`](tidegate_service::Service::close) when shutting down, which
    /// answers everyone who waits.
    pub async fn serve<S>(
        self,
        connections: impl Connections<Item = S>,
        shutdown: impl Future<Output = ()>,
    ) where
        S: Peer + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let settings = self.app.settings().clone();
        let full = Problem::busy(Crowded::Connections).as_bytes();
        let builder = builder(&settings);
        let talk = |stream: S, closing, share| {
            let connection = Arc::new(Connection::new(stream.peer(), share));
            let mut server = self.clone();
            server.app.connection = Some(Arc::clone(&connection));
            let stream = Opening::new(stream, "http", settings.head_timeout);
            converse(builder.clone(), stream, server, (connection, closing))
        };
        let bound = (settings.max_connections, &full[..]);
        tidegate_protocol::serve(connections, bound, settings.drain, shutdown, talk).await;
    }
}

fn builder(settings: &Settings) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new());
    http1.header_read_timeout(settings.head_timeout);
    // An answer is short: copied behind its head, it is one piece to the system.
    http1.writev(false);
    // Less makes the server panic.
    http1.max_buf_size(settings.max_head_bytes.max(8 * 1024));
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new());
    http2.max_header_list_size(u32::try_from(settings.max_head_bytes).unwrap_or(u32::MAX));
    http2.max_concurrent_streams(settings.max_streams);
    // A client that is gone without a word is noticed, and its places freed.
    http2.keep_alive_interval(settings.head_timeout);
    http2.keep_alive_timeout(settings.head_timeout);
    builder
}

/// One connection, to its end. What goes wrong with it is the client's: it
/// went away, or spoke no HTTP, and there is nobody to tell.
async fn converse<S>(
    builder: Builder<TokioExecutor>,
    stream: S,
    mut server: Server,
    (ours, closing): (Arc<Connection>, Closing),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, presence) = watched(stream, server.busy.insert(Busy::default()).clone());
    let service = TowerToHyperService::new(server);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = presence.gone() => return,
        () = closing.come() => connection.as_mut().graceful_shutdown(),
        () = ours.over() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        biased;
        _ = connection => {}
        () = presence.gone() => {}
    }
}
