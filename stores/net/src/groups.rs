//! Group commit: commands of one root that come while others of it are under way wait for the end
//! of those, and are then decided together, as a batch is. Where a store decides about one root in
//! one place after the other anyway, as many callers of a hot key cost one trip and one write, and
//! nobody waits for others to come.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::{Answer, StoreError, StoreFuture};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::batch::complete;
use crate::driver::{Driver, closed};

/// So many commands one group has at most.
const LARGEST: usize = 128;

/// A command waits for such a part of the deadline for others: the rest is for what the store waits
/// for itself.
const PATIENCE: u32 = 4;

/// So many commands of one root wait at most.
const MOST_WAITING: usize = 16_384;

/// What a store does of a group of commands of one root.
pub trait DecidesGroups: Send + Sync + Sized + 'static {
    /// A command that outlives its call.
    type Request: Send + Sync + 'static;

    /// So many groups of one root are under way at once: more than one where the next may be on
    /// its way while the store is still busy with the one before.
    const MOST_UNDER_WAY: usize;

    /// Those of its table.
    fn groups(&self) -> &Arc<Groups<Self::Request>>;

    /// Whether both may be decided by one plan, at one instant.
    fn fit(&self, one: &Self::Request, other: &Self::Request) -> bool;

    /// Pushes an answer to each of `requests`, in their order, decided together.
    ///
    /// # Errors
    /// What keeps all from being answered that are not yet.
    fn decide_group(
        self: &Arc<Self>,
        requests: &[Self::Request],
        answers: &mut Vec<Answer>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Executes one by itself.
    fn decide_one(self: &Arc<Self>, request: &Self::Request)
    -> impl Future<Output = Answer> + Send;
}

/// The roots of a table of which commands are under way, and those commands that wait for them.
#[derive(Debug)]
pub struct Groups<R>(Mutex<HashMap<Box<[u8]>, OfRoot<R>>>);

impl<R> Default for Groups<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// One with none under way is not kept.
#[derive(Debug)]
struct OfRoot<R> {
    under_way: usize,
    waiting: VecDeque<Waiting<R>>,
}

#[derive(Debug)]
struct Waiting<R> {
    request: R,
    since: Instant,
    tell: oneshot::Sender<Answer>,
}

/// One of the groups of a root that are under way. When it is dropped, another may be.
#[derive(Debug)]
struct UnderWay<R> {
    groups: Arc<Groups<R>>,
    root: Box<[u8]>,
    has_ended: bool,
}

/// Sends a command of `root`, in a group with others if it has to wait for some.
pub fn send_in_group<S: DecidesGroups>(
    store: &Arc<S>,
    driver: &Driver,
    root: &[u8],
    request: S::Request,
) -> StoreFuture {
    let (tell, told) = oneshot::channel();
    let new = Waiting {
        request,
        since: Instant::now(),
        tell,
    };
    match store.groups().enter(root, new, S::MOST_UNDER_WAY) {
        Entered::Waits => {}
        Entered::Full(new) => drop(new.tell.send(Err(too_many()))),
        Entered::First(under_way, first) => {
            let work = decide_all(Arc::clone(store), driver.deadline(), under_way, first);
            // Without tasks it is dropped, and says that the store is closed.
            drop(driver.tasks().map(|tasks| tasks.spawn(work)));
        }
    }
    StoreFuture::new(async move { told.await.unwrap_or_else(|_| Err(closed())) })
}

/// Decides the first, then group by group those that wait, until there are none.
async fn decide_all<S: DecidesGroups>(
    store: Arc<S>,
    deadline: Duration,
    mut under_way: UnderWay<S::Request>,
    first: Waiting<S::Request>,
) {
    let mut group = vec![first];
    loop {
        decide(&store, group, deadline).await;
        match under_way.next(|one, other| store.fit(one, other), deadline) {
            Some(next) => (under_way, group) = next,
            None => break,
        }
    }
}

async fn decide<S: DecidesGroups>(
    store: &Arc<S>,
    group: Vec<Waiting<S::Request>>,
    deadline: Duration,
) {
    let Some(oldest) = group.first().map(|waiting| waiting.since) else {
        return;
    };
    let mut callers = Vec::with_capacity(group.len());
    let mut requests = Vec::with_capacity(group.len());
    for waiting in group {
        callers.push(waiting.tell);
        requests.push(waiting.request);
    }
    let mut answers = Vec::with_capacity(requests.len());
    let work = answer(store, &requests, &mut answers);
    let decided = timeout_at(oldest + deadline, work).await;
    complete(&mut answers, requests.len(), decided.ok(), deadline);
    for (caller, answer) in callers.into_iter().zip(answers) {
        // Nobody may wait for it any more.
        let _ = caller.send(answer);
    }
}

