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
pub struct StoreFuture<T = Reply>(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>);

impl<T> StoreFuture<T> {
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

impl<T> Future for StoreFuture<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreFuture")
    }
}

/// An answer to be given once, from anywhere. If nobody waits for it any more, or
/// whoever does goes before taking it, `undelivered` gets the reply instead: exactly one
/// of both does. `undelivered` runs where the responder holds no lock, and must not
/// block.
pub fn response_channel(
    undelivered: impl FnOnce(Reply) + Send + 'static,
) -> (Responder, StoreFuture) {
    let shared = Arc::new(SharedResponse(Mutex::new(ResponseState {
        stage: ResponseStage::Awaited(None),
        gone: None,
        undelivered: Some(Box::new(undelivered)),
    })));
    let receiver = Receiver(Arc::clone(&shared));
    (Responder(shared), StoreFuture::new(receiver))
}

struct SharedResponse(Mutex<ResponseState>);

struct ResponseState {
    stage: ResponseStage,
    /// Who is to know when nobody waits any more.
    gone: Option<Waker>,
    undelivered: Option<Undelivered>,
}

type Undelivered = Box<dyn FnOnce(Reply) + Send>;

enum ResponseStage {
    /// There is no answer yet; who waits for it.
    Awaited(Option<Waker>),
    Answered(Answer),
    Over,
}

/// Gives the answer. Dropped without, the answer is that the store is closed.
pub struct Responder(Arc<SharedResponse>);

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
        match std::mem::replace(&mut state.stage, ResponseStage::Over) {
            ResponseStage::Awaited(waker) => {
                state.stage = ResponseStage::Answered(answer);
                Wake { act: None, waker }
            }
            ResponseStage::Answered(_) | ResponseStage::Over => {
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
        matches!(self.0.0.lock().stage, ResponseStage::Over)
    }

    /// Ends when nobody waits any more.
    pub async fn gone(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.0.lock();
            if matches!(state.stage, ResponseStage::Over) {
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
        if let ResponseStage::Awaited(waker) = &mut state.stage {
            let waker = waker.take();
            state.stage = ResponseStage::Answered(Err(closed()));
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
struct Receiver(Arc<SharedResponse>);

impl Future for Receiver {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.0.0.lock();
        match std::mem::replace(&mut state.stage, ResponseStage::Over) {
            ResponseStage::Answered(answer) => Poll::Ready(answer),
            ResponseStage::Awaited(_) => {
                state.stage = ResponseStage::Awaited(Some(context.waker().clone()));
                Poll::Pending
            }
            ResponseStage::Over => panic!("polled after it has ended"),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        let stage = std::mem::replace(&mut state.stage, ResponseStage::Over);
        let gone = state.gone.take();
        let undelivered = match &stage {
            // It came, and nobody took it.
            ResponseStage::Answered(Ok(_)) => state.undelivered.take(),
            _ => None,
        };
        drop(state);
        gone.into_iter().for_each(Waker::wake);
        if let (Some(act), ResponseStage::Answered(Ok(reply))) = (undelivered, stage) {
            act(reply);
        }
    }
}
