//! Group commit: commands of one root that come while others of it are under way wait for the end
//! of those, and are then decided together, as a batch is. Where a store decides about one root in
//! one place after the other anyway, as many callers of a hot key cost one trip and one write, and
//! nobody waits for others to come.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::optimistic::BatchProgress;
use tidegate_store::{Answer, StoreError, StoreFuture};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::breaker::ignored;
use crate::driver::{Driver, closed, too_late};
use crate::together::DecidesTogether;

/// So many commands one group has at most.
const LARGEST: usize = 128;

/// A command is queued for this part of the deadline at most, a quarter: the rest is for what the store
/// waits for itself.
const QUEUE_PART: u32 = 4;

/// So many commands of one root wait at most.
const MOST_WAITING: usize = 16_384;

/// What a store does of groups of commands of one root.
pub trait DecidesGroups: DecidesTogether {
    /// So many groups of one root are under way at once: more than one where the next may be on
    /// its way while the store is still busy with the one before.
    const MOST_UNDER_WAY: usize;

    /// Those of its table.
    fn groups(&self) -> &Arc<Groups<Self::Request>>;

    /// Whether both may be decided by one plan, in one step.
    fn fit(&self, one: &Self::Request, other: &Self::Request) -> bool;
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
    waiting: VecDeque<Queued<R>>,
}

#[derive(Debug)]
struct Queued<R> {
    request: R,
    since: Instant,
    tell: oneshot::Sender<Told>,
}

/// An answer; and whether a breaker ignores it if it is an error, since the store was not asked, or another
/// of the same step was told before.
type Told = (Answer, bool);

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
    let new = Queued {
        request,
        since: Instant::now(),
        tell,
    };
    match store.groups().enter(root, new, S::MOST_UNDER_WAY) {
        Entered::Waits => {}
        Entered::Full(new) => drop(new.tell.send((Err(too_many()), true))),
        Entered::First(under_way, first) => {
            let work = decide_all(Arc::clone(store), driver.deadline(), under_way, first);
            // Once the store is closed it is dropped, and says so.
            drop(driver.tasks().spawn(work));
        }
    }
    StoreFuture::new(async move {
        let (answer, is_ignored) = told.await.unwrap_or_else(|_| (Err(closed()), false));
        if is_ignored {
            ignored::mark();
        }
        answer
    })
}

