//! One connection: reads, has everything answered that was read, writes once.
//!
//! Requests are decided one after the other where they lie in the read
//! buffer, and their answers go out together. Only an ask that waits stops
//! there: what was answered before it goes out first, and while it waits the
//! connection is read on (up to a request's longest length), so that a client
//! that is gone gives its place back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tidegate::gate::{Entry, Gate, GateError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use crate::command::{Flow, Waiting, answer};
use crate::fault::Fault;
use crate::parse::{Parser, ProtocolError};
use crate::session::{House, Session};
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
    idle: Interval,
    /// Whether anything came since `idle` rang.
    heard: bool,
}

/// Why no more is answered for now.
enum Pause {
    /// Nothing more is there in full.
    Heard,
    /// Enough for one write.
    Enough,
    /// Somebody's turn comes first.
    Wait(Box<Waiting>),
    /// The conversation is over.
    Over,
}

/// What became of a read.
enum Heard {
    Bytes,
    Nothing,
    Closing,
}

/// What became of a wait.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one a connection, and it is moved once"
)]
enum Waited {
    Told(Result<Entry, GateError>),
    Gone,
    Closing,
}

/// Whether the door closes: a future that may be asked again when it has ended.
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
    pub(crate) fn new(stream: S, gate: Gate, house: Arc<House>, settings: Settings) -> Self {
        // Two rings without a byte in between end it. That needs no look at a
        // clock for each request.
        let mut idle = interval_at(Instant::now() + settings.idle, settings.idle);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            stream,
            session: Session::new(gate, house),
            parser: Parser::new(settings.max_request_bytes),
            input: Vec::new(),
            start: 0,
            idle,
            heard: true,
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
            if let Heard::Nothing = self.listen(&mut closing).await? {
                break;
            }
        }
        self.stream.shutdown().await
    }

    /// Answers every request that is there in full; whether the conversation
    /// goes on.
    async fn answer_all<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<bool> {
        loop {
            let pause = self.answer_some();
            self.write().await?;
            match pause {
                Pause::Heard => return Ok(true),
                Pause::Enough => {}
                Pause::Over => return Ok(false),
                Pause::Wait(waiting) => {
                    if !self.wait(&waiting, closing).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Answers what goes out by one write.
    fn answer_some(&mut self) -> Pause {
        for _ in 0..self.settings.max_pipelined.max(1) {
            match self.answer_one() {
                Ok(Some(Flow::Next)) if self.session.replies.len() >= MANY_BYTES => break,
                Ok(Some(Flow::Next)) => {}
                Ok(Some(Flow::Wait(waiting))) => return Pause::Wait(waiting),
                Ok(Some(Flow::Close)) => return Pause::Over,
                Ok(None) => return Pause::Heard,
                Err(nonsense) => {
                    self.session.replies.error("ERR", &nonsense);
                    return Pause::Over;
                }
            }
        }
        Pause::Enough
    }

    /// Answers the first request, if it is there in full.
    #[inline]
    fn answer_one(&mut self) -> Result<Option<Flow>, ProtocolError> {
        let bytes = &mut self.input[self.start..];
        let Some(length) = self.parser.advance(bytes)? else {
            return Ok(None);
        };
        let flow = answer(&mut self.session, self.parser.arguments(bytes))?;
        self.start += length;
        Ok(Some(flow))
    }

    /// Waits for somebody's turn and tells them; whether the conversation goes on.
    async fn wait<F: Future<Output = ()>>(
        &mut self,
        waiting: &Waiting,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<bool> {
        let told = match self.turn_of(waiting, closing).await? {
            Waited::Told(told) => told,
            Waited::Gone => return Ok(false),
            Waited::Closing => {
                let fault = Fault::Closing;
                self.session.replies.error(fault.code(), &fault);
                return Ok(true);
            }
        };
        waiting.write(&mut self.session.replies, &told);
        let written = self.write().await;
        if let (Err(_), Ok(Entry::Granted(ticket))) = (&written, &told) {
            waiting.give_back(ticket);
        }
        written.map(|()| true)
    }

    /// Waits for somebody's turn, for the client to go, or for the door to
    /// close. Whoever is not told of a turn holds nothing and waits for nothing.
    async fn turn_of<F: Future<Output = ()>>(
        &mut self,
        waiting: &Waiting,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Waited> {
        let mut turn = std::pin::pin!(waiting.turn());
        while !closing.came {
            self.make_room();
            let room = self.input.len() < self.settings.max_request_bytes;
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input), if room => {
                    self.heard = true;
                    if read? == 0 {
                        return Ok(Waited::Gone);
                    }
                }
                told = turn.as_mut() => return Ok(Waited::Told(told)),
                () = closing.come() => {}
            }
        }
        Ok(Waited::Closing)
    }

    async fn listen<F: Future<Output = ()>>(
        &mut self,
        closing: &mut Closing<'_, F>,
    ) -> io::Result<Heard> {
        loop {
            tokio::select! {
                biased;
                () = closing.come() => return Ok(Heard::Closing),
                read = self.stream.read_buf(&mut self.input) => {
                    self.heard = true;
                    let gone = read? == 0;
                    return Ok(if gone { Heard::Nothing } else { Heard::Bytes });
                }
                _ = self.idle.tick() => {
                    if !std::mem::take(&mut self.heard) {
                        return Ok(Heard::Nothing);
                    }
                }
            }
        }
    }

    /// Sends what is answered. A client that does not take it is gone.
    async fn write(&mut self) -> io::Result<()> {
        if self.session.replies.len() == 0 {
            return Ok(());
        }
        let bytes = self.session.replies.bytes();
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        timeout(self.settings.idle, sent).await??;
        self.session.replies.clear(MANY_BYTES);
        Ok(())
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
