//! One connection: reads, has everything answered that was read, writes once.
//!
//! Requests are decided one after the other where they lie in the read
//! buffer, and their answers go out together. Only one that is not answered at
//! once (it waits for its turn, or its store is beyond a network) stops there:
//! what was answered before it goes out first, and meanwhile the connection is
//! read on (up to a request's longest length), so that a client that is gone
//! gives its place back.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_protocol::Share;
use tidegate_service::{Service, Undelivered, count_timeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::command::{Flow, answer};
use crate::error::Fault;
use crate::parse::{Parser, ProtocolError};
use crate::session::{Counts, Session};
use crate::settings::Settings;

/// What is read at once to begin with; a connection that sends more gets more.
const SMALL: usize = 4 * 1_024;

/// What a connection keeps of that once it sends less.
const MODEST: usize = 4 * SMALL;

/// Answers go out as soon as there are so many bytes of them.
const MANY_BYTES: usize = 64 * 1_024;

/// A stream, and what was read from it and not yet answered.
pub(crate) struct Connection<S> {
    stream: S,
    settings: Settings,
    session: Session,
    parser: Parser,
    input: Vec<u8>,
    /// Where the first request begins that is not answered yet.
    start: usize,
    out: Outgoing,
    /// Until when a command must be there in full: one that has begun, and the first.
    deadline: Option<Instant>,
    idle: Interval,
    /// Whether anything came since `idle` rang.
    received: bool,
}

/// Answers that are yet to go out, and the leases that they tell of.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    leases: Vec<Arc<Undelivered>>,
}

/// Why no more is answered for now.
enum Pause {
    /// The rest of a request is not there yet.
    Incomplete,
    /// Enough for one write.
    Enough,
    /// The conversation is over.
    Over,
}

/// What became of a read.
enum Received {
    Bytes,
    /// The client has closed, or sent nothing for too long.
    Ended,
    /// Nothing that makes a command whole, for too long.
    Late,
    Closing,
}

/// What became of one request.
enum Answered {
    Next,
    /// It is not there in full.
    Incomplete,
    /// The conversation is over, after what was answered.
    Close,
    /// The client is gone.
    Gone,
}

/// Whether the server closes: a future that may be asked again when it has ended.
struct Closing<'a, F> {
    signal: Pin<&'a mut F>,
    came: bool,
}

