//! Those who wait, of all processes, in order of arrival: for each a record of every
//! row that it waits for, by the server's clock. Nobody overtakes who waits for a
//! row of his path; others under the same root may pass.
//!
//! A place is taken and given back in the transaction that decides, under the lock
//! of the root's row: so the order of arrival is that of the decisions. One that was
//! without a heartbeat for [`ALIVE`] (its process was killed, stands still or cannot reach
//! the server) is nobody's any more.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tidegate_store::core::{Span, Timestamp};
use tokio::time::Instant;

use crate::error::Trouble;
use crate::inner::Inner;
use crate::shared::Shared;
use crate::sql::Place;
use crate::sql::{AT_START, marks};

/// For how long a place is kept without a heartbeat.
const ALIVE: Span = Span::from_secs(3);

/// How often it is said that it is there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// So many of those before one are counted.
pub(crate) const MOST_COUNTED: u32 = 8;

/// So many who are not there any more are forgotten at once.
const MOST_FORGOTTEN: u32 = 256;

/// A place in line, or the wish for one.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// What it is known by.
    id: u128,
    /// How much earlier than it did it counts as having come.
    ahead: Span,
    /// What is kept of it, once it stands.
    stands: Option<Stands>,
}

#[derive(Clone, Debug)]
struct Stands {
    /// When it came, by the server's clock, less how much earlier it counts.
    came: i64,
    /// The rows that it waits for.
    names: Vec<Vec<u8>>,
    /// When it was last written that it waits.
    heartbeat: Instant,
}

/// Whom a take finds before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Its own place, if it may have one.
    turn: Option<u128>,
    /// If it has none, how much earlier than now it counts as having come.
    less: i64,
}

impl Ahead {
    /// All who are there: of a take that has no place and wants none.
    pub(crate) const ALL: Self = Self {
        turn: None,
        less: -(1 << 60),
    };

    /// What its own place is known by.
    pub(crate) fn turn(self) -> Value {
        self.turn.map(|turn| turn.to_be_bytes().to_vec()).into()
    }

    /// How much earlier than now it counts as having come.
    pub(crate) fn less(self) -> Value {
        self.less.into()
    }
}

impl Turn {
    pub(crate) const fn new(id: u128, ahead: Span) -> Self {
        Self {
            id,
            ahead,
            stands: None,
        }
    }

    /// Whether it has a place.
    pub(crate) const fn stands(&self) -> bool {
        self.stands.is_some()
    }

    /// Who is before it.
    pub(crate) const fn ahead(&self) -> Ahead {
        Ahead {
            turn: Some(self.id),
            less: micros(self.ahead),
        }
    }

    /// What the server knows of it: since when it has a place, of an earlier ask with
    /// the same patience, too; or that it has none, whatever was believed (its
    /// transaction was lost, or it stood still for too long). It gets the same again.
    pub(crate) fn found(&mut self, since: Option<i64>) {
        match (since, &mut self.stands) {
            (Some(came), stands) => drop(stands.get_or_insert_with(|| Stands {
                came,
                names: Vec::new(),
                heartbeat: Instant::now(),
            })),
            (None, Some(stands)) => stands.names.clear(),
            (None, None) => {}
        }
    }

    /// Whether the server must be told that it stands, for these rows.
    pub(crate) fn is_news(&self, names: &[Vec<u8>]) -> bool {
        match &self.stands {
            Some(stands) => stands.names != names || stands.heartbeat.elapsed() >= HEARTBEAT,
            None => true,
        }
    }

