//! The answer on its way: read as it passes, and settled when it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate::{MAX_AMOUNT, Outcome};
use tidegate_llm::{Answer as Reading, Cost, Ended, Provider, Request, Reserved, Usage};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::events::WithoutUsage;
use crate::held::Held;
use crate::inner::Inner;
use crate::learning::Measured;

type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What a caller is answered.
pub enum Answer {
    /// What the gateway says itself.
    Own(Option<Bytes>),
    /// What a provider says.
    Provider(Box<Passing>),
}

/// What a provider says, as it passes.
pub struct Passing {
    body: Incoming,
    reading: Reading,
    without_usage: Option<WithoutUsage>,
    pause: Duration,
    /// When it said something last.
    spoke_at: Instant,
    /// Rings when it may have been silent for too long; set only while it is waited for.
    silence: Option<Pin<Box<Sleep>>>,
    ended: bool,
    /// Why it broke off, until the caller is told.
    broken: Option<Broken>,
    /// How many tokens of the answer are taken from the limits.
    taken: u64,
    settling: Option<Settling>,
}

/// What it takes to settle a call.
pub struct Settling {
    pub gateway: Arc<Inner>,
    pub held: Held,
    pub provider: Provider,
    pub model: String,
    pub key: Arc<[u8]>,
    pub request: Request,
    /// What was estimated of it.
    pub reserved: Reserved,
    /// How many tokens of its answer are paid for by what was taken for it.
    pub covered: u64,
    pub cost: Cost,
    /// Whether it uses tokens: else what it says of none means nothing.
    pub uses_tokens: bool,
    /// What the headers say of it.
    pub usage: Usage,
    /// How long the provider took to begin its answer: all of one that is no stream.
    pub took: Duration,
}

impl Passing {
    pub fn new(
        body: Incoming,
        reading: Reading,
        filter: bool,
        pause: Duration,
        settling: Settling,
    ) -> Self {
        Self {
            body,
            reading,
            without_usage: filter.then(WithoutUsage::default),
            pause,
            spoke_at: Instant::now(),
            silence: None,
            ended: false,
            broken: None,
            taken: settling.covered,
            settling: Some(settling),
        }
    }

    fn read(&mut self, data: Bytes) -> Bytes {
        self.reading.read(&data);
        if let (Reading::Stream(reader), Some(settling)) = (&self.reading, &mut self.settling)
            && reader.events() > 0
        {
            let took = settling.held.since_sent();
            settling.held.measured(Measured::FirstToken, took);
            let came = settling.request.bounded(reader.output());
            if came > self.taken {
                self.taken = settling.takes_more(came);
            }
        }
        match &mut self.without_usage {
            Some(events) => events.pass(&data),
            None => data,
        }
    }

    /// They say of its usage what headers may; nobody has asked for them, and they go no further.
    fn read_trailers(&mut self, trailers: &HeaderMap) {
        if let Some(settling) = &mut self.settling {
            settling.usage = settling.usage.then(Usage::of_headers(trailers));
        }
    }

    /// Settles, once.
    fn settle(&mut self, complete: bool) {
        if let Some(settling) = self.settling.take() {
            settling.settle(&self.reading, complete);
        }
    }
}

