//! What the commands of one table share, and how the script is called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Value;
use tidegate_net::Changes;
use tidegate_store::{KeyPath, StoreError};

use crate::entered::Entered;
use crate::error::garbled;
use crate::keys::Names;
use crate::known::Known;
use crate::registry::Registry;
use crate::request::Request;
use crate::script::Needs;
use crate::shared::Shared;
use crate::wire::reply::{self, Answer};

/// So many commands.
const LIKELY: u32 = 64;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Names,
    pub(crate) registry: Registry,
    pub(crate) changes: Changes<Arc<Known>>,
    pub(crate) entered: Entered,
    /// So many more commands are asked by a script that knows of those who wait.
    pub(crate) lines: Likely,
    /// So many more are asked by the whole script.
    pub(crate) not_plain: Likely,
    /// So many more takes of a single bucket are asked as if it was not.
    pub(crate) not_single_bucket: Likely,
}

/// What was met once is likely to be met by the next commands, too.
#[derive(Debug, Default)]
pub(crate) struct Likely(AtomicU32);

impl Likely {
    pub(crate) fn fill(&self) {
        self.0.store(LIKELY, Ordering::Relaxed);
    }

    /// Whether it is likely to be met by this one.
    pub(crate) fn spend(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, fetch, less).is_ok()
    }
}

impl Inner {
    /// Calls the script until nothing is missing to it.
    pub(crate) async fn query(
        &self,
        known: &Known,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let (mut revisions, mut found) = (Vec::new(), BTreeSet::new());
        if self.lines.spend() {
            request.needs = request.needs.and(Needs::LINE);
        }
        loop {
            let value = self.call(known, request, &revisions).await?;
            match reply::read(value, &request.deciding, request.now)? {
                Answer::Revisions(more, now) => {
                    // Whoever else writes there meanwhile adds to them.
                    found.extend(more);
                    let (link, own) = (&self.shared.link, &known.registered);
                    revisions = self.registry.leading_to(link, &found, now, own).await?;
                }
                Answer::More(owners) => {
                    for owner in owners {
                        let path = KeyPath::stored(&owner, request.plan.levels());
                        let path = path.map_err(|_| garbled("a lease of no key"))?;
                        request.add_rows(&path, &self.names);
                    }
                }
                Answer::Queued => {
                    self.lines.fill();
                    request.needs = request.needs.and(Needs::LINE);
                }
                answer => return Ok(answer),
            }
        }
    }

    async fn call(
        &self,
        known: &Known,
        request: &Request,
        revisions: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        let needs = match revisions {
            [] => known.needs.and(request.needs),
            _ => Needs::ALL.and(request.needs),
        };
        let script = self.shared.scripts.get(needs);
        let arguments = request.arguments(known, revisions);
        let link = &self.shared.link;
        link.call(&script, &request.keys, &arguments).await
    }
}
