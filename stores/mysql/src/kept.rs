//! What a decision means for the line, and the line for a decision.

use mysql_async::Conn;
use tidegate_store::core::{Span, Timestamp, Verdict};
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{Detail, Reply, StoreError};

use crate::error::Trouble;
use crate::names;
use crate::sql::Place;
use crate::turns::Turn;

/// What a try came to.
pub(crate) enum Outcome {
    Reply(Result<Reply, StoreError>),
    /// Somebody ahead in line waits for the same: its limits refused it with this, or
    /// would have admitted it.
    Kept(Option<Reply>),
    /// There was more to do than is done at once.
    Again,
}

/// A command that was decided, but for the line.
pub(crate) struct Decided<'a> {
    request: &'a OwnedKeyCommand,
    turn: Option<&'a mut Turn>,
    /// The server's clock.
    now: Timestamp,
    /// The rows for which others wait, who are first.
    kept_at: Vec<Vec<u8>>,
}

impl<'a> Decided<'a> {
    pub(crate) fn of(
        request: &'a OwnedKeyCommand,
        turn: Option<&'a mut Turn>,
        (now, kept_at): (Timestamp, Vec<Vec<u8>>),
    ) -> Self {
        Self {
            request,
            turn,
            now,
            kept_at,
        }
    }

    /// Whether it takes what others wait for. (A lease that was given before is only
    /// told of again.)
    pub(crate) fn is_overtaking(&self, reply: &Reply) -> bool {
        let Reply::Decision(decision) = reply else {
            return false;
        };
        let repeated = decision.lease.is_some_and(|lease| lease.repeated);
        !self.kept_at.is_empty() && decision.verdict.admitted() && !repeated
    }

    /// Stands in line, stays there, or leaves it, as the reply says; whether anything
    /// was written.
    pub(crate) async fn move_in_line(
        &mut self,
        conn: &mut Conn,
        place: Place<'_>,
        reply: &Reply,
    ) -> Result<bool, Trouble> {
        let (Some(turn), Reply::Decision(decision)) = (&self.turn, reply) else {
            return Ok(false);
        };
        if let Verdict::NotUntil(_) = decision.verdict {
            return self.stand(conn, place, decision.refused_levels).await;
        }
        turn.leave(conn, place).await?;
        Ok(turn.stands())
    }

    /// Stands in line for the rows of these levels, and those at which others are
    /// first; whether that was news.
    pub(crate) async fn stand(
        &mut self,
        conn: &mut Conn,
        place: Place<'_>,
        refused_levels: u8,
    ) -> Result<bool, Trouble> {
        let Some(turn) = &mut self.turn else {
            return Ok(false);
        };
        let mut names = self.kept_at.clone();
        for level in 0..8 {
            if refused_levels >> level & 1 == 1
                && let Some(row) = self.request.row_at(level)?
            {
                names.push(names::name(row));
            }
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() || !turn.is_news(&names) {
            return Ok(false);
        }
        turn.stand(conn, place, (self.now, names)).await?;
        Ok(true)
    }

    /// What it came to.
    pub(crate) fn outcome(self, reply: Option<Result<Reply, StoreError>>) -> Outcome {
        match reply {
            None => Outcome::Again,
            Some(Ok(reply)) if is_refusal(&reply) && !self.kept_at.is_empty() => {
                Outcome::Kept(Some(reply))
            }
            Some(reply) => Outcome::Reply(reply),
        }
    }
}

fn is_refusal(reply: &Reply) -> bool {
    match reply {
        Reply::Decision(decision) => matches!(decision.verdict, Verdict::NotUntil(_)),
        _ => false,
    }
}

/// The answer to a take that others keep back, made from a look at its limits as of
/// `now`.
pub(crate) fn back(looked: Reply, now: Timestamp, detail: Detail) -> Reply {
    let Reply::Decision(mut decision) = looked else {
        return looked;
    };
    if decision.verdict.admitted() {
        decision.verdict = Verdict::NotUntil(now + Span::from_micros(1));
        decision.binding = None;
    }
    if detail == Detail::Verdict {
        decision.standings.clear();
    }
    Reply::Decision(decision)
}
