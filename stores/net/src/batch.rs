//! A batch: each root by itself, its commands in their order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Answer, Command, Item, Op, OwnedCommand, Reply, StoreError, StoreFuture};
use tokio::time::{Instant, timeout_at};

use crate::driver::{Driver, closed, too_late};

/// Begins each of `items` by `begin`: those of one root one after the other, those of
/// different roots at once. Their answers come together, in the order of the items. A
/// store that is away, or slow, is asked for no longer than one deadline: what of a root is
/// not answered by then is told so.
pub fn batch(
    driver: &Driver,
    command: &Command<'_>,
    items: &[Item<'_>],
    begin: impl Fn(&Command<'_>) -> StoreFuture + Send + Sync + 'static,
) -> StoreFuture {
    let mut roots: HashMap<&[u8], Vec<(usize, OwnedCommand)>> = HashMap::new();
    for (at, &(path, verb)) in items.iter().enumerate() {
        let owned = OwnedCommand::of(&command.about(Op::One(path, verb)));
        roots.entry(path.root()).or_default().push((at, owned));
    }
    let begin = Arc::new(begin);
    let (tasks, deadline) = (driver.tasks(), driver.deadline());
    let start = |commands: Vec<(usize, OwnedCommand)>| {
        let begin = Arc::clone(&begin);
        let work = in_order(commands, deadline, move |command| begin(command));
        tasks.as_ref().map(|tasks| tasks.spawn(work))
    };
    let started: Vec<_> = roots.into_values().map(start).collect();
    let count = items.len();
    StoreFuture::new(async move {
        let mut answers: Vec<Answer> = (0..count).map(|_| Err(closed())).collect();
        for task in started.into_iter().flatten() {
            for (at, answer) in task.await.unwrap_or_default() {
                answers[at] = answer;
            }
        }
        Ok(Reply::Batch(answers))
    })
}

/// One after the other, until the store is away or the deadline has passed.
async fn in_order(
    commands: Vec<(usize, OwnedCommand)>,
    deadline: Duration,
    begin: impl Fn(&Command<'_>) -> StoreFuture,
) -> Vec<(usize, Answer)> {
    let until = Instant::now() + deadline;
    let mut answers = Vec::with_capacity(commands.len());
    let mut away: Option<StoreError> = None;
    for (at, command) in commands {
        if let Some(error) = &away {
            answers.push((at, Err(error.clone())));
            continue;
        }
        // One that was answered late leaves the next no deadline of its own.
        let answer = timeout_at(until, command.lend(&begin)).await;
        let answer = answer.unwrap_or_else(|_| Err(too_late(deadline)));
        if let Err(error @ StoreError::Unavailable(_)) = &answer {
            away = Some(error.clone());
        }
        answers.push((at, answer));
    }
    answers
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

    fn commands(count: usize) -> Vec<(usize, OwnedCommand)> {
        let plan = plan();
        let path = KeyPath::new(b"k", 1).expect("a key");
        let command = Command {
            plan: &plan,
            now: Timestamp::MIN,
            calendars: &[],
            op: Op::One(path, Verb::Reset),
            patience: None,
        };
        (0..count)
            .map(|at| (at, OwnedCommand::of(&command)))
            .collect()
    }

    /// Each item waited for its own deadline: three checks of one root took three of them,
    /// and a thousand a thousand.
    #[tokio::test]
    async fn a_store_that_is_away_is_asked_once_for_all_of_a_root() {
        let asked = AtomicUsize::new(0);
        let away = StoreError::Unavailable("no answer".into());
        let begin = |_: &Command<'_>| {
            let answer = match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(Reply::Done),
                _ => Err(away.clone()),
            };
            StoreFuture::new(std::future::ready(answer))
        };
        let answers = in_order(commands(1_000), PATIENT, begin).await;
        assert_eq!(asked.into_inner(), 2);
        assert_eq!(answers[0], (0, Ok(Reply::Done)));
        let others = answers[1..].iter();
        assert_eq!(
            others
                .filter(|(_, answer)| *answer == Err(away.clone()))
                .count(),
            999
        );
    }

    /// One that was answered just before the deadline left the next a deadline of its own:
    /// 3.5 s of 2 passed.
    #[tokio::test]
    async fn all_of_a_root_have_one_deadline() {
        let asked = AtomicUsize::new(0);
        let begin = |_: &Command<'_>| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => StoreFuture::new(std::future::ready(Ok(Reply::Done))),
            _ => StoreFuture::new(std::future::pending()),
        };
        let answers = in_order(commands(3), Duration::ZERO, begin).await;
        assert_eq!(answers[0].1, Ok(Reply::Done));
        let late = |at: usize| matches!(answers[at].1, Err(StoreError::Unavailable(_)));
        assert!(late(1) && late(2));
        assert_eq!((answers.len(), asked.into_inner()), (3, 2));
        // What is an answer, be it an error, is no reason to stop.
        let unknown =
            |_: &Command<'_>| StoreFuture::new(std::future::ready(Err(StoreError::UnknownLease)));
        let answers = in_order(commands(3), PATIENT, unknown).await;
        let told = answers
            .iter()
            .filter(|(_, answer)| *answer == Err(StoreError::UnknownLease));
        assert_eq!(told.count(), 3);
    }
}