impl<F: Future<Output = ()>> Closing<'_, F> {
    async fn come(&mut self) {
        if !self.came {
            self.signal.as_mut().await;
            self.came = true;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(
        stream: S,
        (service, peer, share): (Service, Option<SocketAddr>, Option<Share>),
        counts: Arc<Counts>,
        settings: Settings,
    ) -> Self {
        // Two rings without a byte in between end it. That needs no look at a
        // clock for each request.
        let now = Instant::now();
        let mut idle = interval_at(now + settings.idle, settings.idle);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            stream,
            session: Session::new(service, (peer, share), counts),
            parser: Parser::new(settings.max_request_bytes),
            input: Vec::new(),
            start: 0,
            out: Outgoing::default(),
            deadline: Some(now + settings.request_timeout),
            idle,
            received: true,
            settings,
        }
    }

    /// Talks until the client goes, is silent for too long or sends nonsense,
    /// or until `closing` ends and everything that was read is answered.
    pub(crate) async fn talk(mut self, closing: impl Future<Output = ()>) -> io::Result<()> {
        let mut closing = Closing {
            signal: std::pin::pin!(closing),
            came: false,
        };
        while self.answer_all(&mut closing).await? && !closing.came {
            self.make_room();
            match self.listen(&mut closing).await? {
                Received::Bytes | Received::Closing => {}
                Received::Ended => break,
                Received::Late => {
                    count_timeout("resp");
                    let fault = Fault::Late(self.settings.request_timeout);
                    self.session.replies.error(fault.code(), &fault);
                    self.keep_answer();
                    self.write().await?;
                    break;
                }
            }
        }
        timeout(self.settings.request_timeout, self.stream.shutdown()).await?
    }

    /// Answers every request that is there in full; whether the conversation
    /// goes on.
    async fn answer_all<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<bool> {
        loop {
            let pause = self.answer_some(closing).await?;
            self.write().await?;
            match pause {
                Pause::Incomplete => return Ok(true),
                Pause::Enough => {}
                Pause::Over => return Ok(false),
            }
        }
    }

    /// Answers what goes out by one write.
    async fn answer_some<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Pause> {
        for _ in 0..self.settings.max_pipelined.max(1) {
            match self.answer_one(closing).await? {
                Answered::Next if self.out.bytes.len() >= MANY_BYTES => break,
                Answered::Next => {}
                Answered::Incomplete => return Ok(Pause::Incomplete),
                Answered::Close => return Ok(Pause::Over),
                Answered::Gone => return Ok(Pause::Over),
            }
        }
        Ok(Pause::Enough)
    }

    /// Answers the first request, if it is there in full.
    #[inline]
    async fn answer_one<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Answered> {
        let bytes = &mut self.input[self.start..];
        let length = match self.parser.advance(bytes) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(Answered::Incomplete),
            Err(nonsense) => return Ok(self.refuse(&nonsense)),
        };
        let arguments = self.parser.arguments(bytes);
        let read_ahead = bytes.len() - length;
        let mut behind = Behind {
            stream: &mut self.stream,
            out: &mut self.out,
            input: Vec::new(),
            most: self.settings.max_request_bytes.saturating_sub(read_ahead),
            within: self.settings.request_timeout,
        };
        let answered = {
            let mut answering = pin!(answer(&mut self.session, arguments));
            // Most are answered at once.
            match poll_once(answering.as_mut()).await {
                Poll::Ready(flow) => Some(flow),
                Poll::Pending => match behind.wait(answering, closing).await? {
                    Waited::Answered(flow) => Some(flow),
                    Waited::Closing => None,
                    Waited::Gone => return Ok(Answered::Gone),
                },
            }
        };
        let read_on = behind.input;
        self.start += length;
        self.deadline = None;
        if !read_on.is_empty() {
            self.received = true;
            self.read_on(&read_on);
        }
        let flow = match answered {
            Some(Ok(flow)) => flow,
            Some(Err(nonsense)) => return Ok(self.refuse(&nonsense)),
            None => {
                let fault = Fault::Closing;
                self.session.replies.error(fault.code(), &fault);
                Flow::Next
            }
        };
        self.keep_answer();
        Ok(match flow {
            Flow::Next => Answered::Next,
            Flow::Close => Answered::Close,
        })
    }

    /// Keeps what was read while a request was not answered. Where each one is so, nobody
    /// else makes room: what is answered is dropped as soon as it is as much as what is
    /// left, so that no byte is moved more than once.
    fn read_on(&mut self, bytes: &[u8]) {
        if self.start >= self.input.len() - self.start {
            self.input.drain(..std::mem::take(&mut self.start));
        }
        self.input.extend_from_slice(bytes);
    }

    /// What was answered goes out with what was answered before.
    #[inline]
    fn keep_answer(&mut self) {
        let answers = self.session.replies.bytes();
        self.out.bytes.extend_from_slice(answers);
        self.out.leases.append(&mut self.session.undelivered);
        self.session.replies.clear(MANY_BYTES);
    }

    fn refuse(&mut self, nonsense: &ProtocolError) -> Answered {
        self.session.replies.error("ERR", nonsense);
        self.keep_answer();
        Answered::Close
    }

    async fn listen<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Received> {
        let begun = !self.input.is_empty();
        if begun && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.settings.request_timeout);
        }
        loop {
            tokio::select! {
                biased;
                () = closing.come() => return Ok(Received::Closing),
                read = self.stream.read_buf(&mut self.input) => {
                    self.received = true;
                    if !begun {
                        self.deadline = None;
                    }
                    let gone = read? == 0;
                    return Ok(if gone { Received::Ended } else { Received::Bytes });
                }
                () = at(self.deadline) => return Ok(Received::Late),
                _ = self.idle.tick() => {
                    if !std::mem::take(&mut self.received) {
                        return Ok(Received::Ended);
                    }
                }
            }
        }
    }

    /// Sends what is answered. A client that does not take it is gone.
    async fn write(&mut self) -> io::Result<()> {
        let within = self.settings.request_timeout;
        self.out.send(&mut self.stream, within).await
    }

    /// Drops what is answered, and makes room for more: as much as before, or
    /// twice that if all of it was used, up to the longest request.
    fn make_room(&mut self) {
        let (used, capacity) = (self.input.len(), self.input.capacity());
        self.input.drain(..std::mem::take(&mut self.start));
        let left = self.input.len();
        if left == 0 && used < capacity {
            self.input.shrink_to(MODEST);
        }
        let wanted = match used == capacity {
            true => (2 * capacity).clamp(SMALL, self.settings.max_request_bytes.max(SMALL)),
            false => self.input.capacity(),
        };
        // At least a byte: to read into no room is to hear that nobody is there.
        self.input.reserve_exact(wanted.saturating_sub(left).max(1));
    }
}