impl Settling {
    /// What an answer that is no stream took, for each of its tokens if it has some.
    fn measure(&mut self, said: &Usage) {
        let tokens = said.output.filter(|tokens| *tokens > 0);
        match tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)) {
            Some(tokens) => self.held.measured(Measured::EachToken, self.took / tokens),
            None => self.held.measured(Measured::Whole, self.took),
        }
    }

    /// A stream has come to so many tokens, more than were taken: it takes a quarter more than came,
    /// whatever its limits have left, so that they grant nobody else what it uses. How many tokens are
    /// taken then.
    fn takes_more(&self, came: u64) -> u64 {
        let bound = self.request.output_bound();
        let holds = bound.filter(|bound| came <= *bound);
        let most = holds.unwrap_or(MAX_AMOUNT);
        let taken = came.saturating_add(came / 4).min(most);
        let usage = Usage {
            input: Some(self.reserved.input),
            output: Some(taken),
            ..Usage::default()
        };
        let policy = self.held.active().policy();
        let settings = &self.gateway.settings;
        let amounts = settings.used(policy, (self.provider, bound), &usage, &self.cost);
        self.held.grow(&amounts);
        taken
    }

    fn settle(mut self, reading: &Reading, complete: bool) {
        if !self.uses_tokens {
            return self.held.release();
        }
        let ended = reading.end(self.provider, &self.request, self.usage, complete);
        if ended.came.is_none() && ended.whole {
            self.measure(&ended.said);
        }
        let meters = &self.gateway.meters;
        match (ended.whole, ended.said.is_known()) {
            (false, _) => meters.broken.increment(1),
            (true, false) => meters.unknown.increment(1),
            (true, true) => {
                let key = String::from_utf8_lossy(&self.key);
                self.gateway
                    .learn(&self.model, &key, &self.request, &ended.said);
            }
        }
        let outcome = match ended.is_said() {
            true => Outcome::Succeeded,
            false => Outcome::Ignored,
        };
        let least = Reserved {
            output: self.covered,
            ..self.reserved
        };
        match ended.usage(least) {
            Some(usage) => self.settle_for(usage, &ended, outcome),
            None => self.held.release(),
        }
    }

    /// It has used so much by what was taken of the smallest limit.
    fn settle_for(self, least: Usage, ended: &Ended, outcome: Outcome) {
        let usage = |taken: Reserved| ended.usage(taken).unwrap_or(least);
        // A stream's headers come before its events, of which they count no more than is bounded.
        let early = |taken: Reserved| {
            let usage = usage(taken);
            let most = ended.came.map_or(MAX_AMOUNT, |_| self.reserved.output);
            let output = usage.output.map(|output| output.min(most));
            Usage { output, ..usage }
        };
        let active = Arc::clone(self.held.active());
        let by = (self.provider, self.request.output_bound());
        let of_taken = |usage: &dyn Fn(Reserved) -> Usage| {
            let taken = (self.held.amounts(), self.reserved);
            let settings = &self.gateway.settings;
            settings.used_of_taken(active.policy(), by, taken, usage, &self.cost)
        };
        let (used, early, all) = (of_taken(&usage), of_taken(&early), usage(self.reserved));
        let figures = self.gateway.usage.used(&self.key, &self.model);
        figures.add(&all, self.cost.price);
        self.held.settle((&used, &early), all.total(), outcome);
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Provider(passing) => passing.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Provider(passing) => passing.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Provider(passing) if passing.without_usage.is_none() => passing.body.size_hint(),
            Self::Provider(_) => SizeHint::default(),
        }
    }
}

impl Passing {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(settling) = &self.settling {
            settling.held.note_read();
        }
        if let Some(broken) = self.broken.take() {
            self.ended = true;
            return Poll::Ready(Some(Err(broken)));
        }
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return self.poll_silence(context),
                Poll::Ready(None) => {
                    self.ended = true;
                    self.settle(true);
                    let rest = self.without_usage.as_mut().map(WithoutUsage::rest);
                    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.settle(false);
                    self.broken = Some(error.into());
                    // The connection goes with the error, and what is not written yet with it:
                    // what came is written first.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => {
                    self.spoke_at = Instant::now();
                    let data = match frame.into_data() {
                        Ok(data) => data,
                        Err(frame) => {
                            self.read_trailers(&frame.into_trailers().unwrap_or_default());
                            continue;
                        }
                    };
                    let passed = self.read(data);
                    // A client that counts bytes takes the last one for the end, and may be gone
                    // before it is asked for more.
                    if self.body.is_end_stream() {
                        self.settle(true);
                    }
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
            }
        }
    }

    fn poll_silence(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let until = self.spoke_at + self.pause;
        let silence = self
            .silence
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        while silence.as_mut().poll(context).is_ready() {
            if silence.deadline() >= until {
                return self.end_silence();
            }
            silence.as_mut().reset(until);
        }
        Poll::Pending
    }

    fn end_silence(&mut self) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.ended = true;
        if let Some(settling) = &mut self.settling {
            settling.held.dropped();
        }
        self.settle(false);
        let why = format!("the provider has said nothing for {:?}", self.pause);
        Poll::Ready(Some(Err(why.into())))
    }
}

/// The caller is gone.
impl Drop for Passing {
    fn drop(&mut self) {
        self.settle(false);
    }
}
