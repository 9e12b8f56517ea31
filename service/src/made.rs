//! What became of a change of a definition, where its answer may have got lost.

use tidegate_store::definitions::event_cursor;
use tidegate_store::{Change, Defined, Definition, StoreError};

use super::error::ServiceError;
use super::service::Service;

impl Service {
    /// The answer to `change`, which expects a version; one that got lost is asked for once more.
    /// If the change was made already, what is there is what was to be there; of a removal, its
    /// event is.
    ///
    /// # Errors
    /// A store that cannot tell.
    pub(super) async fn made(
        &self,
        owner: &str,
        answer: Result<Defined, StoreError>,
        change: &Change,
    ) -> Result<Defined, ServiceError> {
        let lost = match answer {
            Err(StoreError::Unavailable(_)) => self.tell(owner, change.clone()).await,
            answer => return Ok(answer?),
        };
        let there = match lost? {
            Defined::Conflict(there) => there,
            made @ Defined::Done { .. } => return Ok(made),
        };
        let version = match &change.definition.value {
            Some(_) => {
                let own = |there: &&Definition| there.value == change.definition.value;
                there.as_ref().filter(own).map(|there| there.version)
            }
            None => self.removed(owner, change).await?,
        };
        Ok(match version {
            None => Defined::Conflict(there),
            Some(version) => Defined::Done {
                changed: true,
                version,
            },
        })
    }

    /// At which version the removal was made, if it was: its event is the first of this place
    /// behind the version that it expected. That nothing is there may be another's doing.
    async fn removed(&self, owner: &str, change: &Change) -> Result<Option<u64>, ServiceError> {
        let Some(own) = &change.event else {
            return Ok(None);
        };
        let mut after = event_cursor(change.expected.unwrap_or(0));
        loop {
            let page = self.events(owner, Some(&own.subject), Some(&after), 1);
            let page = page.await?;
            if let Some(first) = page.items.first() {
                return Ok((own.body == first.body).then_some(first.version));
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(None),
            }
        }
    }
}
