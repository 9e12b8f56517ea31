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

use tidegate::gate::{Entry, Gate};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use crate::command::{Flow, Waiting, answer};
use crate::fault::Fault;
use crate::parse::{Parser, ProtocolError};
use crate::session::{House, Session};
use crate::settings::Settings;

/// What is read at once to begin with; a connection that sends more gets more.
const SMALL: usize = 4 * 1_024;

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

/// Why a connection is over without an error.
struct Over;

/// What became of a read.
enum Heard {
    Bytes,
    Nothing,
    Closing,
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
        let mut closing = std::pin::pin!(closing);
        let mut closed = false;
        loop {
            if self
                .answer_all(closing.as_mut(), &mut closed)
                .await?
                .is_some()
                || closed
            {
                return self.stream.shutdown().await;
            }
            self.make_room();
            match self.listen(closing.as_mut()).await? {
                Heard::Bytes => {}
                Heard::Nothing => return self.stream.shutdown().await,
                Heard::Closing => closed = true,
            }
        }
    }

    /// Answers every request that is there in full.
    async fn answer_all<F: Future<Output = ()>>(
        &mut self,
        mut closing: Pin<&mut F>,
        closed: &mut bool,
    ) -> io::Result<Option<Over>> {
        let mut pipelined = 0;
        loop {
            match self.answer_one() {
                Ok(None) => break,
                Ok(Some(Flow::Next)) => pipelined += 1,
                Ok(Some(Flow::Close)) => {
                    self.write().await?;
                    return Ok(Some(Over));
                }
                Ok(Some(Flow::Wait(waiting))) => {
                    self.write().await?;
                    if self
                        .wait(&waiting, closing.as_mut(), closed)
                        .await?
                        .is_some()
                    {
                        return Ok(Some(Over));
                    }
                }
                Err(nonsense) => {
                    self.session.replies.error("ERR", &nonsense);
                    self.write().await?;
                    return Ok(Some(Over));
                }
            }
            let enough = pipelined >= self.settings.max_pipelined;
            if enough || self.session.replies.len() >= MANY_BYTES {
                pipelined = 0;
                self.write().await?;
            }
        }
        self.write().await?;
        Ok(None)
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

    /// Waits for somebody's turn, for the client to go, or for the door to close.
    async fn wait<F: Future<Output = ()>>(
        &mut self,
        waiting: &Waiting,
        mut closing: Pin<&mut F>,
        closed: &mut bool,
    ) -> io::Result<Option<Over>> {
        let mut turn = Box::pin(waiting.turn());
        let told = loop {
            if *closed {
                // Whoever is told so holds nothing and waits for nothing.
                drop(turn);
                let fault = Fault::Closing;
                self.session.replies.error(fault.code(), &fault);
                return Ok(None);
            }
            self.make_room();
            let room = self.input.len() < self.settings.max_request_bytes;
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input), if room => match read? {
                    0 => return Ok(Some(Over)),
                    _ => self.heard = true,
                },
                told = &mut turn => break told,
                () = closing.as_mut() => *closed = true,
            }
        };
        let ticket = match &told {
            Ok(Entry::Granted(ticket)) => Some(ticket.clone()),
            _ => None,
        };
        waiting.write(&mut self.session.replies, told);
        let written = self.write().await;
        if let (Err(_), Some(ticket)) = (&written, ticket) {
            waiting.give_back(&ticket);
        }
        written.map(|()| None)
    }

    async fn listen<F: Future<Output = ()>>(
        &mut self,
        mut closing: Pin<&mut F>,
    ) -> io::Result<Heard> {
        loop {
            tokio::select! {
                biased;
                () = closing.as_mut() => return Ok(Heard::Closing),
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
    /// twice that if it was all used, up to the longest request.
    fn make_room(&mut self) {
        let full = self.input.len() == self.input.capacity();
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        if self.input.is_empty() && !full {
            self.input.shrink_to(4 * SMALL);
        }
        let wanted = match full {
            true => {
                (2 * self.input.capacity()).clamp(SMALL, self.settings.max_request_bytes.max(SMALL))
            }
            false => self.input.len() + 1,
        };
        self.input
            .reserve_exact(wanted.saturating_sub(self.input.len()).max(1));
    }
}
