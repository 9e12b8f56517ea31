//! What a decision means for the line, and the line for a decision.

use mysql_async::Conn;
use tidegate_net::waiting::{Outcome, takes_anew};
use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{Reply, StoreError};

use crate::error::Trouble;
use crate::names;
use crate::sql::Place;
use crate::turns::Turn;

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

    /// Whether it takes what others wait for.
    pub(crate) fn is_overtaking(&self, reply: &Reply) -> bool {
        !self.kept_at.is_empty() && takes_anew(reply)
    }

    /// Stands in line, stays there, or leaves it, as the reply says; whether anything
    /// was written.
    pub(crate) async fn move_in_line(
        &mut self,
        conn: &mut Conn,
        place: Place<'_>,
        reply: &Reply,
    ) -> Result<bool, Trouble> {
        let (Some(turn), Some(decision)) = (&self.turn, reply.full_decision()) else {
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
                names.push(names::name(&row));
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
            Some(reply) => Outcome::of(reply, !self.kept_at.is_empty()),
        }
    }
}
