//! Clients that do not say what they want, or do not take what they are told. Time stands
//! still but for them.

use std::future::pending;
use std::io;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tidegate::ManualClock;
use tidegate_policy::parse;
use tidegate_resp::{Server, Settings};
use tidegate_service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TIMEOUT: Duration = Duration::from_millis(100);

const LATE: &str = "-TIMEOUT no whole command came within 100ms; the connection is closed\r\n";

/// A client, whose connection holds so many bytes each way, and what becomes of its
/// conversation.
fn connect(holds: usize) -> (DuplexStream, JoinHandle<io::Result<()>>) {
    let policies = "policy.slots.limits.running = { concurrency = 1 }";
    let file = parse("test.toml", policies).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::default().clock();
    let service = Service::builder().clock(clock).build(&file).unwrap();
    let server = Server::new(service, Settings::default().request_timeout(TIMEOUT));
    let (client, stream) = duplex(holds);
    let talk = tokio::spawn(async move { server.converse(stream, pending()).await });
    (client, talk)
}

/// What comes until the connection ends, and after how long that is.
async fn rest(client: &mut DuplexStream) -> (String, Duration) {
    let begun = Instant::now();
    let mut told = String::new();
    client.read_to_string(&mut told).await.unwrap();
    (told, begun.elapsed())
}

/// Whether it was `TIMEOUT`, to the millisecond that the timer counts in.
fn is_timeout(after: Duration) -> bool {
    (TIMEOUT..=TIMEOUT + Duration::from_millis(2)).contains(&after)
}

/// How many clients `run` has had counted as too slow.
fn counted(run: impl Future<Output = ()>) -> u64 {
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(run));
    let shown = recorder.handle().render();
    let name = "tidegate_timeouts_total{protocol=\"resp\"} ";
    let count = shown.lines().find_map(|line| line.strip_prefix(name));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_client_that_sends_no_first_byte_or_half_a_command_is_told_and_counted() {
    for sent in ["", "*", "PI", "*2\r\n$4\r\nECHO\r\n$5\r\nhel"] {
        let count = counted(async {
            let (mut client, talk) = connect(1_000);
            client.write_all(sent.as_bytes()).await.unwrap();
            let (told, after) = rest(&mut client).await;
            assert_eq!(told, LATE, "{sent:?}");
            assert!(is_timeout(after), "{sent:?}: {after:?}");
            talk.await.unwrap().unwrap();
        });
        assert_eq!(count, 1, "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_byte_by_byte_has_as_long_as_one_that_stops() {
    let (mut client, _talk) = connect(1_000);
    client
        .write_all(b"PING\r\n*2\r\n$4\r\nECHO\r\n$500\r\n")
        .await
        .unwrap();
    let mut pong = [0; 7];
    client.read_exact(&mut pong).await.unwrap();
    let begun = Instant::now();
    let mut told = Vec::new();
    while told.is_empty() {
        tokio::select! {
            read = client.read_buf(&mut told) => assert!(read.unwrap() > 0),
            () = sleep(TIMEOUT * 3 / 10) => client.write_all(b"x").await.unwrap(),
        }
    }
    client.read_to_end(&mut told).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&told), LATE);
    assert!(is_timeout(begun.elapsed()), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_does_not_take_its_answers_is_given_up_and_counted() {
    let count = counted(async {
        let (mut client, talk) = connect(64);
        let long = [&b"ECHO "[..], &[b'x'; 500], b"\r\n"].concat();
        client.write_all(&long).await.unwrap();
        let begun = Instant::now();
        let error = talk.await.unwrap().unwrap_err();
        assert!(is_timeout(begun.elapsed()), "{:?}", begun.elapsed());
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let words = "the client did not take its answers within 100ms";
        assert_eq!(error.to_string(), words);
    });
    assert_eq!(count, 1);
}

/// A waiting command is there in full, and what stands behind it begins when it is answered.
#[test]
fn a_command_that_waits_and_a_client_between_commands_are_left_alone() {
    let count = counted(async {
        let (mut client, _talk) = connect(10_000);
        client.write_all(b"TG.ACQUIRE slots k\r\n").await.unwrap();
        let mut told = Vec::new();
        while !String::from_utf8_lossy(&told).contains("granted_at_us") {
            assert!(client.read_buf(&mut told).await.unwrap() > 0);
        }
        sleep(10 * TIMEOUT).await;
        client.write_all(b"PING\r\n").await.unwrap();
        while !told.ends_with(b"+PONG\r\n") {
            assert!(client.read_buf(&mut told).await.unwrap() > 0);
        }
        // Service time stands still: it would wait for ever.
        let wait = b"TG.ACQUIRE slots k WAIT 60000\r\nPI";
        client.write_all(wait).await.unwrap();
        let more = client.read_buf(&mut told);
        let waited = tokio::time::timeout(10 * TIMEOUT, more).await;
        assert!(waited.is_err(), "{waited:?}");
    });
    assert_eq!(count, 0);
}
