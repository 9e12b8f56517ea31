//! Several commands of one root as one statement (`sql/batch.sql`), in their order, each on its own
//! shortest way: those of a batch at one instant, those of a group each at its own.

use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::moved;
use tidegate_store::{Answer, KeyCommand, Op, OwnedCommand, Reply, StoreError};

use crate::compiled::Compiled;
use crate::connection::Argument;
use crate::error::garbled;
use crate::inner::{Calls, Inner};
use crate::plain::{Plain, Taken};
use crate::plain_set::is_plain;
use crate::reply;
use crate::request::{END, Request};

/// So many commands are one statement at most: meanwhile the root's row is locked.
const MOST_AT_ONCE: usize = 250;

const BATCH: &str = "SELECT tidegate.batch($1, $2, $3, $4, $5, $6, $7, $8, $9::text::numeric,
    $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)";

/// Who decides a command, as `tidegate.one_of_batch` numbers them.
enum Way {
    Decide = 0,
    TakePlain = 1,
    TakeSet = 2,
    EndSet = 3,
}

/// The commands of one statement, a list for each of what they say.
#[derive(Default)]
struct Columns<'r> {
    ways: Vec<i32>,
    keys: Vec<&'r [u8]>,
    ends: Vec<String>,
    rules: Vec<Option<&'r str>>,
    own: Vec<String>,
    verbs: Vec<i32>,
    amounts: Vec<String>,
    details: Vec<i32>,
    ids: Vec<Option<&'r str>>,
    untils: Vec<i64>,
    idempotency: Vec<Option<&'r [u8]>>,
    endings: Vec<i32>,
    used: Vec<String>,
    remember: Vec<bool>,
}

impl Inner {
    /// Pushes an answer to each of `requests`, which are of one root and by one plan; and by one
    /// instant, where the caller's clock decides.
    pub(crate) async fn decide_together(
        &self,
        requests: &[Request],
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let mut at = None;
        while answers.len() < requests.len() {
            let left = &requests[answers.len()..];
            let (instant, told) = self.by_one_statement(left, at, true).await?;
            at = Some(instant);
            answers.extend(told);
        }
        Ok(())
    }

    /// The answers to the first of them by one statement, and its instant; `at` is that of those before
    /// them. `locks_root`: nobody else decides at the root in between, and all are decided at one
    /// instant.
    pub(crate) async fn by_one_statement(
        &self,
        requests: &[Request],
        at: Option<i64>,
        locks_root: bool,
    ) -> Result<(i64, Vec<Answer>), StoreError> {
        let first = requests.first().ok_or_else(|| garbled("no request"))?;
        let plan = self.plan_of(first).await?;
        let chunk = &requests[..requests.len().min(MOST_AT_ONCE)];
        let (instant, replies) = self.calls.batch(&plan, chunk, (at, locks_root)).await?;
        if replies.is_empty() {
            return Err(garbled("no replies"));
        }
        let mut answers = Vec::with_capacity(replies.len());
        for (request, reply) in chunk.iter().zip(replies) {
            match self.calls.read_one(&plan, request, reply) {
                Ok(reply::Answer::Reply(reply) | reply::Answer::Kept(reply)) => {
                    answers.push(Ok(reply));
                }
                Ok(reply::Answer::More) => break,
                Ok(reply::Answer::Looked) => return Err(garbled("no reply")),
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                Err(error) => answers.push(Err(error)),
            }
        }
        Ok((instant, answers))
    }

    /// Whether any of `batch` makes a lease that ends with a session: that is told of by itself.
    pub(crate) fn makes_leases_of_sessions(&self, batch: &OwnedCommand) -> bool {
        requests(batch, |one| self.ends_with_session(one)).contains(&true)
    }

    /// Whether it makes a lease that ends with a session.
    pub(crate) fn ends_with_session(&self, command: &KeyCommand<'_>) -> bool {
        self.calls.session.is_some() && command.verb.terms().is_some()
    }
}

