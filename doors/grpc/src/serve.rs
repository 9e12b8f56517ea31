//! The door itself.

use std::future::Future;
use std::time::Duration;

use tidegate::gate::Gate;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Error, Server};

use crate::proto;
use crate::proto::tidegate_server::TidegateServer;
use crate::service::Service;

/// What a door allows.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The largest message, in bytes.
    pub max_message_bytes: usize,
    /// How many requests of one connection are served at once.
    pub max_in_flight: u32,
    /// How long an ask may wait at most.
    pub longest_wait: Duration,
}

impl Default for Settings {
    /// 256 KiB, 1,024 requests a connection, 5 minutes.
    fn default() -> Self {
        Self {
            max_message_bytes: 256 * 1024,
            max_in_flight: 1_024,
            longest_wait: Duration::from_secs(300),
        }
    }
}

/// Serves `gate` on `listener` until `shutdown`; then nobody new is let in,
/// and everyone inside is answered.
///
/// # Errors
/// What the sockets say.
pub async fn serve(
    gate: Gate,
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<TidegateServer<Service>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors were made with this program");
    let service = TidegateServer::new(Service::new(gate, settings.longest_wait))
        .max_decoding_message_size(settings.max_message_bytes);
    Server::builder()
        .tcp_nodelay(true)
        .concurrency_limit_per_connection(settings.max_in_flight as usize)
        .max_concurrent_streams(settings.max_in_flight)
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .add_service(health_service)
        .add_service(reflection)
        .add_service(service)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown)
        .await
}
