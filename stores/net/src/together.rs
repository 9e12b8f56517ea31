//! The loop of a batch whose store decides several commands of one root over one load and one
//! write, and the others by themselves.

use std::sync::Arc;

use tidegate_store::optimistic::{BatchProgress, OwnedKeyCommand};
use tidegate_store::{Answer, Op, OwnedCommand, StoreError};

/// What a store does of several commands of one root.
pub trait DecidesTogether: Send + Sync + Sized + 'static {
    /// A command that outlives its call.
    type Request: Send + Sync + 'static;

    /// The answers to the first of `requests`, in their order, decided together in one step; none if the
    /// first is to be executed by itself.
    ///
    /// # Errors
    /// What keeps them from being answered.
    fn try_together(
        self: &Arc<Self>,
        requests: &[Self::Request],
        progress: &mut BatchProgress,
    ) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send;

    /// Executes one by itself.
    fn execute_alone(
        self: &Arc<Self>,
        request: &Self::Request,
    ) -> impl Future<Output = Answer> + Send;
}

/// Pushes an answer to each of `batch`, which is of one root, in its order.
///
/// # Errors
/// What keeps all from being answered that are not yet: their answer.
pub async fn decide_batch<S: DecidesTogether<Request = OwnedKeyCommand>>(
    store: &Arc<S>,
    batch: &OwnedCommand,
    answers: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    let requests: Vec<_> = batch.lend(|command| match command.op {
        Op::Batch(items) => items
            .iter()
            .map(|&(path, verb)| OwnedKeyCommand::of(&command.one(path, verb)))
            .collect(),
        _ => Vec::new(),
    });
    let mut progress = BatchProgress::default();
    while let Some(next) = requests.get(answers.len()) {
        let left = &requests[answers.len()..];
        let told = match progress.is_next_alone() {
            true => Vec::new(),
            false => store.try_together(left, &mut progress).await?,
        };
        if told.is_empty() {
            let alone = store.execute_alone(next).await;
            if let Err(error @ StoreError::Unavailable(_)) = alone {
                return Err(error);
            }
            answers.push(alone);
        }
        answers.extend(told);
    }
    Ok(())
}
