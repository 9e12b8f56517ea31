//! What a decision means for the line, and the line for a decision.

use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;
use tidegate_net::waiting::{Outcome, takes_anew};
use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::key::MAX_LEVELS;
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{Reply, StoreError};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::keys::{self, Key};
use crate::trips::RootPlace;
use crate::turns::{Turn, Waiters};

/// What is written of the line, beside all else.
pub(crate) enum InLineWrite {
    Nothing,
    Stand(HashMap<String, AttributeValue>),
    Leave(Key),
}

/// A command that was decided, but for the line.
pub(crate) struct Decided<'a> {
    request: &'a OwnedKeyCommand,
    turn: Option<&'a mut Turn>,
    /// The turn as it was before.
    before: Option<Turn>,
    now: Timestamp,
    /// Who waits at the root, if anybody may.
    waiters: Option<Waiters>,
    /// The rows for which others wait, who are first.
    kept_at: Vec<Vec<u8>>,
}

impl<'a> Decided<'a> {
    pub(crate) fn of(
        request: &'a OwnedKeyCommand,
        turn: Option<&'a mut Turn>,
        (now, waiters): (Timestamp, Option<Waiters>),
    ) -> Result<Self, Trouble> {
        let mut names = Vec::new();
        for level in 0..MAX_LEVELS {
            names.extend(request.row_at(level)?.map(|row| keys::name(&row)));
        }
        let ahead = |waiters: &Waiters| waiters.ahead(turn.as_deref(), now, &names);
        let kept_at = waiters.as_ref().map(ahead).unwrap_or_default();
        Ok(Self {
            request,
            before: turn.as_deref().cloned(),
            turn,
            now,
            waiters,
            kept_at,
        })
    }

    /// Whether it takes what others wait for.
    pub(crate) fn is_overtaking(&self, reply: &Reply) -> bool {
        !self.kept_at.is_empty() && takes_anew(reply)
    }

    /// Whether anybody may wait at the root after this. Nobody has looked who does not take.
    pub(crate) fn leaves_waiters(&self, had: bool, own: &InLineWrite) -> bool {
        let turn = self.turn.as_deref();
        let stands = match own {
            InLineWrite::Nothing => turn.is_some_and(Turn::stands),
            InLineWrite::Stand(_) => true,
            InLineWrite::Leave(_) => false,
        };
        stands
            || match &self.waiters {
                Some(waiters) => waiters.has_others(turn),
                None => had,
            }
    }

    /// Stands in line, stays there, or leaves it, as the reply says.
    pub(crate) fn move_in_line(
        &mut self,
        place: &RootPlace,
        reply: &Reply,
    ) -> Result<InLineWrite, Trouble> {
        let (Some(turn), Some(decision)) = (&self.turn, reply.full_decision()) else {
            return Ok(InLineWrite::Nothing);
        };
        if let Verdict::NotUntil(_) = decision.verdict {
            return self.stand(place, decision.refused_levels);
        }
        Ok(turn
            .key(place)
            .map_or(InLineWrite::Nothing, InLineWrite::Leave))
    }

    /// Stands in line for the rows of these levels, and those at which others are first.
    pub(crate) fn stand(
        &mut self,
        place: &RootPlace,
        refused_levels: u8,
    ) -> Result<InLineWrite, Trouble> {
        let Some(turn) = &mut self.turn else {
            return Ok(InLineWrite::Nothing);
        };
        let mut names = self.kept_at.clone();
        for level in 0..MAX_LEVELS {
            if refused_levels >> level & 1 == 1
                && let Some(row) = self.request.row_at(level)?
            {
                names.push(keys::name(&row));
            }
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() || !turn.is_news(&names) {
            return Ok(InLineWrite::Nothing);
        }
        Ok(InLineWrite::Stand(turn.place(place, self.now, names)))
    }

    /// Says that it still waits, if it does and it is time.
    pub(crate) async fn beat(&mut self, table: &Inner, place: &RootPlace) -> Result<(), Trouble> {
        match &mut self.turn {
            Some(turn) => turn.beat(table, place).await,
            None => Ok(()),
        }
    }

    /// What was to be written of the line was not.
    pub(crate) fn undo(&mut self) {
        if let (Some(turn), Some(before)) = (&mut self.turn, &self.before) {
            **turn = before.clone();
        }
    }

    /// What it came to.
    pub(crate) fn outcome(
        self,
        reply: Option<Result<Reply, StoreError>>,
        is_kept: bool,
    ) -> Outcome {
        match reply {
            None if is_kept => Outcome::Kept(None),
            None => Outcome::Again,
            Some(reply) => Outcome::of(reply, !self.kept_at.is_empty()),
        }
    }
}
