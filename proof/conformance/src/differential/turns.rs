//! Who asks a table: one, or two by turns, each with a table of its own that is one and the
//! same. Of two, the other may be another process: both then play the same script, and each
//! asks, and compares, in its own turns.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;

use tidegate_store::{Store, Table};

use super::reference::Difference;
use crate::Subject;

/// Who asks.
#[derive(Debug)]
pub enum Players {
    /// One who has the table to itself.
    One,
    /// Two of this process by turns: the second in the subject's store opened again.
    Two,
    /// This process and another by turns.
    With(OtherProcess),
}

/// The other process of two, which plays the same scripts.
#[derive(Debug)]
pub struct OtherProcess {
    stream: UnixStream,
    /// If it is the second, and was started by this one.
    started: Option<Child>,
    /// How many turns both have had.
    had: u64,
}

/// A table, and the store that it was opened in.
type Place = (Arc<dyn Store>, Arc<dyn Table>);

/// Whose turn it is. See the [module](self).
pub(crate) struct Turns<'p> {
    /// Of those who are of this process.
    places: Vec<Place>,
    other: Option<&'p mut OtherProcess>,
    /// How many turns this script has had.
    had: usize,
    /// Whoever has the turn keeps it.
    stays: bool,
}

impl Players {
    /// As many, all of this process.
    pub(crate) const fn of_this_process(&self) -> Self {
        match self {
            Self::One => Self::One,
            Self::Two | Self::With(_) => Self::Two,
        }
    }
}

impl OtherProcess {
    /// Starts the second process, which is to call [`first`](Self::first): its standard input
    /// leads here.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let started = command.stdin(OwnedFd::from(theirs)).spawn()?;
        Ok(Self {
            stream,
            started: Some(started),
            had: 0,
        })
    }

    /// The process that started this one, and has the first turn.
    ///
    /// # Errors
    /// Standard input cannot be had.
    pub fn first() -> io::Result<Self> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self {
            stream: stream.into(),
            started: None,
            had: 0,
        })
    }

    /// How many turns both have had.
    pub(crate) const fn turns_had(&self) -> u64 {
        self.had
    }

    const fn has_the_turn(&self) -> bool {
        self.had.is_multiple_of(2) == self.started.is_none()
    }

    /// Ends a turn: tells the other, or is told.
    fn pass_on(&mut self) -> Result<(), Difference> {
        let is_told = self.has_the_turn();
        self.had += 1;
        let mut had = self.had.to_le_bytes();
        let passed = match is_told {
            true => self.stream.read_exact(&mut had),
            false => self.stream.write_all(&had),
        };
        passed.map_err(|error| format!("the other process has ended: {error}"))?;
        match u64::from_le_bytes(had) == self.had {
            true => Ok(()),
            false => Err("the other process is at another command".to_owned()),
        }
    }
}

/// The second ends by itself when it has played as much, or finds its stream closed.
impl Drop for OtherProcess {
    fn drop(&mut self) {
        let Some(started) = &mut self.started else {
            return;
        };
        // Whoever is told of a difference here is told by the other, too.
        let _ = self.stream.shutdown(Shutdown::Both);
        let ended = started.wait();
        let succeeded = ended.is_ok_and(|status| status.success());
        assert!(
            succeeded || std::thread::panicking(),
            "the second process failed"
        );
    }
}

impl<'p> Turns<'p> {
    /// Each of `players` opens a table in the store of `subject`, one after the other.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and as `open`.
    pub(crate) fn begin(
        subject: &Subject,
        players: &'p mut Players,
        open: impl Fn(&dyn Store) -> Result<Arc<dyn Table>, Difference>,
    ) -> Result<Self, Difference> {
        let (mut stores, clients) = match players {
            Players::One => (vec![subject.fresh()], 1),
            Players::Two => (vec![subject.fresh(), subject.reopened_store()?()], 2),
            Players::With(_) => (vec![subject.fresh()], 2),
        };
        let mut turns = Self {
            places: Vec::new(),
            other: match players {
                Players::With(other) => Some(other),
                _ => None,
            },
            had: 0,
            stays: false,
        };
        for _ in 0..clients {
            if turns.is_here() {
                let store = stores.remove(0);
                let table = open(&*store)?;
                turns.places.push((store, table));
            }
            turns.pass_on()?;
        }
        Ok(turns)
    }

    /// Whether there are two.
    pub(crate) const fn are_two(&self) -> bool {
        self.other.is_some() || self.places.len() > 1
    }

    fn is_here(&self) -> bool {
        !self
            .other
            .as_ref()
            .is_some_and(|other| other.has_the_turn())
    }

    fn at(&self) -> usize {
        self.had % self.places.len()
    }

    /// What the table answers to who has the turn, which then ends; `None` if that is the
    /// other process.
    ///
    /// # Errors
    /// The other process has ended, or is elsewhere.
    pub(crate) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&dyn Table) -> T,
    ) -> Result<Option<T>, Difference> {
        let answer = self.is_here().then(|| ask(self.own()));
        if !self.stays {
            self.pass_on()?;
        }
        Ok(answer)
    }

    /// Whoever has the turn keeps it, until it is [passed on](Self::pass_on).
    pub(crate) const fn stay(&mut self) {
        self.stays = true;
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn pass_on(&mut self) -> Result<(), Difference> {
        self.stays = false;
        self.had += 1;
        self.other.as_mut().map_or(Ok(()), |other| other.pass_on())
    }

    /// Whoever has the turn opens the table anew, and it ends.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) fn reopen(
        &mut self,
        open: impl FnOnce(&dyn Store) -> Result<Arc<dyn Table>, Difference>,
    ) -> Result<(), Difference> {
        if self.is_here() {
            let at = self.at();
            let (store, table) = &mut self.places[at];
            *table = open(&**store)?;
        }
        self.pass_on()
    }

    /// The table of who has the turn, if it is of this process.
    pub(crate) fn own(&self) -> &dyn Table {
        &*self.places[self.at()].1
    }
}
