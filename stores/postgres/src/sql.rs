//! The functions of the schema, called for one table.

use tidegate_store::core::Timestamp;
use tidegate_store::{Reply, StoreError};

use crate::compiled::Compiled;
use crate::connection::Argument;
use crate::error::garbled;
use crate::inner::{Calls, Turn};
use crate::options::Clock;
use crate::plain::{Plain, Taken};
use crate::plain_set::is_plain;
use crate::plan::micros;
use crate::reply::{self, Answer};
use crate::request::{END, Request};

macro_rules! decide {
    ($turn:literal) => {
        concat!(
            "tidegate.decide($1, $2, $3, $4, $5, $6, $7::text::numeric[], $8, $9, $10, $11, $12,
                $13::text::numeric, $14, $15, $16, $17, $18, $19",
            $turn,
            ")"
        )
    };
}

/// A lease that ends with a session is given to one that lasts: of one that is over that is
/// told, and nothing is decided.
macro_rules! in_session {
    ($call:expr) => {
        concat!(
            "SELECT CASE WHEN tidegate.is_over($19) THEN '{8}'
                ELSE ",
            $call,
            " END"
        )
    };
}

const SESSION_IS_OVER: &str = "{8}";

const DECIDE: &str = concat!("SELECT ", decide!(""));
const DECIDE_IN_SESSION: &str = in_session!(decide!(""));

const DECIDE_IN_TURN: &str = concat!("SELECT ", decide!(", $20::text::numeric, $21, $22, $23"));
const DECIDE_IN_TURN_AND_SESSION: &str =
    in_session!(decide!(", $20::text::numeric, $21, $22, $23"));

/// So many sessions are begun for one lease, if each is over by the time that it is granted.
const MOST_SESSIONS: u32 = 3;

const GIVE_PLACE_UP: &str = "SELECT tidegate.give_place_up($1, $2, $3::text::numeric, $4, $5)";

impl Calls {
    /// Executes a request, by its plan as the server knows it.
    pub(crate) async fn query(
        &self,
        plan: &Compiled,
        request: &Request,
    ) -> Result<Answer, StoreError> {
        let _share = self.link.share(self.tab, request.root()).await?;
        let plain = Plain::of(request, self.clock);
        loop {
            let text = match &plain {
                None => self.call(plan, request, None).await?,
                Some(plain) => {
                    let text = self.take_plain(plan, request, plain).await?;
                    match plain.read(text)? {
                        Taken::Decision(decision) => {
                            return Ok(Answer::Reply(Reply::Decision(decision)));
                        }
                        Taken::Otherwise(text) => text,
                    }
                }
            };
            match reply::read(&text, &request.deciding, request.now)? {
                Answer::More => {}
                answer => return Ok(answer),
            }
        }
    }

    /// As [`query`](Self::query), by one who may stand in line.
    pub(crate) async fn ask_in_turn(
        &self,
        plan: &Compiled,
        request: &Request,
        turn: &Turn,
    ) -> Result<Answer, StoreError> {
        let _share = self.link.share(self.tab, request.root()).await?;
        let id = turn.id.to_string();
        let (ahead, alive) = (micros(turn.ahead), micros(turn.alive));
        let more: [Argument<'_>; 4] = [&id, &&*turn.channel, &ahead, &alive];
        loop {
            let text = self.call(plan, request, Some(more)).await?;
            match reply::read(&text, &request.deciding, request.now)? {
                Answer::More => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Gives the place in the line of `root` up.
    pub(crate) async fn give_place_up(
        &self,
        root: &[u8],
        turn: u128,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (turn, now) = (turn.to_string(), now.as_micros());
        let arguments: [Argument<'_>; 5] = [&self.tab, &root, &turn, &now, &self.is_callers()];
        self.link.query(GIVE_PLACE_UP, &arguments).await.map(drop)
    }

    async fn call(
        &self,
        plan: &Compiled,
        request: &Request,
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        match plan.plain.as_deref().filter(|_| is_plain(request)) {
            Some(limits) if request.verb == END => self.end_set(plan, request, limits).await,
            Some(limits) if self.session.is_none() || !request.makes_lease() => {
                self.take_set(plan, request, limits, turn).await
            }
            _ => self.decide(plan.revision, request, turn).await,
        }
    }

    async fn decide(
        &self,
        revision: i64,
        request: &Request,
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        let Some(session) = self.session.as_ref().filter(|_| request.makes_lease()) else {
            return self.decide_in(None, revision, request, turn).await;
        };
        for _ in 0..MOST_SESSIONS {
            let number = session.number(&self.link).await?;
            let text = self.decide_in(Some(number), revision, request, turn);
            let text = text.await?;
            if text != SESSION_IS_OVER {
                return Ok(text);
            }
            session.is_over(number).await;
        }
        Err(StoreError::Unavailable(
            "the PostgreSQL sessions with which leases are to end do not last; see \
             whether something ends connections that say nothing"
                .to_owned(),
        ))
    }

    /// As one statement, by a lease's session if it ends with one.
    async fn decide_in(
        &self,
        session: Option<i64>,
        revision: i64,
        request: &Request,
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let arguments: [Argument<'_>; 19] = [
            &self.tab,
            &revision,
            &now,
            &self.is_callers(),
            &request.key,
            &request.ends,
            &request.rules,
            &request.own,
            &request.calendars,
            &request.verb,
            &request.amounts,
            &request.detail,
            &request.id,
            &request.until,
            &request.idempotency,
            &request.ending,
            &request.used,
            &request.remember,
            &session,
        ];
        let (alone, in_turn) = match session {
            None => (DECIDE, DECIDE_IN_TURN),
            Some(_) => (DECIDE_IN_SESSION, DECIDE_IN_TURN_AND_SESSION),
        };
        match turn {
            None => self.answer(alone, &arguments).await,
            Some(turn) => {
                let arguments = [&arguments[..], &turn[..]].concat();
                self.answer(in_turn, &arguments).await
            }
        }
    }

    /// The text that a function answers.
    pub(crate) async fn answer(
        &self,
        statement: &str,
        arguments: &[Argument<'_>],
    ) -> Result<String, StoreError> {
        let text = self.read(statement, arguments).await?;
        text.ok_or_else(|| garbled("no text"))
    }

    /// As that, or null.
    pub(crate) async fn read(
        &self,
        statement: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Option<String>, StoreError> {
        let rows = self.link.query(statement, arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no row"))?;
        row.try_get(0).map_err(|_| garbled("no text"))
    }

    /// Whether the caller's clock decides.
    pub(crate) fn is_callers(&self) -> bool {
        self.clock == Clock::Caller
    }

    /// How many rows there are.
    pub(crate) async fn count(&self) -> Result<usize, StoreError> {
        let statement = "SELECT count(*) FROM tidegate.rows
            WHERE tab = $1 AND (tat IS NOT NULL OR states IS NOT NULL)";
        let rows = self.link.query(statement, &[&self.tab]).await?;
        let row = rows.first().ok_or_else(|| garbled("no count"))?;
        Ok(usize::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}
