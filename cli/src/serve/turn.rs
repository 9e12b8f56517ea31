//! Connections that write in turn.
//!
//! An answer wakes whoever waits for it, and to wake somebody who sleeps costs the
//! server as much as the answer itself. A client that is quicker than the server
//! sleeps again before the next answer of its connections comes, so that each of
//! them pays for it. So an answer waits for one round of the runtime's tasks if
//! others have been heard and are not answered yet: whatever came at once is read
//! first, and answered at once then. Who is alone is answered at once anyway.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The connections of one door.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// How many were heard and have not said anything since.
    owing: Arc<AtomicUsize>,
}

impl Turns {
    /// `stream`, as one of them.
    pub fn of<S>(&self, stream: S) -> InTurn<S> {
        InTurn {
            stream,
            turns: self.clone(),
            owes: Owes::Nothing,
        }
    }
}

/// One connection.
pub struct InTurn<S> {
    stream: S,
    turns: Turns,
    owes: Owes,
}

/// What a connection owes to its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owes {
    Nothing,
    /// It has heard something.
    Answer,
    /// And has waited for the others with what it has to say.
    AnswerNow,
}

impl<S> InTurn<S> {
    fn heard(&mut self) {
        if self.owes == Owes::Nothing {
            self.owes = Owes::Answer;
            self.turns.owing.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it may say something; if not, it is called again soon.
    fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        match self.owes {
            Owes::Nothing => return Poll::Ready(()),
            Owes::Answer if self.turns.owing.load(Ordering::Relaxed) > 1 => {
                self.owes = Owes::AnswerNow;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Owes::Answer | Owes::AnswerNow => self.settle(),
        }
        Poll::Ready(())
    }

    fn settle(&mut self) {
        if self.owes != Owes::Nothing {
            self.owes = Owes::Nothing;
            self.turns.owing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<S> Drop for InTurn<S> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurn<S> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurn<S> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_turn(context) {
            Poll::Ready(()) => Pin::new(&mut self.stream).poll_write(context, bytes),
            Poll::Pending => Poll::Pending,
        }
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.poll_turn(context) {
            Poll::Ready(()) => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
