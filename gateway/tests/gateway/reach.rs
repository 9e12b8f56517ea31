//! Members of a pool to which no connection comes about: who waits for one, and who goes elsewhere at once.

use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, advance, pause, resume, timeout};

use super::*;

/// Longer than any of these tests takes, and no bound of what they are about.
const LONG: Duration = Duration::from_secs(120);

/// An upstream that takes connections and says nothing of TLS: each of them is a call that waits for it.
struct Mute(TcpListener);

impl Mute {
    async fn begin() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn base(&self) -> http::Uri {
        let at = self.0.local_addr().unwrap();
        format!("https://{at}").parse().unwrap()
    }

    /// The next call that waits for it.
    async fn next(&self) -> TcpStream {
        let next = timeout(LONG, self.0.accept()).await;
        next.expect("somebody asks it").unwrap().0
    }

    /// Whether one does that has not been told of.
    fn is_asked(&self) -> bool {
        futures_util::FutureExt::now_or_never(self.0.accept()).is_some()
    }
}

/// So much later, as far as time-outs go; when that is.
async fn passes(time: Duration) -> Instant {
    pause();
    advance(time).await;
    let now = Instant::now();
    resume();
    now
}

/// Longer than any connection is waited for.
const CONNECTED: Duration = Duration::from_secs(11);

/// The longest that a member is passed over.
const PASSED_OVER: Duration = Duration::from_secs(60);

/// A gateway that closes no connection because time passes.
async fn timeless(policy: &str, change: impl FnOnce(&mut Settings)) -> Running {
    let change = |settings: &mut Settings| {
        settings.head_timeout = Duration::from_secs(86_400);
        change(settings);
    };
    run(policy, change).await
}

impl Running {
    /// What a call is answered that waits for that upstream until its time is over; when that is.
    async fn chat_past(&self, mute: &Mute) -> (StatusCode, Instant) {
        let passes = async {
            let _waits = mute.next().await;
            passes(CONNECTED).await
        };
        tokio::join!(self.chat_in_time(), passes)
    }

    async fn chat_in_time(&self) -> StatusCode {
        timeout(LONG, self.chat()).await.expect("it is answered")
    }
}

