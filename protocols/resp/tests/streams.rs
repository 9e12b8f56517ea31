//! Conversations over a stream that is no socket, as a TLS layer hands over.

use std::future::{pending, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_policy::parse;
use tidegate_resp::{Server, Settings};
use tidegate_service::{Scope, Service};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tokio::time::Instant;

const SLOTS: &str = "policy.slots.limits.running = { concurrency = 1 }";

fn service() -> Service {
    let file = parse("test.toml", SLOTS).unwrap_or_else(|errors| panic!("{errors}"));
    Service::builder().build(&file).unwrap()
}

fn free(service: &Service) -> u64 {
    let caller = service.enter(None).unwrap();
    let slots = service.policy(&caller, Scope::Observe, "slots").unwrap();
    let standing = slots.peek("k", ()).wait().unwrap().standing("running");
    standing.unwrap().remaining
}

#[tokio::test]
async fn any_stream_will_do() {
    let server = Server::new(service(), Settings::default());
    // So little fits at once that every answer goes out in pieces.
    let (mut client, stream) = duplex(7);
    let served = tokio::spawn(async move { server.converse(stream, pending()).await });
    let mut heard = vec![0; 30];
    client.write_all(b"ECHO abc\r\nPING\nQUIT\n").await.unwrap();
    client.read_exact(&mut heard[..9 + 7 + 5]).await.unwrap();
    assert_eq!(&heard[..21], b"$3\r\nabc\r\n+PONG\r\n+OK\r\n");
    assert_eq!(client.read(&mut heard).await.unwrap(), 0);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_read_is_answered_though_the_server_closes() {
    let server = Server::new(service(), Settings::default());
    let (mut client, stream) = duplex(1_000);
    client.write_all(b"PING\r\nPI").await.unwrap();
    let (read, wait) = tokio::sync::oneshot::channel::<()>();
    let closed = async {
        let _ = wait.await;
    };
    let served = tokio::spawn(async move { server.converse(stream, closed).await });
    let mut heard = [0; 7];
    client.read_exact(&mut heard).await.unwrap();
    drop(read);
    served.await.unwrap().unwrap();
    assert_eq!(client.read(&mut heard).await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_is_closed_already_says_nothing() {
    let server = Server::new(service(), Settings::default());
    let (mut client, stream) = duplex(1_000);
    server.converse(stream, ready(())).await.unwrap();
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
}

/// The stream brings a request and breaks at the first answer.
#[tokio::test]
async fn a_lease_that_could_not_be_told_of_is_given_back() {
    let service = service();
    let server = Server::new(service.clone(), Settings::default());
    let (mut client, stream) = duplex(1_000);
    let request = b"TG.ACQUIRE slots k WAIT 1000\r\n";
    client.write_all(request).await.unwrap();
    let stream = tokio::io::join(stream, Broken);
    assert!(server.converse(stream, pending()).await.is_err());
    assert_eq!(free(&service), 1);
}

/// Time stands still but for them.
#[tokio::test(start_paused = true)]
async fn whoever_is_silent_for_too_long_is_hung_up_on() {
    let idle = Duration::from_millis(100);
    let server = Server::new(service(), Settings::default().idle(idle));
    let (mut client, stream) = duplex(1_000);
    let served = tokio::spawn(async move { server.converse(stream, pending()).await });
    let mut heard = [0; 7];
    client.write_all(b"PING\r\n*1\r\n$4\r\nPI").await.unwrap();
    client.read_exact(&mut heard).await.unwrap();
    let begun = Instant::now();
    assert_eq!(client.read(&mut heard).await.unwrap(), 0);
    let after = begun.elapsed();
    assert!((idle..=2 * idle).contains(&after), "{after:?}");
    served.await.unwrap().unwrap();
}

/// Whoever reads nothing is hung up on, and holds up no shutdown.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answer_is_gone_after_a_while() {
    let settings = Settings::default().request_timeout(Duration::from_millis(50));
    let server = Server::new(service(), settings);
    let (mut client, stream) = duplex(16);
    let served = tokio::spawn(async move { server.converse(stream, pending()).await });
    let long = [&b"ECHO "[..], &[b'x'; 100], b"\r\n"].concat();
    client.write_all(&long).await.unwrap();
    let ended = served.await;
    assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// What cannot be written to.
struct Broken;

impl AsyncWrite for Broken {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream that breaks where another ends, as one over TLS does whose client is killed.
struct Breaks<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Breaks<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        read
    }
}

/// The answer was out; a request behind it waited. Another was granted the slot that the
/// client held by then.
#[tokio::test]
async fn a_lease_that_was_told_of_is_kept_though_the_stream_breaks() {
    let service = service();
    let server = Server::new(service.clone(), Settings::default());
    let (mut client, stream) = duplex(1_000);
    let (read, write) = tokio::io::split(stream);
    let stream = tokio::io::join(Breaks(read), write);
    let served = tokio::spawn(async move { server.converse(stream, pending()).await });
    let both = b"TG.ACQUIRE slots k\r\nTG.ACQUIRE slots k WAIT 60000\r\n";
    client.write_all(both).await.unwrap();
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("granted_at_us\r\n:") {
        client.read_buf(&mut told).await.unwrap();
    }
    drop(client);
    assert!(served.await.unwrap().is_err());
    assert_eq!(free(&service), 0);
}
