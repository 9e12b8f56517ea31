//! A body that has to arrive.
//!
//! A request holds a permit while its body is read; a client that sends half of one would
//! hold it for ever.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tidegate_service::count_timeout;
use tokio::time::{Sleep, sleep};

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
    wait: Wait,
    late: fn() -> Broken,
}

/// How somebody waits for it.
#[derive(Debug)]
enum Wait {
    Not,
    /// What came with the head is there at the second look (the first one asks the
    /// connection for it): no clock is set for that.
    Looked,
    Until(Pin<Box<Sleep>>),
}

impl<B> TimedBody<B> {
    /// `body`, which has to arrive `within` this time over `protocol`.
    pub fn new(body: B, protocol: &'static str, within: Duration) -> Self {
        Self {
            body,
            protocol,
            within,
            wait: Wait::Not,
            late: || Box::new(Late),
        }
    }

    /// The same, which says this when it is late.
    #[must_use]
    pub fn or(mut self, late: fn() -> Broken) -> Self {
        self.late = late;
        self
    }
}

impl<B: Body<Error: Into<Broken>> + Unpin> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Broken>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let within = self.within;
        match &mut self.wait {
            Wait::Not => {
                self.wait = Wait::Looked;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Wait::Looked => {
                let mut deadline = Box::pin(sleep(within));
                let late = deadline.as_mut().poll(context);
                self.wait = Wait::Until(deadline);
                ready!(late);
            }
            Wait::Until(deadline) => ready!(deadline.as_mut().poll(context)),
        }
        count_timeout(self.protocol);
        Poll::Ready(Some(Err((self.late)())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
