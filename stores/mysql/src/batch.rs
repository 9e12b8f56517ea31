//! A batch of one root: its takes, debits and looks are decided over one load and one write, as
//! [`Together`] says, at one instant. What is about leases, and what meets those who wait, is
//! executed by itself, in its order.

use std::sync::Arc;

use tidegate_net::DecidesTogether;
use tidegate_store::optimistic::{
    BatchProgress, Decided, LoadRequest, OwnedKeyCommand, Together, WriteSet,
};
use tidegate_store::{Answer, StoreError};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::connection::Lent;
use crate::error::Trouble;
use crate::inner::Inner;
use crate::turns::Ahead;

/// So many commands, and rows, are one step at most: meanwhile the root's row is locked.
const MOST_AT_ONCE: usize = 256;

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
        let (mut backoff, begun) = (Backoff::default(), Instant::now());
        let _share = self.share(first.root()?).await?;
        loop {
            match self.attempt_together(requests, progress).await {
                Ok(Some(answers)) => {
                    self.prune_in_turn();
                    return Ok(answers);
                }
                Ok(None) => {}
                Err(trouble) => self.wait_again(trouble, begun, &mut backoff).await?,
            }
        }
    }

    async fn execute_alone(self: &Arc<Self>, request: &OwnedKeyCommand) -> Answer {
        let told = Arc::clone(self).try_until_told(request.clone(), None).await;
        told.map(|(reply, _)| reply)
    }
}

impl Inner {
    /// One try, on a connection of its own; `None`: once more.
    async fn attempt_together(
        self: &Arc<Self>,
        requests: &[OwnedKeyCommand],
        progress: &mut BatchProgress,
    ) -> Result<Option<Vec<Answer>>, Trouble> {
        let Some(first) = requests.first() else {
            return Ok(Some(Vec::new()));
        };
        let revision = self.revision_of(&first.plan).await?;
        let requests = &requests[..requests.len().min(MOST_AT_ONCE)];
        let together = Together::of(requests, revision, self.shared.clock, MOST_AT_ONCE)?;
        let Some(together) = together else {
            return Ok(Some(Vec::new()));
        };
        let wanted = padded(together.wanted());
        let mut lent = self.shared.pool.lend().await?;
        let how = (true, Some(Ahead::ALL));
        let loaded = match self.load(&mut lent, first, &wanted, how).await {
            Ok(loaded) => loaded,
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        };
        if !loaded.kept_at.is_empty() {
            progress.meet_line();
            self.end(lent);
            return Ok(Some(Vec::new()));
        }
        let mut found = loaded.found;
        found.now = progress.instant(found.now);
        let at = found.now;
        match together.decide(found, &self.known.all()) {
            Decided::Revisions(numbers) => {
                if let Err(trouble) = self.learn(&mut lent, &numbers).await {
                    return Err(self.give_up(lent, trouble).await);
                }
                self.end(lent);
                Ok(None)
            }
            Decided::Answers(answers, write_set) => {
                self.write_together(lent, write_set).await?;
                progress.decided(at);
                Ok(Some(answers))
            }
        }
    }

    async fn write_together(&self, lent: Lent, set: Option<WriteSet>) -> Result<(), Trouble> {
        match set {
            Some(set) => self.swap(lent, set).await,
            None => {
                self.end(lent);
                Ok(())
            }
        }
    }
}

/// Rows in a number that is one more than a power of two, so that loads have few shapes: the last
/// is asked for again. What is found of it comes behind what is wanted.
fn padded(wanted: &LoadRequest) -> LoadRequest {
    let mut padded = wanted.clone();
    if let Some(last) = wanted.rows.last().filter(|_| wanted.rows.len() > 2) {
        let others = wanted.rows.len() - 1;
        padded
            .rows
            .resize(others.next_power_of_two() + 1, last.clone());
    }
    padded
}