/// What goes on while a request is not answered yet.
struct Behind<'c, S> {
    stream: &'c mut S,
    out: &'c mut Outgoing,
    /// What was read meanwhile, and how much that may be.
    input: Vec<u8>,
    most: usize,
    /// How long the client may take to take answers.
    within: Duration,
}

/// What became of a request that is not answered at once.
enum Waited {
    Answered(Result<Flow, ProtocolError>),
    /// The client is gone: it holds nothing and waits for nothing.
    Gone,
    /// The server closes: so it does.
    Closing,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Behind<'_, S> {
    /// Waits for the answer, for the client to go, or for the server to close.
    async fn wait<F: Future<Output = ()>>(
        &mut self,
        mut answering: Pin<&mut impl Future<Output = Result<Flow, ProtocolError>>>,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Waited> {
        // What was answered before does not wait with it.
        self.out.send(self.stream, self.within).await?;
        while !closing.came {
            let room = self.input.len() < self.most;
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input), if room => {
                    if read? == 0 {
                        return Ok(Waited::Gone);
                    }
                }
                flow = answering.as_mut() => return Ok(Waited::Answered(flow)),
                () = closing.come() => {}
            }
        }
        Ok(Waited::Closing)
    }
}

impl Outgoing {
    /// Sends what is there: the leases in it are their holders' from then on. A client that
    /// does not take it `within` this time is gone.
    async fn send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        within: Duration,
    ) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let sent = async {
            stream.write_all(&self.bytes).await?;
            stream.flush().await
        };
        match timeout(within, sent).await {
            Ok(sent) => sent?,
            Err(_) => {
                count_timeout("resp");
                let words = format!("the client did not take its answers within {within:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, words));
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(MANY_BYTES);
        self.leases.drain(..).for_each(|lease| lease.deliver());
        Ok(())
    }
}

/// Waits until this instant; for ever without one.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// What `future` comes to at once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tidegate::ManualClock;
    use tidegate_policy::parse;
    use tokio::io::duplex;

    use super::*;

    const LONGEST: usize = 1_024;

    /// At each of them as much was read as one request may have, and nothing was dropped
    /// before all were answered.
    #[tokio::test]
    async fn a_pipeline_of_requests_that_wait_is_kept_within_a_bound() {
        const COUNT: usize = 2_000;
        let file = parse("t", "policy.slots.limits.running = { concurrency = 1 }").unwrap();
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock()).build(&file).unwrap();
        let request = b"TG.ACQUIRE slots k WAIT 1\r\n";
        let (mut client, server) = duplex(1 << 22);
        client.write_all(&request.repeat(COUNT)).await.unwrap();
        let settings = Settings::default().max_request_bytes(LONGEST);
        let mut connection =
            Connection::new(server, (service, None, None), Arc::default(), settings);
        let mut closing = Closing {
            signal: pin!(pending()),
            came: false,
        };
        // The first is granted at once, and each of the others refused a millisecond later.
        for _ in 0..COUNT {
            while let Answered::Incomplete = {
                let mut answering = pin!(connection.answer_one(&mut closing));
                loop {
                    match poll_once(answering.as_mut()).await {
                        Poll::Ready(answered) => break answered.unwrap(),
                        Poll::Pending => {
                            time.advance(Duration::from_millis(1));
                            tokio::task::yield_now().await;
                        }
                    }
                }
            } {
                connection.make_room();
                connection.listen(&mut closing).await.unwrap();
            }
            let kept = connection.input.len();
            assert!(kept <= 4 * SMALL, "{kept}");
        }
    }
}