/// What `of` makes of each of `batch`.
pub(crate) fn requests<T>(batch: &OwnedCommand, of: impl Fn(&KeyCommand<'_>) -> T) -> Vec<T> {
    batch.lend(|command| match command.op {
        Op::Batch(items) => items
            .iter()
            .map(|&(path, verb)| of(&command.one(path, verb)))
            .collect(),
        _ => Vec::new(),
    })
}

impl Calls {
    /// The instant of the batch, by the deciding clock, and what is said to each request as far
    /// as that goes.
    async fn batch(
        &self,
        plan: &Compiled,
        requests: &[Request],
        (at, locks_root): (Option<i64>, bool),
    ) -> Result<(i64, Vec<Option<String>>), StoreError> {
        let first = requests.first().ok_or_else(|| garbled("no request"))?;
        let _share = self.link.share(self.tab, first.root()).await?;
        let mut columns = Columns::default();
        for request in requests {
            columns.add(self.way(plan, request), request, first.now);
        }
        let (root, now) = (first.root(), first.now.as_micros());
        let limits = plan.plain.as_deref();
        let keep = first.plan.keep().as_micros().to_string();
        let arguments: [Argument<'_>; 25] = [
            &self.tab,
            &plan.revision,
            &now,
            &self.is_callers(),
            &root,
            &at,
            &first.calendars,
            &limits,
            &keep,
            &columns.ways,
            &columns.keys,
            &columns.ends,
            &columns.rules,
            &columns.own,
            &columns.verbs,
            &columns.amounts,
            &columns.details,
            &columns.ids,
            &columns.untils,
            &columns.idempotency,
            &columns.endings,
            &columns.used,
            &columns.remember,
            &plan.counts_usage,
            &locks_root,
        ];
        let rows = self.link.query(BATCH, &arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no row"))?;
        let replies = row.try_get::<_, Vec<Option<String>>>(0);
        let mut replies = replies.map_err(|_| garbled("no replies"))?.into_iter();
        let at = replies.next().flatten().and_then(|at| at.parse().ok());
        Ok((at.ok_or_else(|| garbled("no instant"))?, replies.collect()))
    }

    fn way(&self, plan: &Compiled, request: &Request) -> Way {
        match request.verb {
            _ if plan.plain.is_none() => Way::Decide,
            _ if Plain::of(request, self.clock).is_some() => Way::TakePlain,
            END if is_plain(request) => Way::EndSet,
            _ if is_plain(request) => Way::TakeSet,
            _ => Way::Decide,
        }
    }

    fn read_one(
        &self,
        plan: &Compiled,
        request: &Request,
        text: Option<String>,
    ) -> Result<reply::Answer, StoreError> {
        let plain = plan.plain.as_ref();
        let text = match plain.and_then(|_| Plain::of(request, self.clock)) {
            None => text.ok_or_else(|| garbled("no text"))?,
            Some(plain) => match plain.read(text)? {
                Taken::Decision(decision) => {
                    return Ok(reply::Answer::Reply(Reply::Decision(decision)));
                }
                Taken::Otherwise(text) => text,
            },
        };
        reply::read(&text, &request.deciding, request.now)
    }
}

impl<'r> Columns<'r> {
    /// Adds `request`, of which the instants are told as by a clock that stands at `now`.
    fn add(&mut self, way: Way, request: &'r Request, now: Timestamp) {
        self.ways.push(way as i32);
        self.keys.push(&request.key);
        self.ends.push(list(&request.ends));
        self.rules.push(request.rules.as_deref());
        self.own.push(list(&request.own));
        self.verbs.push(request.verb);
        self.amounts.push(list(&request.amounts));
        self.details.push(request.detail);
        self.ids.push(request.id.as_deref());
        let until = Timestamp::from_micros(request.until);
        self.untils.push(moved(until, request.now, now).as_micros());
        self.idempotency.push(request.idempotency.as_deref());
        self.endings.push(request.ending);
        let used = request.used.iter();
        let used = used.map(|used| used.map_or("NULL".to_owned(), |used| used.to_string()));
        self.used.push(list(&used.collect::<Vec<_>>()));
        self.remember.push(request.remember);
    }
}

/// An array's text.
fn list<T: ToString>(all: &[T]) -> String {
    let words: Vec<String> = all.iter().map(T::to_string).collect();
    format!("{{{}}}", words.join(","))
}
