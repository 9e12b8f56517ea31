//! An answer that comes later, and who gives it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::StoreError;
use crate::reply::{Answer, Reply};
use crate::sync::Mutex;

/// An answer that comes later. It owns all it needs, and may be polled by any executor
/// or [waited for](Self::wait) on a thread. What it means to drop it,
/// [`Table`](crate::Table) says.
#[must_use = "dropped, the answer is lost"]
pub struct Later<T = Reply>(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>);

impl<T> Later<T> {
    /// What `answer` comes to.
    pub fn new(answer: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(Box::pin(answer))
    }

    /// Parks the calling thread until the answer is there.
    ///
    /// # Errors
    /// Those of the answer.
    pub fn wait(self) -> Result<T, StoreError> {
        crate::block::block_on(self)
    }
}

impl<T> Future for Later<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}

/// An answer to be given once, from anywhere. If nobody waits for it any more, or
/// whoever does goes before taking it, `undelivered` gets the reply instead: exactly one
/// of both does. `undelivered` runs where the responder holds no lock, and must not
/// block.
pub fn later(undelivered: impl FnOnce(Reply) + Send + 'static) -> (Responder, Later) {
    let shared = Arc::new(Shared(Mutex::new(State {
        stage: Stage::Awaited(None),
        gone: None,
        undelivered: Some(Box::new(undelivered)),
    })));
    let receiver = Receiver(Arc::clone(&shared));
    (Responder(shared), Later::new(receiver))
}

struct Shared(Mutex<State>);

struct State {
    stage: Stage,
    /// Who is to know when nobody waits any more.
    gone: Option<Waker>,
    undelivered: Option<Undelivered>,
}

type Undelivered = Box<dyn FnOnce(Reply) + Send>;

enum Stage {
    /// There is no answer yet; who waits for it.
    Awaited(Option<Waker>),
    Answered(Answer),
    Over,
}

/// Gives the answer. Dropped without, the answer is that the store is closed.
pub struct Responder(Arc<Shared>);

/// What is left to do once no lock is held: dropping this does it.
#[must_use = "drop it where no lock is held"]
#[derive(Default)]
pub struct Wake {
    act: Option<Box<dyn FnOnce() + Send>>,
    waker: Option<Waker>,
}

impl Wake {
    /// Runs `act` when it is dropped.
    pub fn run(act: impl FnOnce() + Send + 'static) -> Self {
        Self {
            act: Some(Box::new(act)),
            waker: None,
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        if let Some(act) = self.act.take() {
            act();
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl Responder {
    /// Gives the answer. Whoever waits is woken, or `undelivered` gets the reply, when
    /// the [`Wake`] is dropped.
    pub fn answer(self, answer: Answer) -> Wake {
        let mut state = self.0.0.lock();
        match std::mem::replace(&mut state.stage, Stage::Over) {
            Stage::Awaited(waker) => {
                state.stage = Stage::Answered(answer);
                Wake { act: None, waker }
            }
            Stage::Answered(_) | Stage::Over => {
                let undelivered = state.undelivered.take();
                drop(state);
                match (answer, undelivered) {
                    (Ok(reply), Some(act)) => Wake::run(move || act(reply)),
                    _ => Wake::default(),
                }
            }
        }
    }

    /// Whether nobody waits any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.0.0.lock().stage, Stage::Over)
    }

    /// Ends when nobody waits any more.
    pub async fn gone(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.0.lock();
            if matches!(state.stage, Stage::Over) {
                return Poll::Ready(());
            }
            state.gone = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        if let Stage::Awaited(waker) = &mut state.stage {
            let waker = waker.take();
            state.stage = Stage::Answered(Err(closed()));
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// Who waits for the answer.
struct Receiver(Arc<Shared>);

impl Future for Receiver {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.0.0.lock();
        match std::mem::replace(&mut state.stage, Stage::Over) {
            Stage::Answered(answer) => Poll::Ready(answer),
            Stage::Awaited(_) => {
                state.stage = Stage::Awaited(Some(context.waker().clone()));
                Poll::Pending
            }
            Stage::Over => panic!("polled after it has ended"),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Over);
        let gone = state.gone.take();
        let undelivered = match &stage {
            // It came, and nobody took it.
            Stage::Answered(Ok(_)) => state.undelivered.take(),
            _ => None,
        };
        drop(state);
        gone.into_iter().for_each(Waker::wake);
        if let (Some(act), Stage::Answered(Ok(reply))) = (undelivered, stage) {
            act(reply);
        }
    }
}
