//! A table that is offered, for all who use it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::core::{DecodeError, Timestamp};
use tidegate_store::optimistic::{by_the_callers_clock, moved};
use tidegate_store::{
    Answer, Command, Count, Ending, Hours, KeyPath, Op, Out, OwnedListing, OwnedPath, OwnedVerb,
    Patience, Plan, Reply, Seat, StoreError, StoreFuture, Table, Timer, Verb,
};

use super::answered::Undelivered;
use super::limits::{Limits, NotReady, Ready};
use crate::wire::{Adoption, Asked, Digest, Item, Own, Turn};

/// So often is a command made again whose plan another user's request has changed meanwhile.
const MOST_TRIES: usize = 256;

/// So long is one who waits held whose windows are over by this clock, and not by its own.
const MOST_BEHIND: Duration = Duration::from_secs(1);

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The plan is to be sent.
    UnknownPlan,
    /// What came cannot be read.
    Unread(DecodeError),
}

/// What was answered, by the clock of who asked, and what it grants.
type Told = (Answer, Option<Undelivered>);

/// See the [module](self).
pub(super) struct OfferedTable {
    table: Arc<dyn Table>,
    limits: Mutex<Limits>,
    timer: Arc<dyn Timer>,
    /// Whether the clock of who asks decides: in tests.
    by_callers_clock: bool,
}

/// A command that has begun.
enum Begun {
    Ready(Answer, Ready),
    Later(StoreFuture, Ready),
}

impl OfferedTable {
    /// One that was opened by `plan`, and was there before or not.
    pub(super) fn new(
        table: Arc<dyn Table>,
        (plan, was_there): (Arc<Plan>, bool),
        timer: Arc<dyn Timer>,
        by_callers_clock: bool,
    ) -> Self {
        Self {
            table,
            limits: Mutex::new(Limits::new(plan, was_there)),
            timer,
            by_callers_clock,
        }
    }

    /// How many levels its keys have.
    pub(super) fn levels(&self) -> usize {
        self.limits.lock().current().levels()
    }

    pub(super) fn learn(&self, digest: Digest, plan: Plan) {
        self.limits.lock().learn(digest, plan);
    }

    /// The clock that decides, where that of who asks says `theirs`.
    fn now(&self, theirs: Timestamp) -> Timestamp {
        match self.by_callers_clock {
            true => theirs,
            false => self.timer.now(),
        }
    }

    pub(super) fn adopt(&self, adoption: &Adoption<'_>) -> Result<Answer, Unanswered> {
        let when = (self.now(adoption.at), &adoption.calendars[..]);
        let mut limits = self.limits.lock();
        let adopted = limits.adopt(&*self.table, &adoption.client, when, &adoption.touched);
        match adopted {
            Ok(()) => Ok(Ok(Reply::Done)),
            Err(NotReady::StalePlan) => Ok(Err(StoreError::StalePlan)),
            Err(NotReady::UnknownPlan) => Err(Unanswered::UnknownPlan),
        }
    }

    /// Executes a command; its answer comes in the places of the user's plan, by its clock.
    pub(super) async fn ask(self: &Arc<Self>, asked: &Asked<'_>) -> Result<Told, Unanswered> {
        let received = self.now(asked.now);
        let patience = asked
            .turn
            .as_ref()
            .map(|turn| self.patience(turn, asked, received));
        for _ in 0..MOST_TRIES {
            let now = self.now(asked.now);
            let begun = match self.begin(asked, now, patience.as_ref())? {
                Ok(begun) => begun,
                Err(stale) => return Ok((Err(stale), None)),
            };
            let (mut answer, ready) = match begun {
                Begun::Ready(answer, ready) => (answer, ready),
                Begun::Later(later, ready) => (later.await, ready),
            };
            let has_turn = patience.is_some();
            let is_over = asked.calendars.iter().flatten().any(|calendar| {
                // A window of today is in none.
                calendar.next_end <= self.now(asked.now)
            });
            if answer == Err(StoreError::StalePlan) && !is_over {
                // By another user's request: it is made again, with its place.
                continue;
            }
            if answer == Err(StoreError::StalePlan) && has_turn {
                // Its windows are over by this clock.
                let theirs = moved(self.now(asked.now), received, asked.now);
                tokio::time::sleep(until_over(asked, theirs)).await;
            }
            let undelivered = self.undelivered(asked, &answer);
            if let Ok(reply) = &mut answer {
                ready.places.reply(reply);
            }
            by_theirs(&mut answer, received, asked.now);
            return Ok((answer, undelivered));
        }
        let busy = "its limits change all the time, by requests of users with other limits";
        Ok((Err(StoreError::Busy(busy.to_owned())), None))
    }

