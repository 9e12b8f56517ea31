//! Connections, and how they end.
//!
//! `axum::serve` sets no time for a request's head to arrive: a client could
//! hold a connection for ever with half a line. So the loop is written here.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::prompt::Prompt;

/// How long a client may take to send a request's head; and how long a
/// connection may lie idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The most that is read ahead of one connection, and so the longest head.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Serves `router` on `listener`, over HTTP/1.1 and HTTP/2, until `shutdown`
/// is ready. Then no more connections are accepted, those that are idle are
/// closed, and what was asked is answered before this future ends.
///
/// An ask that waits holds it up for as long as it waits: call
/// [`Gate::close`](tidegate::gate::Gate::close) when shutting down, which
/// answers everyone who waits. Whoever cannot wait for slow clients drops this
/// future after a time of grace.
///
/// A listener of the caller's own brings TLS, or a bound on connections; one
/// of TCP should set `TCP_NODELAY`
/// ([`ListenerExt::tap_io`](axum::serve::ListenerExt::tap_io)).
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let connections = GracefulShutdown::new();
    let server = server();
    loop {
        tokio::select! {
            (io, _) = listener.accept() => {
                let (server, router) = (server.clone(), router.clone());
                tokio::spawn(converse(server, io, router, connections.watcher()));
            }
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn server() -> Builder<TokioExecutor> {
    let mut server = Builder::new(TokioExecutor::new());
    let mut http1 = server.http1();
    http1.timer(TokioTimer::new());
    http1.header_read_timeout(HEAD_TIMEOUT);
    http1.max_buf_size(MAX_HEAD_BYTES);
    let mut http2 = server.http2();
    http2.timer(TokioTimer::new());
    http2.max_header_list_size(MAX_HEAD_BYTES as u32);
    // A client that is gone without a word is noticed, and its places freed.
    http2.keep_alive_interval(HEAD_TIMEOUT);
    server
}

/// One connection, to its end. What goes wrong with it is the client's: it
/// went away, or spoke no HTTP, and there is nobody to tell.
async fn converse<I>(server: Builder<TokioExecutor>, io: I, router: Router, watcher: Watcher)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = Prompt::new(io, HEAD_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let connection = server.serve_connection(TokioIo::new(io), service);
    let _ = watcher.watch(connection).await;
}
