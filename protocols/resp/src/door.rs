//! Accepts connections, or talks on one that was made elsewhere.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};

use crate::connection::Connection;
use crate::fault::Fault;
use crate::session::House;
use crate::settings::Settings;

/// How long nothing is accepted after the system could not: it has run out of
/// something that only others give back, and says nothing when they do.
const RESPITE: Duration = Duration::from_millis(50);

/// A service's door for RESP clients. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Door {
    service: Service,
    settings: Settings,
    house: Arc<House>,
}

impl Door {
    /// A door to `service`.
    #[must_use]
    pub fn new(service: Service, settings: Settings) -> Self {
        Self {
            service,
            settings,
            house: Arc::default(),
        }
    }

    /// Accepts connections until `shutdown` ends; then answers what was read
    /// (an ask that waits is told that the server is closing), and returns
    /// when the connections are closed, or have had their time to.
    ///
    /// # Errors
    /// None so far: what goes wrong with one connection ends that one, and
    /// what the system has run out of is waited for.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let connections = TcpListenerStream::new(listener).map(|accepted| {
            let stream = accepted?;
            // Answers are written whole: waiting for more only delays them.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        });
        self.serve_on(connections, shutdown).await
    }

    /// As [`serve`](Self::serve), on connections that were accepted elsewhere:
    /// encrypted, or made of anything else. Without end, or the door closes.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_on<S>(
        &self,
        connections: impl Stream<Item = io::Result<S>>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (close, closing) = watch::channel(false);
        let mut talks = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        // Boxed, so that it can be dropped, and with it the port given back.
        let mut connections = Box::pin(connections);
        loop {
            tokio::select! {
                () = shutdown.as_mut() => break,
                Some(_) = talks.join_next() => {}
                accepted = connections.next() => match accepted {
                    Some(Ok(stream)) if talks.len() >= self.settings.max_connections => turn_away(stream),
                    Some(Ok(stream)) => {
                        talks.spawn(self.clone().host(stream, closing.clone()));
                    }
                    Some(Err(error)) if is_of_one_client(&error) => {}
                    Some(Err(_)) => sleep(RESPITE).await,
                    None => break,
                },
            }
        }
        drop(connections);
        let _ = close.send(true);
        let all = async { while talks.join_next().await.is_some() {} };
        // Whoever needs longer is cut off: the set ends them when it is dropped.
        let _ = timeout(self.settings.drain, all).await;
        Ok(())
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
        let (service, house) = (self.service.clone(), Arc::clone(&self.house));
        let connection = Connection::new(stream, service, house, self.settings);
        connection.talk(shutdown).await
    }

    async fn host<S>(self, stream: S, mut closing: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let closed = async move {
            // The sender outlives every connection, or is as good as closed.
            let _ = closing.wait_for(|closed| *closed).await;
        };
        // What goes wrong with a connection concerns nobody but its client.
        let _ = self.converse(stream, closed).await;
    }
}

/// One too many: it is told so, as far as that goes without waiting.
fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let fault = Fault::TooManyConnections;
    let words = format!("-{} {fault}\r\n", fault.code());
    let mut context = Context::from_waker(Waker::noop());
    let _ = Pin::new(&mut stream).poll_write(&mut context, words.as_bytes());
    let _ = Pin::new(&mut stream).poll_flush(&mut context);
}

/// Whether only the connection that was to be accepted is affected.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