    fn begin(
        &self,
        asked: &Asked<'_>,
        now: Timestamp,
        patience: Option<&Patience>,
    ) -> Result<Result<Begun, StoreError>, Unanswered> {
        let mut limits = self.limits.lock();
        let levels = limits.current().levels();
        let path =
            |item: &Item<'_>| KeyPath::stored(item.key, levels).map(|path| OwnedPath::of(&path));
        let paths: Result<Vec<_>, _> = asked.items.iter().map(path).collect();
        let paths = paths.map_err(|_| Unanswered::Unread(DecodeError::Corrupt("key")))?;
        let rows: Vec<(KeyPath<'_>, &[Own])> = paths
            .iter()
            .zip(&asked.items)
            .map(|(path, item)| (path.lend(), &item.own[..]))
            .collect();
        let when = (now, &asked.calendars[..]);
        let ready = limits.ready(&*self.table, &asked.client, when, &rows, &asked.capacities);
        let ready = match ready {
            Ok(ready) => ready,
            Err(NotReady::UnknownPlan) => return Err(Unanswered::UnknownPlan),
            Err(NotReady::StalePlan) => return Ok(Err(StoreError::StalePlan)),
        };
        let verb = |item: &Item<'_>| {
            let verb = item.verb.lend().translated(|at| moved(at, asked.now, now));
            ready.places.verb(OwnedVerb::of(verb))
        };
        let verbs: Vec<OwnedVerb> = asked.items.iter().map(verb).collect();
        let items: Vec<(KeyPath<'_>, Verb<'_>)> = rows
            .iter()
            .zip(&verbs)
            .map(|((path, _), verb)| (*path, verb.lend()))
            .collect();
        let op = match (&items[..], asked.is_batch) {
            ([(path, verb), ..], false) => Op::One(*path, *verb),
            (items, _) => Op::Batch(items),
        };
        let mut answer = Ok(Reply::Done);
        let command = Command {
            plan: &ready.plan,
            now,
            calendars: &ready.calendars,
            op,
            patience,
        };
        // The lock is held: what is decided by a plan is begun before it changes.
        let later = self
            .table
            .execute(&command, Out::new(&mut answer))
            .pending();
        Ok(Ok(match later {
            Some(later) => Begun::Later(later, ready),
            None => Begun::Ready(answer, ready),
        }))
    }

    fn patience(&self, turn: &Turn, asked: &Asked<'_>, received: Timestamp) -> Patience {
        Patience {
            turn: turn.id,
            ahead: turn.ahead,
            longest: turn.longest,
            since: moved(turn.since, asked.now, received),
            for_refunds: turn.for_refunds,
            race: None,
            hold: None,
            retried: turn.retried,
            timer: Arc::clone(&self.timer),
            seat: Seat::default(),
        }
    }

