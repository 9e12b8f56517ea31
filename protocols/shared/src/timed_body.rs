//! A body that has to arrive.
//!
//! A request holds a permit while its body is read; a client that sends half of one would
//! hold it for ever.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tidegate_service::count_timeout;
use tokio::time::{Instant, Sleep, sleep};

type Broken = Box<dyn Error + Send + Sync>;

/// A body did not arrive in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late;

impl std::fmt::Display for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body took too long to arrive")
    }
}

impl Error for Late {}

/// A body with a deadline, from when it first keeps somebody waiting. One that is late
/// ends with the error [`Late`] (or what a protocol says instead), and is counted.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: B,
    protocol: &'static str,
    within: Duration,
    pace: Option<Pace>,
    wait: Wait,
    late: fn() -> Broken,
}

/// What came of a body that has more time the more of it comes.
#[derive(Debug)]
struct Pace {
    /// In bytes a second.
    least: u64,
    /// In bytes.
    came: u64,
    /// When the last of it came.
    at: Instant,
}

/// How somebody waits for it.
#[derive(Debug)]
enum Wait {
    Not,
    /// What came with the head is there at the second look (the first one asks the
    /// connection for it): no clock is set for that.
    Looked,
    Until {
        deadline: Pin<Box<Sleep>>,
        begun: Instant,
    },
}

impl<B> TimedBody<B> {
    /// `body`, which has to arrive `within` this time over `protocol`.
    pub fn new(body: B, protocol: &'static str, within: Duration) -> Self {
        Self {
            body,
            protocol,
            within,
            pace: None,
            wait: Wait::Not,
            late: || Box::new(Late),
        }
    }

    /// The same, which may pause for that time, and has that time and a second more for each `least`
    /// bytes that come: steadily it may take longer.
    #[must_use]
    pub fn at_least(mut self, least: u64) -> Self {
        self.pace = Some(Pace {
            least: least.max(1),
            came: 0,
            at: Instant::now(),
        });
        self
    }

    /// The same, which says this when it is late.
    #[must_use]
    pub fn or(mut self, late: fn() -> Broken) -> Self {
        self.late = late;
        self
    }
}

impl Pace {
    fn hears(&mut self, bytes: usize) {
        self.came = self.came.saturating_add(bytes as u64);
        self.at = Instant::now();
    }

    /// Until when more has to come, of a body that is waited for since `begun`. It is never earlier
    /// than it was.
    fn deadline(&self, begun: Instant, within: Duration) -> Instant {
        let earned = Duration::from_millis(self.came.saturating_mul(1_000) / self.least);
        let pauses = self.at.max(begun) + within;
        pauses.min(begun + within + earned)
    }
}

impl<B: Body<Error: Into<Broken>> + Unpin> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Broken>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let (Some(pace), Some(Ok(frame))) = (&mut this.pace, &frame) {
                pace.hears(frame.data_ref().map_or(0, Buf::remaining));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if let Wait::Not = this.wait {
            this.wait = Wait::Looked;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Wait::Looked = this.wait {
            this.wait = Wait::Until {
                deadline: Box::pin(sleep(this.within)),
                begun: Instant::now(),
            };
        }
        if let Wait::Until { deadline, begun } = &mut this.wait {
            loop {
                ready!(deadline.as_mut().poll(context));
                let pace = this.pace.as_ref();
                match pace.map(|pace| pace.deadline(*begun, this.within)) {
                    Some(later) if later > deadline.deadline() => deadline.as_mut().reset(later),
                    _ => break,
                }
            }
        }
        count_timeout(this.protocol);
        Poll::Ready(Some(Err((this.late)())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::Bytes;
    use tokio::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// What is sent to it.
    struct Sent(Receiver<Bytes>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
            self.0
                .poll_recv(context)
                .map(|data| data.map(Frame::data).map(Ok))
        }
    }

    /// A body of which `bytes` come every `every` seconds, for so long; how long it was read, and
    /// whether it was late.
    async fn read(least: Option<u64>, (bytes, every): (usize, u64), seconds: u64) -> (u64, bool) {
        let (send, receive): (Sender<Bytes>, _) = channel(1);
        tokio::spawn(async move {
            for _ in 0..seconds / every {
                tokio::time::sleep(Duration::from_secs(every)).await;
                if send.send(vec![0; bytes].into()).await.is_err() {
                    return;
                }
            }
        });
        let begun = Instant::now();
        let mut body = TimedBody::new(Sent(receive), "test", Duration::from_secs(30));
        if let Some(least) = least {
            body = body.at_least(least);
        }
        loop {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            match frame {
                Some(Ok(_)) => {}
                None => return (begun.elapsed().as_secs(), false),
                Some(Err(error)) => {
                    assert!(error.is::<Late>(), "{error}");
                    return (begun.elapsed().as_secs(), true);
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_its_time_in_all_or_for_a_pause_if_it_comes_as_fast_as_it_has_to() {
        assert_eq!(read(None, (1_000, 10), 60).await, (30, true));
        assert_eq!(read(None, (1_000, 10), 20).await, (20, false));
        // As fast as it has to, and for long.
        assert_eq!(read(Some(100), (1_000, 10), 3_600).await, (3_600, false));
        // Half as fast: 30 s, and half of what it takes.
        assert_eq!(read(Some(100), (350, 7), 3_600).await, (54, true));
        assert_eq!(read(Some(100), (1, 29), 3_600).await, (30, true));
        // A pause is no longer whatever came before.
        assert_eq!(read(Some(100), (1_000_000, 20), 20).await, (20, false));
        assert_eq!(read(Some(100), (1_000_000, 31), 62).await, (30, true));
    }
}