    /// Gives it a place, or keeps it, in the transaction that is open on `conn`; `now`
    /// is the server's clock. It is for `names`, which are not none.
    pub(crate) async fn stand(
        &mut self,
        conn: &mut Conn,
        place: Place<'_>,
        (now, names): (Timestamp, Vec<Vec<u8>>),
    ) -> Result<(), Trouble> {
        let new = now.as_micros().saturating_sub(micros(self.ahead));
        let came = self.stands.as_ref().map_or(new, |stands| stands.came);
        let (prefix, table) = (place.prefix, Value::from(place.table));
        let (others, rows) = (
            marks(names.len()),
            vec!["(?, ?, ?, ?, ?)"; names.len()].join(", "),
        );
        let text = format!(
            "BEGIN NOT ATOMIC \
             DELETE FROM {prefix}_turns WHERE table_id = ? AND turn = ? AND name NOT IN ({others}); \
             INSERT INTO {prefix}_turns (table_id, name, came, turn, until) VALUES {rows} \
             ON DUPLICATE KEY UPDATE until = VALUES(until); END"
        );
        let until = now.as_micros().saturating_add(micros(ALIVE));
        let mut parameters = vec![table.clone(), bytes(self.id)];
        parameters.extend(names.iter().map(Value::from));
        for name in &names {
            let name = Value::from(name);
            parameters.extend([
                table.clone(),
                name,
                came.into(),
                bytes(self.id),
                until.into(),
            ]);
        }
        let statement = conn.prep(text).await?;
        conn.exec_drop(statement, Params::Positional(parameters))
            .await?;
        let heartbeat = Instant::now();
        self.stands = Some(Stands {
            came,
            names,
            heartbeat,
        });
        Ok(())
    }

    /// Gives the place back in the transaction that is open on `conn`, if it has one.
    pub(crate) async fn leave(&self, conn: &mut Conn, place: Place<'_>) -> Result<(), Trouble> {
        if self.stands() {
            let statement = conn.prep(leave(place.prefix)).await?;
            conn.exec_drop(statement, (place.table, bytes(self.id)))
                .await?;
        }
        Ok(())
    }

    /// Gives the place back by itself.
    pub(crate) async fn give_up(&self, table: &Inner) -> Result<(), Trouble> {
        let Place {
            prefix,
            table: number,
        } = table.place();
        let leave = leave(prefix);
        table.shared.tell(&leave, (number, bytes(self.id))).await
    }

    /// How many are before it, up to [`MOST_COUNTED`] and one, or none if it has lost
    /// its place: then it asks. And says every so often that it is there.
    pub(crate) async fn look(&mut self, table: &Inner) -> Result<u32, Trouble> {
        let id = self.id;
        let Some(stands) = &mut self.stands else {
            return Ok(0);
        };
        let Place {
            prefix,
            table: number,
        } = table.place();
        if stands.heartbeat.elapsed() >= HEARTBEAT {
            let say = format!(
                "UPDATE {prefix}_turns SET until = {AT_START} + ? WHERE table_id = ? AND turn = ?"
            );
            let said = (micros(ALIVE), number, bytes(id));
            table.shared.tell(&say, said).await?;
            stands.heartbeat = Instant::now();
        }
        let (names, most) = (marks(stands.names.len()), MOST_COUNTED + 1);
        let count = format!(
            "SELECT COUNT(*), EXISTS(SELECT * FROM {prefix}_turns WHERE table_id = ? \
             AND turn = ?) FROM (SELECT DISTINCT turn FROM {prefix}_turns \
             WHERE table_id = ? AND name IN ({names}) AND until > {AT_START} \
             AND (came < ? OR (came = ? AND turn < ?)) LIMIT {most}) AS before_it"
        );
        let mut parameters = vec![number.into(), bytes(id), number.into()];
        parameters.extend(stands.names.iter().map(Value::from));
        parameters.extend([stands.came.into(), stands.came.into(), bytes(id)]);
        let counts: Vec<(u32, bool)> = table
            .shared
            .query(&count, Params::Positional(parameters))
            .await?;
        match counts.first() {
            Some((before_it, true)) => Ok(*before_it),
            _ => Ok(0),
        }
    }
}

fn leave(prefix: &str) -> String {
    format!("DELETE FROM {prefix}_turns WHERE table_id = ? AND turn = ?")
}

/// Forgets some of those without a heartbeat for too long.
pub(crate) async fn forget(shared: &Shared) -> Result<(), Trouble> {
    let prefix = &shared.prefix;
    let forget =
        format!("DELETE FROM {prefix}_turns WHERE until <= {AT_START} LIMIT {MOST_FORGOTTEN}");
    shared.tell(&forget, ()).await
}

fn bytes(turn: u128) -> Value {
    turn.to_be_bytes().to_vec().into()
}

/// No span here is longer than a century.
const fn micros(span: Span) -> i64 {
    const MOST: u64 = 1 << 52;
    let micros = span.as_micros();
    (if micros < MOST { micros } else { MOST }) as i64
}
