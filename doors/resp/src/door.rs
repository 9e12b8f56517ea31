//! Accepts connections, or talks on one that was made elsewhere.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate::gate::Gate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::Connection;
use crate::fault::Fault;
use crate::session::House;
use crate::settings::Settings;

/// How long nothing is accepted after the system could not: it has run out of
/// something that only others give back, and says nothing when they do.
const RESPITE: Duration = Duration::from_millis(50);

/// A gate's door for RESP clients. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Door {
    gate: Gate,
    settings: Settings,
    house: Arc<House>,
}

impl Door {
    /// A door to `gate`.
    #[must_use]
    pub fn new(gate: Gate, settings: Settings) -> Self {
        Self {
            gate,
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
        let (close, closing) = watch::channel(false);
        let mut talks = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = shutdown.as_mut() => break,
                Some(_) = talks.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if talks.len() >= self.settings.max_connections => turn_away(&stream),
                    Ok((stream, _)) => {
                        talks.spawn(self.clone().host(stream, closing.clone()));
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(_) => sleep(RESPITE).await,
                },
            }
        }
        drop(listener);
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
        let (gate, house) = (self.gate.clone(), Arc::clone(&self.house));
        let connection = Connection::new(stream, gate, house, self.settings);
        connection.talk(shutdown).await
    }

    async fn host(self, stream: TcpStream, mut closing: watch::Receiver<bool>) {
        // Answers are written whole: waiting for more only delays them.
        let _ = stream.set_nodelay(true);
        let closed = async move {
            // The sender outlives every connection, or is as good as closed.
            let _ = closing.wait_for(|closed| *closed).await;
        };
        // What goes wrong with a connection concerns nobody but its client.
        let _ = self.converse(stream, closed).await;
    }
}

/// One too many: it is told so, as far as that goes without waiting.
fn turn_away(stream: &TcpStream) {
    let fault = Fault::TooManyConnections;
    let _ = stream.try_write(format!("-{} {fault}\r\n", fault.code()).as_bytes());
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
