//! The door itself.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tidegate_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::transport::{Error, Server};

use crate::connection::Connection;
use crate::front::{About, Front};
use crate::hurry::Unary;
use crate::methods::Methods;
use crate::places::Places;
use crate::proto;
use crate::proto::tidegate_server::TidegateServer;
use crate::settings::Settings;
use crate::unasked::{OfConnection, Unasked};

/// Serves `service` on `listener` until `shutdown`; then nobody new is let in,
/// and everyone inside is answered.
///
/// # Errors
/// What the sockets say.
pub async fn serve(
    service: Service,
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let connections = TcpListenerStream::new(listener).map(|accepted| {
        let stream = accepted?;
        // An answer is one small packet: it must not be kept back for another.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    });
    serve_on(service, settings, connections, shutdown).await
}

/// As [`serve`], on connections that were accepted elsewhere: encrypted, or
/// made of anything else.
///
/// # Errors
/// As [`serve`].
pub async fn serve_on<S>(
    service: Service,
    settings: Settings,
    connections: impl Stream<Item = io::Result<S>>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<TidegateServer<Methods>>().await;
    let sound = "the descriptors were made with this program";
    let reflection = described().build_v1().expect(sound);
    // What Python's `grpcio-reflection` and older tools ask for.
    let reflection_alpha = described().build_v1alpha().expect(sound);
    let methods = TidegateServer::new(Methods::new(service, &settings))
        .max_decoding_message_size(settings.max_message_bytes);
    let others = Routes::new(health_service)
        .add_service(reflection)
        .add_service(reflection_alpha);
    let about = About {
        places: Places::new(settings.max_in_flight),
        unary: Unary::of(&settings),
        unasked: Unasked::new(others, &settings),
    };
    let front = Front::new(methods, about);
    server(&settings)
        .serve_with_incoming_shutdown(front, bounded(connections, &settings), shutdown)
        .await
}

fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

fn server(settings: &Settings) -> Server {
    let server = match settings.trace {
        Some(trace) => Server::builder().trace_fn(trace.0),
        None => Server::builder(),
    };
    server
        .concurrency_limit_per_connection(settings.max_streams as usize)
        .max_concurrent_streams(settings.max_streams)
        .http2_max_header_list_size(settings.max_head_bytes)
        // A client that is gone without a word is noticed, and its places freed.
        .http2_keepalive_interval(Some(settings.keepalive))
        .http2_keepalive_timeout(Some(settings.keepalive))
}

/// Connections, as many at once as there may be; one more is closed.
fn bounded<S: AsyncRead + AsyncWrite + Unpin>(
    connections: impl Stream<Item = io::Result<S>>,
    settings: &Settings,
) -> impl Stream<Item = io::Result<Connection<S>>> {
    let most = settings.max_connections.min(Semaphore::MAX_PERMITS);
    let (places, opening) = (Arc::new(Semaphore::new(most)), settings.opening);
    let streams = settings.max_open_streams_of_one;
    connections.filter_map(move |accepted| {
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        let place = Arc::clone(&places).try_acquire_owned().ok()?;
        let streams = OfConnection(Places::new(streams));
        Some(Ok(Connection::new(stream, (place, streams), opening)))
    })
}
