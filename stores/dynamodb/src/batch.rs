//! A batch of one root: its takes, debits and looks are decided over one load and one write, as
//! [`Together`] says, at one instant. What is about leases, and what meets those who wait, is
//! executed by itself, in its order.

use std::sync::Arc;

use tidegate_net::DecidesTogether;
use tidegate_net::waiting::Outcome;
use tidegate_store::core::Rule;
use tidegate_store::optimistic::{BatchProgress, OwnedKeyCommand, Together};
use tidegate_store::{Answer, PlanLimit, StoreError, optimistic};

use crate::attempt::{Having, ROOM};
use crate::error::Trouble;
use crate::inner::Inner;
use crate::kept::Decided;

/// So many rows of up to 400 KB each, with their root's, are one transaction at most: DynamoDB takes
/// 4 MB in one.
const ROOM_FOR_LARGE: usize = 9;

/// Whether a row may be large by this limit.
fn is_large(limit: &PlanLimit) -> bool {
    matches!(limit.rule, Rule::Log(_))
}

impl DecidesTogether for Inner {
    type Request = OwnedKeyCommand;

    async fn try_together(
        self: &Arc<Self>,
        requests: &[OwnedKeyCommand],
        progress: &mut BatchProgress,
    ) -> Result<Vec<Answer>, StoreError> {
        let Some(first) = requests.first() else {
            return Ok(Vec::new());
        };
        self.changes
            .follow(&first.plan, first.now, &first.calendars)?;
        let mut alone = self.alone(first.root()?).await?;
        let mut having = Having::of(alone.take());
        let mut backoff = self.shared.connection.backoff();
        let answer = loop {
            match self.attempt_together(requests, progress, &mut having).await {
                Ok(Some(answers)) => break Ok(answers),
                Ok(None) => {}
                Err(trouble) => {
                    having.forget();
                    if let Err(error) = backoff.after(trouble).await {
                        break Err(error);
                    }
                }
            }
        };
        *alone = having.kept();
        answer
    }

    async fn execute_alone(self: &Arc<Self>, request: &OwnedKeyCommand) -> Answer {
        let told = Arc::clone(self).try_until_told(request.clone(), None).await;
        told.map(|(reply, _)| reply)
    }
}

impl Inner {
    /// One try; `None`: once more.
    async fn attempt_together(
        self: &Arc<Self>,
        requests: &[OwnedKeyCommand],
        progress: &mut BatchProgress,
        having: &mut Having,
    ) -> Result<Option<Vec<Answer>>, Trouble> {
        let alone = Ok(Some(Vec::new()));
        let Some(first) = requests.first() else {
            return alone;
        };
        let revision = self.revision_of(&first.plan).await?;
        let clock = self.shared.options.clock;
        let room = match first.plan.limits().iter().any(is_large) {
            true => ROOM_FOR_LARGE,
            false => ROOM,
        };
        let Some(together) = Together::of(requests, revision, clock, room)? else {
            return alone;
        };
        let wanted = together.wanted();
        let mut seen = self.see(first, wanted, having).await?;
        let tells_due = having.tells_due();
        let mut found = self.first(first, wanted, &mut seen, tells_due).await?;
        if seen.has_waiters() {
            progress.meet_line();
            having.forget();
            return alone;
        }
        found.now = progress.instant(found.now);
        let at = found.now;
        let (answers, write_set) = match together.decide(found, &self.revisions.all()) {
            optimistic::Decided::Revisions(numbers) => {
                self.learn(&numbers).await?;
                having.forget();
                return Ok(None);
            }
            optimistic::Decided::Answers(answers, write_set) => (answers, write_set),
        };
        let mut answered = requests.iter().zip(&answers);
        if !tells_due && answered.any(|(request, answer)| seen.lacks_due(request, Some(answer))) {
            having.look_for_due();
            return Ok(None);
        }
        let Some(last) = answers.last().cloned() else {
            having.forget();
            return alone;
        };
        // Nobody waits, and none of these would.
        let decided = Decided::of(first, None, (self.shared.clock.now(), None))?;
        let concluded = self.conclude(decided, (write_set, Some(last)), seen, having);
        match concluded.await? {
            Outcome::Again => Ok(None),
            Outcome::Reply(_) | Outcome::Kept(_) => {
                progress.decided(at);
                Ok(Some(answers))
            }
        }
    }
}
