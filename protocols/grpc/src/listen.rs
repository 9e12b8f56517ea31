//! Connections, and what is served on them.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use futures_util::{Stream as Connections, StreamExt};
use tidegate_protocol::{Opening, Peer, Permits};
use tidegate_remote::offered::Offered;
use tidegate_remote::proto::store_server::StoreServer;
use tidegate_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes as Others;
use tonic::transport::Error;

use crate::app::App;
use crate::connection::Connection;
use crate::entry::Entry;
use crate::long_calls::LongCalls;
use crate::offered::{LARGEST_REQUEST, OfferedApp};
use crate::proto;
use crate::proto::tidegate_server::TidegateServer;
use crate::routes::{About, Routes};
use crate::settings::Settings;
use crate::unary::Unary;
use crate::unasked::{OfConnection, Unasked};

/// Tidegate over gRPC. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Server {
    service: Service,
    settings: Settings,
    offered: Option<Arc<Offered>>,
}

impl Server {
    /// A server of `service`.
    #[must_use]
    pub fn new(service: Service, settings: Settings) -> Self {
        Self {
            service,
            settings,
            offered: None,
        }
    }

    /// The same, which also offers this store to others.
    #[must_use]
    pub fn offering(mut self, store: Offered) -> Self {
        self.offered = Some(Arc::new(store));
        self
    }

    /// Serves on `connections` until they or `shutdown` end; then nobody new is let in, and
    /// everyone inside is answered.
    ///
    /// # Errors
    /// What the connections say.
    pub async fn serve<S>(
        self,
        connections: impl Connections<Item = S>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        S: Peer + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            service,
            settings,
            offered,
        } = self;
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<TidegateServer<App>>().await;
        let sound = "the descriptors were made with this program";
        let is_offered = offered.is_some();
        let closing = offered.clone();
        let shutdown = async move {
            shutdown.await;
            // Who waits is told so.
            closing.iter().for_each(|offered| offered.close());
        };
        let reflection = described(is_offered).build_v1().expect(sound);
        // What Python's `grpcio-reflection` and older tools ask for.
        let reflection_alpha = described(is_offered).build_v1alpha().expect(sound);
        let long_calls = LongCalls::new(settings.max_long_calls, settings.max_long_calls_of_one);
        let offered = offered.map(|offered| {
            let app = OfferedApp::new(offered, long_calls.clone());
            StoreServer::new(app)
                .max_decoding_message_size(LARGEST_REQUEST)
                .max_encoding_message_size(usize::MAX)
        });
        let app = TidegateServer::new(App::new(service.clone(), long_calls))
            .max_decoding_message_size(settings.max_message_bytes);
        let others = Others::new(health_service)
            .add_service(reflection)
            .add_service(reflection_alpha);
        let about = About {
            entry: Entry::new(service.clone(), settings.max_in_flight),
            unary: Unary::of(&settings),
            unasked: Unasked::new(others, &settings),
        };
        let routes = Routes::new((app, offered), about);
        transport(&settings)
            .serve_with_incoming_shutdown(routes, bounded(connections, &settings), shutdown)
            .await
    }
}

fn described(is_offered: bool) -> tonic_reflection::server::Builder<'static> {
    let described = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    match is_offered {
        true => {
            let of_store = tidegate_remote::proto::DESCRIPTORS;
            described.register_encoded_file_descriptor_set(of_store)
        }
        false => described,
    }
}

fn transport(settings: &Settings) -> tonic::transport::Server {
    let transport = match settings.trace {
        Some(trace) => tonic::transport::Server::builder().trace_fn(trace.0),
        None => tonic::transport::Server::builder(),
    };
    transport
        .concurrency_limit_per_connection(settings.max_streams as usize)
        .max_concurrent_streams(settings.max_streams)
        .http2_max_header_list_size(settings.max_head_bytes)
        // A client that is gone without a word is noticed, and its places freed.
        .http2_keepalive_interval(Some(settings.keepalive))
        .http2_keepalive_timeout(Some(settings.keepalive))
}

/// Connections, as many at once as there may be; one more is closed.
fn bounded<S: Peer + AsyncRead + AsyncWrite + Unpin>(
    connections: impl Connections<Item = S>,
    settings: &Settings,
) -> impl Connections<Item = Result<Connection<S>, Infallible>> {
    let permits = Permits::new(settings.max_connections);
    let (opening, streams) = (settings.opening, settings.max_open_streams_of_one);
    connections.filter_map(move |stream| {
        let connection = permits.take().map(|permit| {
            let carried = OfConnection {
                streams: Permits::new(streams),
                peer: stream.peer(),
            };
            Ok(Connection {
                stream: Opening::new(stream, "grpc", opening),
                _permit: permit,
                carried,
            })
        });
        ready(connection)
    })
}
