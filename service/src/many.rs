//! The checks of one request: one batch for each policy, all under way at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use super::active_policy::{ActivePolicy, Charge};
use super::error::ServiceError;
use tidegate::internal::pending;
use tidegate::{Key, Pending, Request};

/// A check: of a policy, for a key.
pub type Check<'a> = (Arc<ActivePolicy>, Key<'a>, Request<'a>);

/// Its answer, with the policy.
pub type Checked = (Arc<ActivePolicy>, Charge);

/// Checks each by itself, as [`ActivePolicy::check`] would, and answers each in its place.
/// Those of one policy are one batch, which its limits decide at one instant and its
/// store by one command (a pool asks its members for one after the other); the batches
/// are under way at once.
///
/// # Errors
/// Each answer has its own: as [`ActivePolicy::check`], or what stood in its place already.
pub fn check_many<E: From<ServiceError> + Send>(
    checks: Vec<Result<Check<'_>, E>>,
) -> Pending<impl Future<Output = Vec<Result<Checked, E>>> + Send> {
    pending(async move {
        let mut batches: Vec<Batch<'_>> = Vec::new();
        let mut answers: Vec<Option<Result<Checked, E>>> = Vec::with_capacity(checks.len());
        for (at, check) in checks.into_iter().enumerate() {
            answers.push(match check {
                Ok(check) => {
                    add(&mut batches, at, check);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let checking = batches
            .iter()
            .map(|batch| batch.active.check_each(&batch.items));
        for (batch, told) in batches.iter().zip(all(checking).await) {
            for (&at, answer) in batch.places.iter().zip(told) {
                let checked = answer.map(|answer| (Arc::clone(&batch.active), answer));
                answers[at] = Some(checked.map_err(E::from));
            }
        }
        answers.into_iter().flatten().collect()
    })
}

/// What is asked of one policy, and where each stands among all.
struct Batch<'a> {
    active: Arc<ActivePolicy>,
    items: Vec<(Key<'a>, Request<'a>)>,
    places: Vec<usize>,
}

fn add<'a>(batches: &mut Vec<Batch<'a>>, at: usize, (active, key, request): Check<'a>) {
    let same = |batch: &&mut Batch<'a>| Arc::ptr_eq(&batch.active, &active);
    match batches.iter_mut().find(same) {
        Some(batch) => {
            batch.items.push((key, request));
            batch.places.push(at);
        }
        None => batches.push(Batch {
            active,
            items: vec![(key, request)],
            places: vec![at],
        }),
    }
}

/// The answers of all, which are under way at once, in their order.
async fn all<T>(futures: impl Iterator<Item = impl Future<Output = T> + Send>) -> Vec<T> {
    let mut waiting: Vec<Pin<Box<_>>> = futures.map(Box::pin).collect();
    let mut answers: Vec<_> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, answer) in waiting.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        match answers.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
