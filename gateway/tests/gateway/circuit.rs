//! Members of a pool that no connection is made to.

use http::Uri;
use tidegate::ManualClock;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;

/// Longer than any of these tests takes, and no bound of what they are about.
const LONG: Duration = Duration::from_secs(120);

/// Takes connections, and never shakes hands; how many it has taken.
async fn black_hole() -> (Uri, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (taken, counted) = watch::channel(0);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
            taken.send_replace(held.len());
        }
    });
    (format!("https://{at}").parse().unwrap(), counted)
}

/// A call was held for as long as a connection may take, whatever it may wait; one whose provider
/// takes connections and says nothing, for as long as an answer may take.
#[tokio::test]
async fn a_call_waits_for_a_connection_no_longer_than_it_may() {
    let (base, _) = black_hole().await;
    let at = base.clone();
    let running = run(&in_order(TOKENS), |settings| {
        settings.upstreams[0].base = at;
    })
    .await;
    running.provider.next(Reply::answer(10, 10));
    let answered = timeout(LONG, running.chat()).await;
    assert_eq!(answered.expect("it goes to the other"), 200);
    assert_eq!(running.members(), ["two"]);
    running.stop().await;
    let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
    let answered = timeout(LONG, running.post(failover::CHAT, &chat(500))).await;
    let (status, _, body) = answered.expect("it is refused");
    assert_eq!(status, 502, "{body}");
    running.settles_to("tokens", 1_000).await;
    running.stop().await;
}

/// Each call that came once its cool-down was over tried it, and waited.
#[tokio::test]
async fn one_call_at_a_time_tries_a_member_that_could_not_be_reached() {
    let (base, taken) = black_hole().await;
    let clock = ManualClock::default();
    let service = Service::builder().clock(clock.clock());
    let provider = Provider::begin().await;
    let running = start(&provider, &in_order(TOKENS), service, |settings| {
        settings.upstreams[0].base = base;
    })
    .await;
    running.provider.next(Reply::answer(10, 10));
    let first = timeout(LONG, running.chat()).await;
    assert_eq!(first.expect("it goes to the other"), 200);
    assert_eq!(*taken.borrow(), 1);
    for tried in 2..=3 {
        // Nobody is passed over for longer.
        clock.advance(Duration::from_secs(16));
        for _ in 0..4 {
            running.provider.next(Reply::answer(10, 10));
        }
        let chat = || running.chat();
        let four = async { tokio::join!(chat(), chat(), chat(), chat()) };
        let four = timeout(LONG, four).await.expect("they go to the other");
        assert_eq!(<[StatusCode; 4]>::from(four), [StatusCode::OK; 4]);
        assert_eq!(*taken.borrow(), tried);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_member_that_is_reached_again_is_asked_by_all_at_once() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = socket.local_addr().unwrap();
    let clock = ManualClock::default();
    let service = Service::builder().clock(clock.clock());
    let provider = Provider::begin().await;
    let running = start(&provider, &in_order(TOKENS), service, |settings| {
        settings.upstreams[0].base = format!("http://{at}/one").parse().unwrap();
    })
    .await;
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    provider.serve(socket.listen(16).unwrap());
    clock.advance(Duration::from_secs(6));
    for _ in 0..3 {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.chat().await, 200);
    }
    assert_eq!(running.members(), ["two", "one", "one", "one"]);
    running.stop().await;
}