    /// The leases that `answer` grants, if they are given back where nobody takes it.
    fn undelivered(self: &Arc<Self>, asked: &Asked<'_>, answer: &Answer) -> Option<Undelivered> {
        let Ok(reply) = answer else { return None };
        let granted = match reply {
            Reply::Batch(answers) => answers.iter().map(|one| one.as_ref().ok()).collect(),
            reply => vec![Some(reply)],
        };
        let of_retries = asked.turn.as_ref().is_some_and(|turn| turn.retried);
        let surplus = |(item, reply): (&Item<'_>, Option<&Reply>)| {
            let id = reply?.new_lease()?;
            let asks_again = |terms: tidegate_store::Terms<'_>| terms.idempotency.is_some();
            let stays = of_retries || item.verb.lend().terms().is_none_or(asks_again);
            (!stays).then(|| (item.key.to_vec(), id))
        };
        let leases: Vec<_> = asked
            .items
            .iter()
            .zip(granted)
            .filter_map(surplus)
            .collect();
        if leases.is_empty() {
            return None;
        }
        let (own, theirs) = (Arc::clone(self), asked.now);
        Some(Undelivered::new(move || {
            for (key, id) in leases {
                own.cancel(&key, id, theirs);
            }
        }))
    }

    /// Gives a lease back that nobody was told of. What fails is given back at its expiry.
    fn cancel(&self, key: &[u8], id: u128, theirs: Timestamp) {
        let limits = self.limits.lock();
        let plan = limits.current();
        let Ok(path) = KeyPath::stored(key, plan.levels()) else {
            return;
        };
        let verb = Verb::End {
            id,
            ending: Ending::Cancel,
            remember: false,
        };
        let mut answer = Ok(Reply::Done);
        let command = Command {
            plan,
            now: self.now(theirs),
            // What is given back goes where it was charged.
            calendars: &[],
            op: Op::One(path, verb),
            patience: None,
        };
        // It goes on by itself.
        drop(
            self.table
                .execute(&command, Out::new(&mut answer))
                .pending(),
        );
    }

    /// What is about all of the table.
    async fn listed(&self, now: Timestamp, op: Op<'_>) -> Answer {
        let mut answer = Ok(Reply::Done);
        let later = {
            let plan = Arc::clone(self.limits.lock().current());
            let command = Command {
                plan: &plan,
                now,
                calendars: &[],
                op,
                patience: None,
            };
            self.table
                .execute(&command, Out::new(&mut answer))
                .pending()
        };
        match later {
            Some(later) => later.await,
            None => answer,
        }
    }

    /// A page, with instants by the clock of who asks.
    pub(super) async fn page(&self, listing: &OwnedListing, of: PageOf) -> Answer {
        let theirs = listing.lend().now;
        let now = self.now(theirs);
        let mut listing = listing.lend();
        listing.now = now;
        let op = match of {
            PageOf::Keys => Op::ListKeys(listing),
            PageOf::Leases => Op::ListLeases(listing),
            PageOf::Usage(hours) => Op::ListUsage(listing, hours),
        };
        let mut answer = self.listed(now, op).await;
        if let Ok(Reply::Leases(page)) = &mut answer {
            for lease in &mut page.items {
                lease.expires_at = moved(lease.expires_at, now, theirs);
            }
        }
        answer
    }

    pub(super) async fn count(&self, theirs: Timestamp) -> Result<Count, StoreError> {
        match self.listed(self.now(theirs), Op::Count).await? {
            Reply::Count(count) => Ok(count),
            _ => Err(StoreError::Mismatch),
        }
    }
}

/// Of what a page is.
#[derive(Clone, Copy)]
pub(super) enum PageOf {
    Keys,
    Leases,
    Usage(Hours),
}

/// How long one who waits is not told yet that its windows are over, as by its own clock, which
/// says `theirs`, they are not: it would ask again by the same at once.
fn until_over(asked: &Asked<'_>, theirs: Timestamp) -> Duration {
    let calendars = asked.calendars.iter().flatten();
    let left = calendars.map(|calendar| calendar.next_end.since(theirs).as_duration());
    left.min().unwrap_or_default().min(MOST_BEHIND)
}

/// An answer, and each of a batch, by the clock of who asked.
fn by_theirs(answer: &mut Answer, received: Timestamp, asked: Timestamp) {
    match answer {
        Ok(Reply::Batch(answers)) => {
            for answer in answers {
                by_the_callers_clock(answer, received, asked);
            }
        }
        answer => by_the_callers_clock(answer, received, asked),
    }
}
