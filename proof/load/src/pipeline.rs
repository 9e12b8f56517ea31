//! One connection whose answers come in the order of its asks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::arrivals::{Arrivals, Ask};
use crate::ledger::Ledger;
use crate::tally::Tally;
use crate::watch::{Nanos, Watch};
use crate::wire::{Answer, LeaseId, Step, Wire};

/// What is read at once.
const READ: usize = 64 * 1_024;

/// The longest answer, and with it the most that is kept of a read.
const LONGEST_ANSWER: usize = 1_024 * 1_024;

/// What all connections of a run share; they are on one thread.
pub struct Run {
    pub watch: Watch,
    pub arrivals: Arrivals,
    pub tally: RefCell<Tally>,
    pub ledger: RefCell<Ledger>,
    /// The most that may be unanswered on a connection.
    pub depth: usize,
}

/// Something that was sent.
struct Sent {
    ask: Ask,
    at: Nanos,
    step: Step,
}

/// A connection, and what is on its way.
pub struct Pipeline<W> {
    run: Rc<Run>,
    wire: W,
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    sent: VecDeque<Sent>,
}

impl<W: Wire> Pipeline<W> {
    pub fn new(run: Rc<Run>, wire: W, stream: TcpStream) -> Self {
        Self {
            run,
            wire,
            stream,
            out: Vec::new(),
            input: Vec::with_capacity(READ),
            sent: VecDeque::new(),
        }
    }

    /// Asks until nothing more is to be asked and everything is answered.
    pub async fn talk(mut self) {
        let run = Rc::clone(&self.run);
        let told = tokio::select! {
            told = self.talk_on() => told,
            () = run.arrivals.overdue() => Err("no answer came in time".to_owned()),
        };
        if let Err(reason) = told {
            let mut tally = run.tally.borrow_mut();
            tally.unanswered += self.sent.len() as u64;
            tally.failed(&reason);
        }
    }

    async fn talk_on(&mut self) -> Result<(), String> {
        if self.wire.greet(&mut self.out) {
            let now = self.run.watch.now();
            let ask = Ask { due: now, key: 0 };
            self.note(ask, now, Step::Greeting);
        }
        loop {
            self.ask();
            self.write()?;
            let over = self.run.arrivals.is_over(self.run.watch.now());
            if self.sent.is_empty() && over {
                return Ok(());
            }
            let room = self.sent.len() < self.run.depth && !over;
            let mut interest = Interest::READABLE;
            if !self.out.is_empty() {
                interest |= Interest::WRITABLE;
            }
            tokio::select! {
                biased;
                ready = self.stream.ready(interest) => {
                    ready.map_err(|error| error.to_string())?;
                    self.read()?;
                }
                () = self.run.arrivals.some(), if room => {}
            }
        }
    }

    /// Puts down as many asks as there is room for, or one of a schedule: the
    /// next is another connection's.
    fn ask(&mut self) {
        let (run, now) = (Rc::clone(&self.run), self.run.watch.now());
        while self.sent.len() < run.depth
            && let Some(ask) = run.arrivals.take(now)
        {
            self.wire.ask(ask.key, &mut self.out);
            run.tally.borrow_mut().sent += 1;
            self.note(ask, now, Step::Ask);
            if run.arrivals.is_open() {
                run.arrivals.pass_on();
                return;
            }
        }
    }

    fn note(&mut self, ask: Ask, at: Nanos, step: Step) {
        self.sent.push_back(Sent { ask, at, step });
    }

    /// Writes what the socket takes now.
    fn write(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.stream.try_write(&self.out) {
                Ok(written) if written == self.out.len() => self.out.clear(),
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Reads what is there, and takes every answer that is whole.
    fn read(&mut self) -> Result<(), String> {
        self.input.reserve(READ);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => return Err("the server has closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let now = self.run.watch.now();
        let mut start = 0;
        while let Some(sent) = self.sent.front() {
            let Some((length, answer)) = self.wire.answer(&self.input[start..], sent.step)? else {
                break;
            };
            start += length;
            self.hear(&answer, now);
        }
        self.input.drain(..start);
        match self.input.len() {
            0..=LONGEST_ANSWER => Ok(()),
            _ => Err("an answer is longer than a megabyte".to_owned()),
        }
    }

    fn hear(&mut self, answer: &Answer, now: Nanos) {
        let Some(sent) = self.sent.pop_front() else {
            return;
        };
        let run = Rc::clone(&self.run);
        let mut tally = run.tally.borrow_mut();
        match (sent.step, answer) {
            (Step::Ask, answer) => {
                tally.answered(answer, sent.ask.due, now);
                if let Answer::Admitted(lease) = answer {
                    run.ledger.borrow_mut().admitted(sent.ask.key, sent.at, now);
                    lease
                        .iter()
                        .for_each(|lease| self.settle(sent.ask, lease, now));
                }
            }
            (_, Answer::Failed(reason)) => tally.failed(reason),
            (Step::Settle, _) => tally.settled += 1,
            (Step::Greeting, _) => {}
        }
    }

    fn settle(&mut self, ask: Ask, lease: &LeaseId, now: Nanos) {
        self.wire.settle(ask.key, lease, &mut self.out);
        self.note(ask, now, Step::Settle);
    }
}
