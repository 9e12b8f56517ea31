//! Talks on connections, or on one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::Stream as Connections;
use tidegate_protocol::{Closing, Peer, Share};
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
        let talk = |stream: S, closing: Closing, share| {
            let server = self.clone();
            // What goes wrong with a connection concerns nobody but its client.
            let who = (stream.peer(), Some(share));
            async move {
                _ = server.converse_with(who, stream, closing.come()).await;
            }
        };
        tidegate_protocol::serve(connections, bound, drain, shutdown, talk).await;
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
        self.converse_with((None, None), stream, shutdown).await
    }

    async fn converse_with<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        (peer, share): (Option<SocketAddr>, Option<Share>),
        stream: S,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (service, counts) = (self.service.clone(), Arc::clone(&self.counts));
        let connection = Connection::new(stream, (service, peer, share), counts, self.settings);
        connection.talk(shutdown).await
    }
}
