//! What becomes of a job: its result, another attempt, or an error.

use std::any::Any;
use std::thread;
use std::time::Duration;

use super::attempt::Fate;

/// A job without result. The other jobs are not concerned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobError<E> {
    /// Its last attempt has returned this error.
    #[error(transparent)]
    Failed(#[from] E),
    /// It panicked, with this message.
    #[error("the job panicked: {0}")]
    Panicked(String),
}

/// What an attempt came to.
pub(super) type Attempted<T, E> = thread::Result<Result<T, E>>;

/// What is done after an attempt.
pub(super) enum Next<T, E> {
    /// The job is over.
    Done(Result<T, JobError<E>>),
    /// It is run again, after so long.
    Again(Duration),
}

/// What an attempt means for the leases that it held.
pub(super) fn fate<T, E>(attempted: &Attempted<T, E>) -> Fate {
    match attempted {
        Ok(Ok(_)) => Fate::Succeeded,
        _ => Fate::Failed,
    }
}

/// What follows an attempt, if another may begin after `delay`. The error of
/// an attempt that is not the last is dropped here, and whatever it holds.
pub(super) fn next<T, E>(attempted: Attempted<T, E>, delay: Option<Duration>) -> Next<T, E> {
    match (attempted, delay) {
        (Ok(Ok(result)), _) => Next::Done(Ok(result)),
        (Ok(Err(_)), Some(delay)) => Next::Again(delay),
        (Ok(Err(error)), None) => Next::Done(Err(JobError::Failed(error))),
        (Err(panic), _) => Next::Done(Err(JobError::Panicked(message(&*panic)))),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("with a value that is no text").to_owned()
}