/// Decides the first, then group by group those that wait, until there are none.
async fn decide_all<S: DecidesGroups>(
    store: Arc<S>,
    deadline: Duration,
    mut under_way: UnderWay<S::Request>,
    first: Queued<S::Request>,
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

/// Tells each of `group` its answer, step by step: each is begun as soon as those before it have ended,
/// while it is not too late for it.
async fn decide<S: DecidesGroups>(
    store: &Arc<S>,
    group: Vec<Queued<S::Request>>,
    deadline: Duration,
) {
    let (mut callers, mut arrivals) = (VecDeque::new(), VecDeque::new());
    let mut requests = Vec::with_capacity(group.len());
    for waiting in group {
        callers.push_back(waiting.tell);
        arrivals.push_back(waiting.since);
        requests.push(waiting.request);
    }
    let (mut progress, mut are_alone) = (BatchProgress::default(), false);
    while let Some(arrival) = arrivals.front().copied() {
        let left = &requests[requests.len() - arrivals.len()..];
        let is_late = arrival.elapsed() > deadline / QUEUE_PART;
        let answers = if is_late {
            vec![Err(too_late_for_others())]
        } else if are_alone || left.len() == 1 || progress.is_next_alone() {
            vec![in_time(store.execute_alone(&left[0]), arrival, deadline).await]
        } else {
            let step = store.try_together(left, &mut progress);
            match in_time(step, arrival, deadline).await {
                Ok(answers) if answers.is_empty() => {
                    vec![in_time(store.execute_alone(&left[0]), arrival, deadline).await]
                }
                Ok(answers) => answers,
                // The step failed for all of them.
                Err(error @ (StoreError::Unavailable(_) | StoreError::Busy(_))) => {
                    vec![Err(error); left.len()]
                }
                // It is about one of them: each is told its own.
                Err(_) => {
                    are_alone = true;
                    continue;
                }
            }
        };
        let mut is_ignored = is_late;
        for answer in answers {
            arrivals.pop_front();
            // Nobody may wait for it any more.
            let caller = callers.pop_front();
            let told = caller.is_some_and(|caller| caller.send((answer, is_ignored)).is_ok());
            is_ignored |= told;
        }
    }
}

/// What `work` comes to by the deadline of one that arrived then.
async fn in_time<T>(
    work: impl Future<Output = Result<T, StoreError>>,
    arrival: Instant,
    deadline: Duration,
) -> Result<T, StoreError> {
    let decided = timeout_at(arrival + deadline, work).await;
    decided.unwrap_or_else(|_| Err(too_late(deadline)))
}

/// What became of a command that came.
enum Entered<R> {
    /// It is the first of a group.
    First(UnderWay<R>, Queued<R>),
    /// It waits for those that are under way.
    Waits,
    /// Too many wait.
    Full(Queued<R>),
}

impl<R> Groups<R> {
    fn enter(self: &Arc<Self>, root: &[u8], new: Queued<R>, most_under_way: usize) -> Entered<R> {
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
    /// One that was queued for too long is told so, and is not decided.
    fn next(
        mut self,
        fit: impl Fn(&R, &R) -> bool,
        deadline: Duration,
    ) -> Option<(Self, Vec<Queued<R>>)> {
        let groups = Arc::clone(&self.groups);
        let mut roots = groups.0.lock();
        let mut group: Vec<Queued<R>> = Vec::new();
        if let Some(of_root) = roots.get_mut(&self.root) {
            let is_next = |group: &[Queued<R>], next: &Queued<R>| {
                let first = group.first();
                group.len() < LARGEST
                    && first.is_none_or(|first| fit(&first.request, &next.request))
            };
            let waiting = &mut of_root.waiting;
            while let Some(next) = waiting.pop_front_if(|next| is_next(&group, next)) {
                if next.since.elapsed() > deadline / QUEUE_PART {
                    let _ = next.tell.send((Err(too_late_for_others()), true));
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
    StoreError::Busy(
        "other commands of the same root (the key's first segment) are not answered in time; this one was \
         not sent"
            .to_owned(),
    )
}

fn too_many() -> StoreError {
    StoreError::Busy(format!(
        "{MOST_WAITING} commands of the same root (the key's first segment) wait; this one was not sent"
    ))
}

#[cfg(test)]
mod tests {
    use tidegate_store::Reply;
    use tokio::sync::Semaphore;

    use crate::breaker::{CircuitBreaker, Position, Settings, end};

    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    /// Answers each of a group once it is let through, and remembers the groups.
    struct Gate {
        groups: Arc<Groups<&'static str>>,
        passes: Semaphore,
        decided: Mutex<Vec<Vec<&'static str>>>,
    }

    impl Gate {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                groups: Arc::default(),
                passes: Semaphore::new(0),
                decided: Mutex::default(),
            })
        }

        async fn pass(&self, group: &[&'static str]) {
            self.decided.lock().push(group.to_vec());
            self.passes.acquire().await.expect("open").forget();
        }

        fn send(self: &Arc<Self>, driver: &Driver, what: &'static str) -> StoreFuture {
            send_in_group(self, driver, b"hot", what)
        }
    }

    impl DecidesGroups for Gate {
        const MOST_UNDER_WAY: usize = 1;

        fn groups(&self) -> &Arc<Groups<&'static str>> {
            &self.groups
        }

        fn fit(&self, one: &&'static str, other: &&'static str) -> bool {
            one.len() == other.len()
        }
    }

    impl DecidesTogether for Gate {
        type Request = &'static str;

        async fn try_together(
            self: &Arc<Self>,
            requests: &[&'static str],
            _: &mut BatchProgress,
        ) -> Result<Vec<Answer>, StoreError> {
            self.pass(requests).await;
            match requests {
                _ if requests.contains(&"large") => Err(StoreError::Full("too large".to_owned())),
                _ if requests.contains(&"loses") => Err(StoreError::Unavailable("lost".to_owned())),
                _ if requests[0] == "alone" => Ok(Vec::new()),
                _ => Ok(vec![Ok(Reply::Done); requests.len()]),
            }
        }

        async fn execute_alone(self: &Arc<Self>, request: &&'static str) -> Answer {
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

    /// One under way, and these behind it, of which so many steps are let through.
    async fn behind_one<const N: usize>(
        (gate, driver): (&Arc<Gate>, &Driver),
        others: [&'static str; N],
        steps: usize,
    ) -> [StoreFuture; N] {
        let first = gate.send(driver, "first");
        let others = others.map(|what| gate.send(driver, what));
        gate.passes.add_permits(1 + steps);
        assert_eq!(first.await, Ok(Reply::Done));
        others
    }

    #[tokio::test]
    async fn what_comes_while_one_is_under_way_is_decided_together() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let others = ["other", "third", "alone", "large", "longer", "fifth"];
        let others = behind_one((&gate, &driver), others, 7).await;
        for (number, other) in others.into_iter().enumerate() {
            let is_large = matches!(other.await, Err(StoreError::Full(_)));
            assert_eq!(is_large, number == 3);
        }
        // In order; what does not fit comes behind, and an error about one is not told to others.
        let group = vec!["other", "third", "alone", "large"];
        let decided = [vec!["first"], group]
            .into_iter()
            .chain(["other", "third", "alone", "large", "longer", "fifth"].map(|one| vec![one]));
        assert_eq!(*gate.decided.lock(), decided.collect::<Vec<_>>());
        // The last was told before its group had ended.
        gate.passes.add_permits(1);
        assert_eq!(gate.send(&driver, "again").await, Ok(Reply::Done));
    }

    #[tokio::test]
    async fn one_that_is_for_itself_keeps_no_other_from_being_decided_together() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let others = behind_one((&gate, &driver), ["alone", "other", "third"], 3).await;
        for other in others {
            assert_eq!(other.await, Ok(Reply::Done));
        }
        let group = ["alone", "other", "third"];
        let decided = [&["first"][..], &group, &["alone"], &["other", "third"]];
        assert_eq!(*gate.decided.lock(), decided);
    }

    /// What waited for work that broke off would have waited for ever.
    #[tokio::test]
    async fn what_waits_for_work_that_breaks_off_is_told_so() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let first = gate.send(&driver, "panic");
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

    /// It was told that it may have been executed.
    #[tokio::test]
    async fn what_was_not_sent_is_not_told_that_it_may_have_been() {
        let (gate, driver) = (Gate::new(), driver(Duration::from_secs(1)));
        let others = ["small", "large", "other", "third"];
        // The group, and the first two of it by themselves; the third hangs.
        let [small, large, other, third] = behind_one((&gate, &driver), others, 3).await;
        assert_eq!(small.await, Ok(Reply::Done));
        assert!(matches!(large.await, Err(StoreError::Full(_))));
        assert!(matches!(other.await, Err(StoreError::Unavailable(_))));
        assert!(matches!(third.await, Err(StoreError::Busy(_))));
    }

    /// What these come to, as a table behind the breaker has them.
    async fn ended(breaker: &Arc<CircuitBreaker>, asked: Vec<StoreFuture>) -> Vec<Answer> {
        let enter = |later| (breaker.enter(false).expect("it is closed"), later);
        let entered: Vec<_> = asked.into_iter().map(enter).collect();
        let mut answers = Vec::new();
        for (entry, later) in entered {
            let (answer, is_ignored) = ignored::answer_of(later).await;
            end(entry, &answer, is_ignored);
            answers.push(answer);
        }
        answers
    }

    /// It was as many as there were callers, and opened the breaker for the whole store.
    #[tokio::test]
    async fn a_step_that_is_lost_is_one_failure() {
        let breaker = Arc::new(CircuitBreaker::new(Settings::default(), None));
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let others = ["other", "third", "loses", "fifth", "sixth", "seven"];
        let others = behind_one((&gate, &driver), others, 1).await;
        for answer in ended(&breaker, others.into()).await {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))));
        }
        assert_eq!(breaker.position(), Position::Closed);
    }

    /// What had waited in vain, and was not sent, counted as an answer of the store: it was never
    /// taken for away.
    #[tokio::test]
    async fn a_store_that_hangs_opens_the_breaker_though_all_ask_for_one_key() {
        let breaker = Arc::new(CircuitBreaker::new(Settings::default(), None));
        let (gate, driver) = (Gate::new(), driver(Duration::from_millis(100)));
        for _ in 0..5 {
            assert_eq!(breaker.position(), Position::Closed);
            let asked = ["a", "b", "c"].map(|what| gate.send(&driver, what));
            let answers = ended(&breaker, asked.into()).await;
            assert!(answers.iter().all(Result::is_err), "{answers:?}");
        }
        assert_eq!(breaker.position(), Position::Open);
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let (gate, driver) = (Gate::new(), driver(PATIENT));
        let _first = gate.send(&driver, "a");
        let waiting: Vec<_> = (0..MOST_WAITING).map(|_| gate.send(&driver, "b")).collect();
        let refused = gate.send(&driver, "c").await;
        assert!(matches!(refused, Err(StoreError::Busy(_))));
        gate.passes.close();
        drop(waiting);
    }
}
