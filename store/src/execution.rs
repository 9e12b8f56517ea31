//! How a command is answered: at once, where the caller says, or later.

use crate::reply::{Answer, Reply};
use crate::store_future::StoreFuture;

/// Where an answer that is ready is written: in place, through however many wrappers.
/// Answering uses it up.
#[derive(Debug)]
pub struct Out<'r>(&'r mut Answer);

impl<'r> Out<'r> {
    /// The answer is to be written here.
    #[inline]
    #[must_use]
    pub const fn new(answer: &'r mut Answer) -> Self {
        Self(answer)
    }

    /// Answers at once.
    #[inline]
    pub fn ready(self, answer: Answer) -> Execution {
        *self.0 = answer;
        Execution(None)
    }

    /// Answers at once, in place: `write` is shown whatever was there before.
    #[inline]
    pub fn write(self, write: impl FnOnce(&mut Answer)) -> Execution {
        write(self.0);
        Execution(None)
    }

    /// Lends it to a table that is wrapped: the wrapper looks at
    /// [`answer`](Self::answer) afterwards.
    #[inline]
    pub const fn lend(&mut self) -> Out<'_> {
        Out(self.0)
    }

    /// What was answered by whom it was [lent](Self::lend) to.
    #[inline]
    pub const fn answer(&self) -> &Answer {
        self.0
    }

    /// Takes that answer back, to give it later.
    pub fn take(&mut self) -> Answer {
        std::mem::replace(self.0, Ok(Reply::Done))
    }
}

/// An answer that is ready, or comes later. Only [`Out::ready`] and [`Out::write`] make
/// the first, so that no table can forget to answer.
#[must_use = "an answer that comes later is lost with this"]
#[derive(Debug)]
pub struct Execution(Option<StoreFuture>);

impl Execution {
    /// Whether the answer was written where the caller said.
    #[inline]
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.0.is_none()
    }

    /// The same, with something around an answer that comes later.
    #[inline]
    pub fn map(self, around: impl FnOnce(StoreFuture) -> StoreFuture) -> Self {
        match self.0 {
            None => self,
            Some(later) => Self(Some(around(later))),
        }
    }

    /// The answer that comes later; `None` if it is ready.
    #[inline]
    #[must_use]
    pub fn pending(self) -> Option<StoreFuture> {
        self.0
    }
}

impl From<StoreFuture> for Execution {
    fn from(later: StoreFuture) -> Self {
        Self(Some(later))
    }
}
