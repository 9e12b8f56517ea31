//! Talks on connections, or on one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::Stream as Connections;
use tidegate_protocol::Peer;
use tidegate_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::error::Fault;
use crate::session::Counts;
use crate::settings::Settings;

/// Tidegate for RESP clients. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Server {
    service: Service,
    settings: Settings,
    counts: Arc<Counts>,
}

impl Server {
    /// A server of `service`.
    #[must_use]
    pub fn new(service: Service, settings: Settings) -> Self {
        Self {
            service,
            settings,
            counts: Arc::default(),
        }
    }

    /// Talks on `connections` until they or `shutdown` end; then answers what was read
    /// (a request that waits is told that the server is closing), and returns
    /// when the connections are closed, or have had [`Settings::drain`] to.
    pub async fn serve<S>(
        self,
        connections: impl Connections<Item = S>,
        shutdown: impl Future<Output = ()>,
    ) where
        S: Peer + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let fault = Fault::TooManyConnections;
        let full = format!("-{} {fault}\r\n", fault.code());
        let bound = (self.settings.max_connections, full.as_bytes());
        let drain = self.settings.drain;
        tidegate_protocol::serve(connections, bound, drain, shutdown, |stream: S, closing| {
            let server = self.clone();
            // What goes wrong with a connection concerns nobody but its client.
            let peer = stream.peer();
            async move {
                _ = server.converse_with(peer, stream, closing.come()).await;
            }
        })
        .await;
    }

    /// Talks on one connection, which may be encrypted or made of anything
    /// else, until the client goes, or until `shutdown` ends and everything
    /// that was read is answered.
    ///
    /// # Errors
    /// What the stream says; a client that does not take its answers.
    pub async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        self.converse_with(None, stream, shutdown).await
    }

    async fn converse_with<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        peer: Option<SocketAddr>,
        stream: S,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (service, counts) = (self.service.clone(), Arc::clone(&self.counts));
        let connection = Connection::new(stream, (service, peer), counts, self.settings);
        connection.talk(shutdown).await
    }
}
