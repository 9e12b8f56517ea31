//! A batch: each root by itself, its commands together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{
    Answer, Command, Item, KeyCommand, Op, OwnedCommand, Reply, StoreError, StoreFuture,
};
use tokio::time::timeout;

use crate::commands::Commands;
use crate::driver::{closed, too_late};

/// Begins all of `items`: those of one root by [`Commands::decide`], those of different
/// roots at once. Their answers come together, in the order of the items. A store that is
/// away, or slow, is asked for no longer than one deadline: what of a root is not answered by
/// then is told so.
pub(crate) fn batch<C: Commands>(
    table: &Arc<C>,
    command: &Command<'_>,
    items: &[Item<'_>],
) -> StoreFuture {
    let mut roots: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, (path, _)) in items.iter().enumerate() {
        roots.entry(path.root()).or_default().push(at);
    }
    let driver = table.driver();
    let (tasks, deadline) = (driver.tasks(), driver.deadline());
    let start = |places: Vec<usize>| {
        let of_root: Vec<_> = places.iter().map(|&at| items[at]).collect();
        let work = of_root_alone(table, &command.about(Op::Batch(&of_root)), deadline);
        (places, tasks.spawn(work))
    };
    let started: Vec<_> = roots.into_values().map(start).collect();
    let count = items.len();
    StoreFuture::new(async move {
        let mut answers: Vec<Answer> = (0..count).map(|_| Err(closed())).collect();
        for (places, task) in started {
            for (at, answer) in places.into_iter().zip(task.await.unwrap_or_default()) {
                answers[at] = answer;
            }
        }
        Ok(Reply::Batch(answers))
    })
}

/// The answers to a batch of one root.
fn of_root_alone<C: Commands>(
    table: &Arc<C>,
    batch: &Command<'_>,
    deadline: Duration,
) -> impl Future<Output = Vec<Answer>> + Send + use<C> {
    let (table, batch) = (Arc::clone(table), OwnedCommand::of(batch));
    async move {
        let count = count(&batch);
        let mut answers = Vec::with_capacity(count);
        let decided = match count {
            1 => timeout(deadline, in_order(&table, &batch, &mut answers)).await,
            _ => timeout(deadline, table.decide(&batch, &mut answers)).await,
        };
        complete(&mut answers, count, decided.ok(), deadline);
        answers
    }
}

/// What the others of `count` are told, once the work has come to `decided`; `None`: it has not
/// in time.
fn complete(
    answers: &mut Vec<Answer>,
    count: usize,
    decided: Option<Result<(), StoreError>>,
    deadline: Duration,
) {
    let left = match decided {
        Some(Ok(())) => closed(),
        Some(Err(error)) => error,
        None => too_late(deadline),
    };
    answers.resize(count, Err(left));
}

/// How many commands a batch has.
fn count(batch: &OwnedCommand) -> usize {
    batch.lend(|command| match command.op {
        Op::Batch(items) => items.len(),
        _ => 0,
    })
}

/// Sends those of `batch` one after the other, until the store is away: for a batch of one, and
/// a store that has no other way.
///
/// # Errors
/// [`StoreError::Unavailable`]: those that are not answered yet are not asked for.
pub async fn in_order<C: Commands>(
    table: &Arc<C>,
    batch: &OwnedCommand,
    answers: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    send_in_order(batch, answers, |command| table.send(command)).await
}

async fn send_in_order(
    batch: &OwnedCommand,
    answers: &mut Vec<Answer>,
    send: impl Fn(&KeyCommand<'_>) -> StoreFuture,
) -> Result<(), StoreError> {
    let begin = |at: usize| {
        batch.lend(|command| match command.op {
            Op::Batch(items) => {
                let &(path, verb) = items.get(at)?;
                Some(send(&command.one(path, verb)))
            }
            _ => None,
        })
    };
    while let Some(sent) = begin(answers.len()) {
        let answer = sent.await;
        if let Err(error @ StoreError::Unavailable(_)) = &answer {
            return Err(error.clone());
        }
        answers.push(answer);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidegate_store::core::{Bucket, Payment, Rule, Span, Timestamp};
    use tidegate_store::{KeyPath, Plan, PlanLimit, Verb};

    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    /// One of a single bucket.
    pub(crate) fn plan() -> Arc<Plan> {
        let bucket = Bucket::new(5, Span::from_secs(1), 5).expect("a bucket");
        let limit = PlanLimit {
            name: "r".into(),
            uid: 0,
            rule: Rule::Bucket(bucket),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive: None,
        };
        Arc::new(Plan::new(0, 1, vec![limit], Span::from_secs(60)))
    }

    async fn answered(
        commands: usize,
        deadline: Duration,
        send: impl Fn(&KeyCommand<'_>) -> StoreFuture,
    ) -> Vec<Answer> {
        let plan = plan();
        let path = KeyPath::new(b"k", 1).expect("a key");
        let items = vec![(path, Verb::Reset); commands];
        let batch = OwnedCommand::of(&Command {
            plan: &plan,
            now: Timestamp::MIN,
            calendars: &[],
            op: Op::Batch(&items),
            patience: None,
        });
        let mut answers = Vec::new();
        let decided = timeout(deadline, send_in_order(&batch, &mut answers, send)).await;
        complete(&mut answers, count(&batch), decided.ok(), deadline);
        answers
    }

    /// Each item waited for its own deadline: three checks of one root took three of them,
    /// and a thousand a thousand.
    #[tokio::test]
    async fn a_store_that_is_away_is_asked_once_for_all_of_a_root() {
        let asked = AtomicUsize::new(0);
        let away = StoreError::Unavailable("no answer".into());
        let send = |_: &KeyCommand<'_>| {
            let answer = match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(Reply::Done),
                _ => Err(away.clone()),
            };
            StoreFuture::new(std::future::ready(answer))
        };
        let answers = answered(1_000, PATIENT, send).await;
        assert_eq!(asked.into_inner(), 2);
        assert_eq!(answers[0], Ok(Reply::Done));
        let others = answers[1..].iter();
        assert_eq!(
            others
                .filter(|&answer| *answer == Err(away.clone()))
                .count(),
            999
        );
    }

    /// One that was answered just before the deadline left the next a deadline of its own:
    /// 3.5 s of 2 passed.
    #[tokio::test]
    async fn all_of_a_root_have_one_deadline() {
        let asked = AtomicUsize::new(0);
        let send = |_: &KeyCommand<'_>| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => StoreFuture::new(std::future::ready(Ok(Reply::Done))),
            _ => StoreFuture::new(std::future::pending()),
        };
        let answers = answered(3, Duration::ZERO, send).await;
        assert_eq!(answers[0], Ok(Reply::Done));
        let late = |at: usize| matches!(answers[at], Err(StoreError::Unavailable(_)));
        assert!(late(1) && late(2));
        assert_eq!((answers.len(), asked.into_inner()), (3, 2));
        // What is an answer, be it an error, is no reason to stop.
        let unknown = |_: &KeyCommand<'_>| {
            StoreFuture::new(std::future::ready(Err(StoreError::UnknownLease)))
        };
        let answers = answered(3, PATIENT, unknown).await;
        assert_eq!(answers, vec![Err(StoreError::UnknownLease); 3]);
    }
}