/// Each call that went there waited for ten seconds: with four members, a quarter of all.
#[tokio::test]
async fn a_member_that_cannot_be_reached_is_tried_by_one_call_at_a_time() {
    let mute = Mute::begin().await;
    let running = timeless(&in_order(TOKENS), |settings| {
        settings.upstreams[0].base = mute.base();
        settings.wait = Duration::from_secs(300);
    })
    .await;
    running.provider.next(Reply::answer(1, 1));
    let (status, since) = running.chat_past(&mute).await;
    assert_eq!(status, 200);
    running.provider.next(Reply::answer(1, 1));
    assert_eq!(running.chat_in_time().await, 200);
    // Unless this machine took the whole of its five seconds.
    assert!(!mute.is_asked() || since.elapsed() >= Duration::from_secs(5));
    for _ in 0..3 {
        passes(PASSED_OVER).await;
        (0..4).for_each(|_| drop(running.provider.next(Reply::answer(1, 1))));
        let others = async {
            let _waits = mute.next().await;
            for _ in 0..3 {
                assert_eq!(running.chat_in_time().await, 200);
            }
            assert!(!mute.is_asked(), "they go elsewhere at once");
            passes(CONNECTED).await;
        };
        let (status, ()) = tokio::join!(running.chat_in_time(), others);
        assert_eq!(status, 200);
    }
    assert_eq!(running.members(), ["two"; 14]);
    running.stop().await;
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn a_member_that_can_be_reached_again_is_asked_as_before() {
    let at = nobody();
    let running = timeless(&in_order(TOKENS), |settings| {
        settings.upstreams[0].base = format!("http://{at}/one").parse().unwrap();
    })
    .await;
    for _ in 0..2 {
        running.provider.next(Reply::answer(1, 1));
        assert_eq!(running.chat().await, 200);
    }
    let back = Provider::begin_at(at).await;
    passes(PASSED_OVER).await;
    for _ in 0..3 {
        back.next(Reply::answer(1, 1));
        assert_eq!(running.chat().await, 200);
    }
    assert_eq!(running.members(), ["two", "two"]);
    assert_eq!(back.seen().len(), 3);
    running.stop().await;
}

/// Its caller was told that limits refuse it, and nobody was asked.
#[tokio::test]
async fn a_call_is_tried_though_no_member_can_be_reached() {
    let running = timeless(&in_order(TOKENS), |settings| {
        for upstream in &mut settings.upstreams {
            upstream.base = format!("http://{}", nobody()).parse().unwrap();
        }
    })
    .await;
    for _ in 0..3 {
        assert_eq!(running.chat_in_time().await, 502);
    }
    running.settles_to("tokens", 1_000).await;
    running.stop().await;
}

/// The call that tries it is gone: the next one does.
#[tokio::test]
async fn a_caller_that_leaves_while_it_tries_a_member_keeps_nobody_from_it() {
    let mute = Mute::begin().await;
    let running = timeless(&in_order(TOKENS), |settings| {
        settings.upstreams[0].base = mute.base();
    })
    .await;
    running.provider.next(Reply::answer(1, 1));
    assert_eq!(running.chat_past(&mute).await.0, 200);
    passes(PASSED_OVER).await;
    let waits = tokio::select! {
        _ = running.chat() => unreachable!("it waits"),
        waits = mute.next() => waits,
    };
    drop(waits);
    let asked = async {
        while !mute.is_asked() {
            running.provider.next(Reply::answer(1, 1));
            // One that comes before the gateway knows passes it over.
            let _ = timeout(Duration::from_millis(20), running.chat()).await;
        }
    };
    timeout(LONG, asked).await.expect("the next one tries it");
    running.stop().await;
}

/// A provider's TLS could take as long as its answer: ten minutes.
#[tokio::test]
async fn tls_that_does_not_come_about_is_waited_for_as_long_as_any_connection() {
    let mute = Mute::begin().await;
    let running = timeless(POLICY, |settings| settings.upstreams[0].base = mute.base()).await;
    for _ in 0..2 {
        assert_eq!(running.chat_past(&mute).await.0, 502);
    }
    running.settles_to("tokens", 1_000).await;
    running.stop().await;
}

/// An address that answers nothing: no packet that would begin a connection is taken.
struct BlackHole {
    at: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    async fn begin() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        // Nobody accepts: one of these is let in no more.
        while let Ok(stream) = timeout(Duration::from_secs(1), TcpStream::connect(at)).await {
            queue.push(stream.unwrap());
        }
        Self {
            at,
            _listener: listener,
            _queue: queue,
        }
    }
}

#[tokio::test]
async fn a_call_leaves_itself_time_for_another_member_than_one_that_takes_no_connection() {
    let hole = BlackHole::begin().await;
    let running = timeless(&in_order(TOKENS), |settings| {
        settings.upstreams[0].base = format!("http://{}/one", hole.at).parse().unwrap();
        settings.wait = Duration::from_secs(4);
    })
    .await;
    running.provider.next(Reply::answer(1, 1));
    let begun = Instant::now();
    assert_eq!(running.chat_in_time().await, 200);
    // Half of its four seconds.
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(running.members(), ["two"]);
    running.stop().await;
}

/// Of the pool's one member nobody can be told to go elsewhere.
#[tokio::test]
async fn the_only_member_is_tried_by_each_call() {
    let mute = Mute::begin().await;
    let one = pool(IN_ORDER, &[("one", TOKENS)]);
    let running = timeless(&one, |settings| settings.upstreams[0].base = mute.base()).await;
    for _ in 0..3 {
        assert_eq!(running.chat_past(&mute).await.0, 502);
    }
    running.stop().await;
}
