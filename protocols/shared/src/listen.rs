//! Connections for a server: accepted, and their hands shaken.
//!
//! A handshake is somebody's whom nobody knows yet. So it has its time, and
//! there are only so many at once: one more ends the oldest, for whoever means
//! to be served is done in an instant, and whoever is not is the oldest soon.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream as Connections, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tracing::debug;

use crate::stream::Stream;
use crate::tls::{Offer, Tls};
use crate::turn::{InTurn, Turns};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The most handshakes of one listener at once.
const MAX_HANDSHAKES: usize = 512;

/// How long a connection is silent before the system asks whether the other
/// side is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long nothing is accepted after the system could not: it has run out of
/// something that only others give back, and says nothing when they do.
const RESPITE: Duration = Duration::from_millis(50);

/// What a TLS client says first.
const HANDSHAKE_RECORD: u8 = 0x16;

/// The most that is read of what somebody says in the clear, to be polite.
const UNREAD: u64 = 64 * 1024;

/// Where a protocol listens.
///
/// Connections have `TCP_NODELAY`, and keepalive after 60 s of silence. A handshake has 10 s;
/// there are 512 at once, and one more ends the oldest.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    tls: Option<(Arc<Tls>, Offer)>,
    handshakes: JoinSet<Option<Stream>>,
    oldest: VecDeque<AbortHandle>,
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::new(listener, None)
    }
}

impl Listener {
    /// Accepts what comes to `listener`; encrypted, if there is a `tls` to go by.
    #[must_use]
    pub fn new(listener: TcpListener, tls: Option<(Arc<Tls>, Offer)>) -> Self {
        Self {
            listener,
            tls,
            handshakes: JoinSet::new(),
            oldest: VecDeque::new(),
        }
    }

    /// The next connection that can be talked on. Dropping the future loses none.
    async fn next(&mut self) -> Stream {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(stream)) = done {
                        return stream;
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        prepare(&stream);
                        let Some((tls, offer)) = &self.tls else {
                            return Stream::Plain(stream);
                        };
                        let (config, offer) = (tls.config(*offer), *offer);
                        self.shake(stream, config, offer);
                    }
                    Err(error) if is_of_one_client(&error) => {}
                    Err(_) => sleep(RESPITE).await,
                },
            }
        }
    }

    fn shake(&mut self, stream: TcpStream, config: Arc<ServerConfig>, offer: Offer) {
        if self.handshakes.len() >= MAX_HANDSHAKES {
            self.oldest.retain(|handshake| !handshake.is_finished());
            if let Some(oldest) = self.oldest.pop_front() {
                oldest.abort();
            }
        }
        let task = self.handshakes.spawn(handshake(stream, config, offer));
        self.oldest.push_back(task);
        if self.oldest.len() >= 2 * MAX_HANDSHAKES {
            self.oldest.retain(|handshake| !handshake.is_finished());
        }
    }

    /// Connections one after the other, without end.
    pub fn connections(self) -> impl Connections<Item = Stream> {
        unfold(self, |mut listener| async move {
            let next = listener.next().await;
            Some((next, listener))
        })
    }

    /// The same, and they answer in turn.
    pub fn in_turn(self) -> impl Connections<Item = InTurn<Stream>> {
        let turns = Turns::default();
        self.connections().map(move |stream| turns.of(stream))
    }
}

/// An answer is one small packet, which must not be kept back for another; and
/// a client that is gone without a word is noticed.
fn prepare(stream: &TcpStream) {
    // Without them, answers come later and are right all the same.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive.with_interval(KEEPALIVE / 4));
}

async fn handshake(stream: TcpStream, config: Arc<ServerConfig>, offer: Offer) -> Option<Stream> {
    let shaken = async {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
            return turn_away(stream, offer).await.map(|()| None);
        }
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Some(Stream::Tls(Box::new(stream))))
    };
    match timeout(HANDSHAKE, shaken).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(%error, "a handshake has failed");
            None
        }
        Err(_) => None,
    }
}

/// Somebody speaks in the clear, and is told so in the clear.
async fn turn_away(mut stream: TcpStream, offer: Offer) -> io::Result<()> {
    let words: &[u8] = match offer {
        Offer::Http => {
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n\
              Content-Length: 71\r\nConnection: close\r\n\r\n\
              {\"status\":400,\"code\":\"invalid\",\"detail\":\"this port speaks TLS: https\"}\n"
        }
        Offer::Grpc => b"",
        Offer::Resp => b"-ERR this port speaks TLS (redis-cli --tls)\r\n",
    };
    stream.write_all(words).await?;
    stream.shutdown().await?;
    // What is not read would make the system cut the words off.
    let mut unread = stream.take(UNREAD);
    tokio::io::copy(&mut unread, &mut tokio::io::sink()).await?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::server::ResolvesServerCertUsingSni;

    use super::*;

    /// A handshake that goes nowhere is not about certificates: there is none.
    fn none() -> Arc<ServerConfig> {
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let resolver = Arc::new(ResolvesServerCertUsingSni::new());
        Arc::new(builder.with_no_client_auth().with_cert_resolver(resolver))
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_is_not_begun_or_not_ended_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for said in [&b""[..], &[HANDSHAKE_RECORD, 3, 1]] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap())
                .await
                .unwrap();
            client.write_all(said).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let begun = Instant::now();
            assert!(handshake(stream, none(), Offer::Http).await.is_none());
            assert_eq!(begun.elapsed().as_secs(), HANDSHAKE.as_secs());
            let gone = client.read(&mut [0; 8]).await;
            assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
        }
    }

    #[tokio::test]
    async fn one_handshake_too_many_ends_the_oldest() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let mut listening = Listener::from(listener);
        let mut clients = Vec::new();
        for _ in 0..MAX_HANDSHAKES + 3 {
            clients.push(TcpStream::connect(at).await.unwrap());
            let (stream, _) = listening.listener.accept().await.unwrap();
            listening.shake(stream, none(), Offer::Resp);
        }
        for mut oldest in clients.drain(..3) {
            assert!(matches!(oldest.read(&mut [0; 8]).await, Ok(0) | Err(_)));
        }
        let open = listening.oldest.iter().filter(|one| !one.is_finished());
        assert_eq!(open.count(), MAX_HANDSHAKES);
    }
}
