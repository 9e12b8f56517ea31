//! Connections, and how they end.
//!
//! `axum::serve` sets no time for a request's head to arrive: a client could
//! hold a connection for ever with half a line. So the loop is written here.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::front::Front;
use crate::problem::Problem;
use crate::prompt::Prompt;
use crate::settings::Bounds;

/// Serves `front` (or any router) on `listener`, over HTTP/1.1 and HTTP/2, until `shutdown`
/// is ready. Then no more connections are accepted, those that are idle are
/// closed, and what was asked is answered before this future ends.
///
/// An ask that waits holds it up for as long as it waits: call
/// [`Service::close`](tidegate_service::Service::close) when shutting down, which
/// answers everyone who waits. Whoever cannot wait for slow clients drops this
/// future after a time of grace.
///
/// A listener of the caller's own brings TLS, or a bound on connections; one
/// of TCP should set `TCP_NODELAY`
/// ([`ListenerExt::tap_io`](axum::serve::ListenerExt::tap_io)).
pub async fn serve<L: Listener>(
    listener: L,
    front: impl Into<Front>,
    shutdown: impl Future<Output = ()>,
) {
    serve_within(listener, front, Bounds::default(), shutdown).await;
}

/// As [`serve`], with bounds of the caller's own.
pub async fn serve_within<L: Listener>(
    mut listener: L,
    front: impl Into<Front>,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) {
    let front = front.into();
    let mut shutdown = pin!(shutdown);
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(
        bounds.max_connections.min(Semaphore::MAX_PERMITS),
    ));
    let server = server(bounds);
    loop {
        tokio::select! {
            (io, _) = listener.accept() => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    turn_away(io);
                    continue;
                };
                let io = Prompt::new(io, bounds.head_timeout);
                let (server, front) = (server.clone(), front.clone());
                let talk = converse(server, io, front, connections.watcher());
                tokio::spawn(async move {
                    talk.await;
                    drop(place);
                });
            }
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn server(bounds: Bounds) -> Builder<TokioExecutor> {
    let mut server = Builder::new(TokioExecutor::new());
    let mut http1 = server.http1();
    http1.timer(TokioTimer::new());
    http1.header_read_timeout(bounds.head_timeout);
    // An answer is short: copied behind its head, it is one piece to the system.
    http1.writev(false);
    // Less makes the server panic.
    http1.max_buf_size(bounds.max_head_bytes.max(8 * 1024));
    let mut http2 = server.http2();
    http2.timer(TokioTimer::new());
    http2.max_header_list_size(u32::try_from(bounds.max_head_bytes).unwrap_or(u32::MAX));
    http2.max_concurrent_streams(bounds.max_streams);
    // A client that is gone without a word is noticed, and its places freed.
    http2.keep_alive_interval(bounds.head_timeout);
    http2.keep_alive_timeout(bounds.head_timeout);
    server
}

/// One too many: it is told so, as far as that goes without waiting.
fn turn_away(mut io: impl AsyncWrite + Unpin) {
    let words = Problem::busy().as_bytes();
    let mut context = Context::from_waker(Waker::noop());
    let _ = Pin::new(&mut io).poll_write(&mut context, &words);
    let _ = Pin::new(&mut io).poll_flush(&mut context);
}

/// One connection, to its end. What goes wrong with it is the client's: it
/// went away, or spoke no HTTP, and there is nobody to tell.
async fn converse<I>(server: Builder<TokioExecutor>, io: I, front: Front, watcher: Watcher)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(front);
    let connection = server.serve_connection(TokioIo::new(io), service);
    let _ = watcher.watch(connection).await;
}
