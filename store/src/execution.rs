//! How a command is answered: at once, where the caller says, or later.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::reply::{Answer, Reply};
use crate::store_future::StoreFuture;

/// Room for an answer. Most answers own nothing, and go without being taken apart.
#[derive(Debug)]
pub struct AnswerRoom(ManuallyDrop<Answer>);

impl AnswerRoom {
    /// With nothing in it yet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(ManuallyDrop::new(Ok(Reply::Done)))
    }

    /// What is in it.
    pub fn take(&mut self) -> Answer {
        std::mem::replace(&mut self.0, Ok(Reply::Done))
    }
}

impl Default for AnswerRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for AnswerRoom {
    type Target = Answer;

    #[inline]
    fn deref(&self) -> &Answer {
        &self.0
    }
}

impl DerefMut for AnswerRoom {
    #[inline]
    fn deref_mut(&mut self) -> &mut Answer {
        &mut self.0
    }
}

impl Drop for AnswerRoom {
    #[inline]
    fn drop(&mut self) {
        if !owns_nothing(&self.0) {
            drop(self.take());
        }
    }
}

#[inline]
fn owns_nothing(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(Reply::owns_nothing)
}

/// Writes an answer over another, in place.
#[inline(always)]
pub(crate) fn overwrite(there: &mut Answer, answer: Answer) {
    if owns_nothing(there) {
        // To drop it would give nothing back.
        let _ = ManuallyDrop::new(std::mem::replace(there, answer));
    } else {
        *there = answer;
    }
}

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
        overwrite(self.0, answer);
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