async fn answer<S: DecidesGroups>(
    store: &Arc<S>,
    requests: &[S::Request],
    answers: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    if requests.len() > 1 {
        match store.decide_group(requests, answers).await {
            Ok(()) => return Ok(()),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Busy(_))) => return Err(error),
            // It is about one of them: each is told its own.
            Err(_) => {}
        }
    }
    while let Some(next) = requests.get(answers.len()) {
        let answer = store.decide_one(next).await;
        if let Err(error @ StoreError::Unavailable(_)) = answer {
            return Err(error);
        }
        answers.push(answer);
    }
    Ok(())
}

/// What became of a command that came.
enum Entered<R> {
    /// It is the first of a group.
    First(UnderWay<R>, Waiting<R>),
    /// It waits for those that are under way.
    Waits,
    /// Too many wait.
    Full(Waiting<R>),
}

impl<R> Groups<R> {
    fn enter(self: &Arc<Self>, root: &[u8], new: Waiting<R>, most_under_way: usize) -> Entered<R> {
        let mut roots = self.0.lock();
        match roots.get_mut(root) {
            Some(of_root) if of_root.under_way >= most_under_way => {
                if of_root.waiting.len() >= MOST_WAITING {
                    return Entered::Full(new);
                }
                of_root.waiting.push_back(new);
                return Entered::Waits;
            }
            Some(of_root) => of_root.under_way += 1,
            None => drop(roots.insert(
                root.into(),
                OfRoot {
                    under_way: 1,
                    waiting: VecDeque::new(),
                },
            )),
        }
        let under_way = UnderWay {
            groups: Arc::clone(self),
            root: root.into(),
            has_ended: false,
        };
        Entered::First(under_way, new)
    }
}

impl<R> UnderWay<R> {
    /// The next that wait, as many as fit the first of them; `None`, and it has ended, if none do.
    /// One that has waited for [`PATIENCE`] is told so, and is not decided.
    fn next(
        mut self,
        fit: impl Fn(&R, &R) -> bool,
        deadline: Duration,
    ) -> Option<(Self, Vec<Waiting<R>>)> {
        let groups = Arc::clone(&self.groups);
        let mut roots = groups.0.lock();
        let mut group: Vec<Waiting<R>> = Vec::new();
        if let Some(of_root) = roots.get_mut(&self.root) {
            let is_next = |group: &[Waiting<R>], next: &Waiting<R>| {
                let first = group.first();
                group.len() < LARGEST
                    && first.is_none_or(|first| fit(&first.request, &next.request))
            };
            let waiting = &mut of_root.waiting;
            while let Some(next) = waiting.pop_front_if(|next| is_next(&group, next)) {
                if next.since.elapsed() > deadline / PATIENCE {
                    let _ = next.tell.send(Err(too_late_for_others()));
                } else {
                    group.push(next);
                }
            }
        }
        if group.is_empty() {
            // Before anybody else may come to wait for it.
            self.end(&mut roots);
            return None;
        }
        drop(roots);
        Some((self, group))
    }

    fn end(&mut self, roots: &mut HashMap<Box<[u8]>, OfRoot<R>>) -> Option<OfRoot<R>> {
        if mem::replace(&mut self.has_ended, true) {
            return None;
        }
        let of_root = roots.get_mut(&self.root)?;
        of_root.under_way -= 1;
        match of_root.under_way {
            0 => roots.remove(&self.root),
            _ => None,
        }
    }
}

impl<R> Drop for UnderWay<R> {
    /// Where the work was broken off: those that wait for nothing else are told that it is closed.
    fn drop(&mut self) {
        let groups = Arc::clone(&self.groups);
        let left = self.end(&mut groups.0.lock());
        drop(left);
    }
}

fn too_late_for_others() -> StoreError {
    StoreError::Busy("other commands for the same key are not answered in time".to_owned())
}

fn too_many() -> StoreError {
    StoreError::Busy(format!(
        "{MOST_WAITING} commands for the same key wait; this one was not sent"
    ))
}

#[cfg(test)]
mod tests {
    use tidegate_store::Reply;
    use tokio::sync::Semaphore;

    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    /// Answers each of a group once it is let through, and remembers the groups.
    struct Gate {
        groups: Arc<Groups<&'static str>>,
        passes: Semaphore,
        begun: Semaphore,
        decided: Mutex<Vec<Vec<&'static str>>>,
    }

    impl Gate {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                groups: Arc::default(),
                passes: Semaphore::new(0),
                begun: Semaphore::new(0),
                decided: Mutex::default(),
            })
        }

        async fn pass(&self, group: &[&'static str]) {
            self.decided.lock().push(group.to_vec());
            self.begun.add_permits(1);
            self.passes.acquire().await.expect("open").forget();
        }

        /// Until so many more groups are under way.
        async fn begun(&self, groups: u32) {
            self.begun
                .acquire_many(groups)
                .await
                .expect("open")
                .forget();
        }

        fn send(self: &Arc<Self>, driver: &Driver, what: &'static str) -> StoreFuture {
            send_in_group(self, driver, b"hot", what)
        }
    }

    impl DecidesGroups for Gate {
        type Request = &'static str;

        const MOST_UNDER_WAY: usize = 1;

        fn groups(&self) -> &Arc<Groups<&'static str>> {
            &self.groups
        }

        fn fit(&self, one: &&'static str, other: &&'static str) -> bool {
            one.len() == other.len()
        }

        async fn decide_group(
            self: &Arc<Self>,
            requests: &[&'static str],
            answers: &mut Vec<Answer>,
        ) -> Result<(), StoreError> {
            self.pass(requests).await;
            if requests.contains(&"large") {
                return Err(StoreError::Full("too large".to_owned()));
            }
            answers.resize(requests.len(), Ok(Reply::Done));
            Ok(())
        }

        async fn decide_one(self: &Arc<Self>, request: &&'static str) -> Answer {
            self.pass(&[*request]).await;
            match *request {
                "large" => Err(StoreError::Full("too large".to_owned())),
                "panic" => panic!("as asked"),
                _ => Ok(Reply::Done),
            }
        }
    }

    fn driver(deadline: Duration) -> Driver {
        Driver::new("groups", deadline).expect("a thread")
    }

    #[tokio::test]
    async fn what_comes_while_one_is_under_way_is_decided_together() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let first = gate.send(&driver, "a");
        gate.begun(1).await;
        let others = ["b", "c", "dd", "e"].map(|what| gate.send(&driver, what));
        gate.passes.add_permits(4);
        assert_eq!(first.await, Ok(Reply::Done));
        for other in others {
            assert_eq!(other.await, Ok(Reply::Done));
        }
        // In order, and those that do not fit by themselves.
        let decided = [vec!["a"], vec!["b", "c"], vec!["dd"], vec!["e"]];
        assert_eq!(*gate.decided.lock(), decided);
        // The last was told before its group had ended.
        let again = gate.send(&driver, "f");
        gate.passes.add_permits(1);
        assert_eq!(again.await, Ok(Reply::Done));
        drop(driver);
    }

    /// An error about one of them was told to all.
    #[tokio::test]
    async fn each_is_told_its_own_error() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let first = gate.send(&driver, "first");
        gate.begun(1).await;
        let others = ["small", "large", "other"].map(|what| gate.send(&driver, what));
        gate.passes.add_permits(5);
        assert_eq!(first.await, Ok(Reply::Done));
        let [small, large, other] = others;
        assert_eq!(small.await, Ok(Reply::Done));
        assert!(matches!(large.await, Err(StoreError::Full(_))));
        assert_eq!(other.await, Ok(Reply::Done));
    }

    /// What waited for work that broke off would have waited for ever.
    #[tokio::test]
    async fn what_waits_for_work_that_breaks_off_is_told_so() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let first = gate.send(&driver, "panic");
        gate.begun(1).await;
        let other = gate.send(&driver, "other");
        gate.passes.add_permits(1);
        assert_eq!(first.await, Err(closed()));
        assert_eq!(other.await, Err(closed()));
        gate.passes.add_permits(1);
        assert_eq!(gate.send(&driver, "again").await, Ok(Reply::Done));
    }

    /// None waits for longer than a deadline, with all that it waits for.
    #[tokio::test]
    async fn what_has_waited_for_too_long_is_not_decided() {
        let (gate, driver) = (Gate::new(), driver(Duration::from_secs(1)));
        let first = gate.send(&driver, "a");
        let other = gate.send(&driver, "b");
        assert!(matches!(first.await, Err(StoreError::Unavailable(_))));
        assert!(matches!(other.await, Err(StoreError::Busy(_))));
        assert_eq!(*gate.decided.lock(), [vec!["a"]]);
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let _first = gate.send(&driver, "a");
        gate.begun(1).await;
        let waiting: Vec<_> = (0..MOST_WAITING).map(|_| gate.send(&driver, "b")).collect();
        let refused = gate.send(&driver, "c").await;
        assert!(matches!(refused, Err(StoreError::Busy(_))));
        gate.passes.close();
        drop(waiting);
    }
}
