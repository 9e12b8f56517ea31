//! The revisions of a table's plan, kept beside the rows: whoever finds a row of
//! another revision learns there by what limits it was written.
//!
//! They may be lost while rows are not (`lua/register.lua`). So a process looks after its
//! own revision, and gives it back when it misses it. Meanwhile a row of a revision that
//! nobody knows is known by its number if it was written by the same limits. If not, it
//! counts as never seen, as if it had been lost itself, unless it was written since its
//! revision was first missed: then whoever wrote it is there, and nobody else decides
//! about it until it has told its revision again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tidegate_store::revisions::PlanChange;
use tidegate_store::{Plan, StoreError};
use tokio::time::Instant;

use crate::error::garbled;
use crate::link::Link;
use crate::options::Clock;
use crate::script::Scripts;
use crate::wire;

/// So many revisions are remembered here, and so many are followed one by one
/// after a row was left alone for as many changes of limits.
const MOST_KEPT: usize = 64;

/// So often a process that asks looks after its own revision. (A server that drops what
/// nobody looks at does not drop it then.)
const LOOK: Duration = Duration::from_secs(1);

/// Of a number, so much is of the plan's hash (`lua/register.lua`).
const ALIKE: i64 = 1 << 22;

/// Where a table's revisions are. See the [module](self).
#[derive(Debug)]
pub(crate) struct Registry {
    key: Vec<u8>,
    clock: Clock,
    known: Mutex<HashMap<i64, Arc<[u8]>>>,
    /// The newest numbers that were given.
    order: Mutex<BTreeSet<i64>>,
    /// Since which instant of the deciding clock these are missed.
    missed: Mutex<HashMap<i64, i64>>,
    /// When the own revision was last looked after.
    looked: Mutex<Instant>,
    /// When any process gave one back, as it was seen then.
    restored: Mutex<Option<Vec<u8>>>,
}

/// A revision that this process has written.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) number: i64,
    at: i64,
    levels: usize,
    kept: Arc<[u8]>,
    content: Arc<[u8]>,
}

impl Registered {
    /// What is kept of it, as the revision of `number`.
    fn entry(&self, number: i64) -> Arc<[u8]> {
        wire::plan::entry(&self.kept, number, self.at).into()
    }

    /// Whether it has the same limits as the revision of this number.
    fn is_like(&self, number: i64) -> bool {
        self.number % ALIKE == number % ALIKE
    }

    /// What can be said of a revision that is missed since an instant.
    fn stand_in(&self, number: i64, since: i64) -> Arc<[u8]> {
        if self.is_like(number) {
            return wire::plan::stand_in(&self.kept, number, self.at, wire::NEVER).into();
        }
        let nothing = wire::plan::lost(self.levels);
        wire::plan::stand_in(&nothing, number, self.at, since).into()
    }
}

impl Registry {
    pub(crate) fn new(key: Vec<u8>, clock: Clock) -> Self {
        Self {
            key,
            clock,
            known: Mutex::default(),
            order: Mutex::default(),
            missed: Mutex::default(),
            looked: Mutex::new(Instant::now()),
            restored: Mutex::default(),
        }
    }

    /// Makes `change` the newest revision.
    pub(crate) async fn add(
        &self,
        link: &Link,
        scripts: &Scripts,
        change: &PlanChange,
    ) -> Result<Registered, StoreError> {
        let at = match self.clock {
            Clock::Server => String::new(),
            Clock::Caller => wire::instant(change.adopted.at).to_string(),
        };
        let first = if change.is_first() { "1" } else { "0" };
        let kept: Arc<[u8]> = wire::plan::kept(&change.plan, &change.adopted.calendars).into();
        let content: Arc<[u8]> = wire::plan::content(&change.plan).into();
        let arguments = [
            Arc::clone(&kept),
            Arc::clone(&content),
            first.as_bytes().into(),
            at.into_bytes().into(),
        ];
        let keys = std::slice::from_ref(&self.key);
        let answer = link.call(&scripts.register, keys, &arguments).await?;
        let (number, at, order) = registered(&answer).ok_or_else(|| garbled("no revision"))?;
        self.note(order);
        Ok(Registered {
            number,
            at,
            levels: change.plan.levels(),
            kept,
            content,
        })
    }

    fn note(&self, numbers: &[u8]) {
        let mut order = self.order.lock();
        let numbers = numbers.as_chunks().0.iter();
        order.extend(numbers.map(|bytes| i64::from_be_bytes(*bytes)));
        while order.len() > 2 * MOST_KEPT {
            order.pop_first();
        }
    }

    /// The plan of the newest revision, if there is any.
    pub(crate) async fn newest(&self, link: &Link) -> Result<Option<Plan>, StoreError> {
        let mut command = redis::cmd("HGET");
        let newest = link.query(command.arg(&self.key).arg("newest")).await?;
        let Value::BulkString(number) = newest else {
            return Ok(None);
        };
        let mut command = redis::cmd("HGET");
        let Value::BulkString(bytes) = link.query(command.arg(&self.key).arg(number)).await? else {
            // Lost between the two.
            return Ok(None);
        };
        wire::plan::read(&bytes).map(Some).map_err(garbled)
    }

    /// What is to be known where rows of the revisions `found` are at the instant `now`
    /// of the deciding clock: these, and every one that led from the oldest of them to
    /// `own`, in order; and what stands in for those that are lost.
    pub(crate) async fn leading_to(
        &self,
        link: &Link,
        found: &BTreeSet<i64>,
        now: i64,
        own: &Registered,
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let wanted = self.wanted(found, own.number);
        let entries = self.entries(link, &wanted, own).await?;
        let mut missed = self.missed.lock();
        if missed.len() > MOST_KEPT {
            missed.clear();
        }
        missed.retain(|number, _| !entries.contains_key(number));
        let lost = found.iter().filter(|number| !entries.contains_key(number));
        let stand_in = |number: &i64| own.stand_in(*number, *missed.entry(*number).or_insert(now));
        let mut revisions: Vec<_> = lost.map(stand_in).collect();
        let there = wanted.iter().filter_map(|number| entries.get(number));
        revisions.extend(there.cloned());
        Ok(revisions)
    }

    fn wanted(&self, found: &BTreeSet<i64>, own: i64) -> BTreeSet<i64> {
        let mut wanted = found.clone();
        let oldest = wanted.first().copied().filter(|&oldest| oldest < own);
        if let Some(oldest) = oldest {
            let order = self.order.lock();
            let led = order.range(oldest..own).rev().take(MOST_KEPT);
            wanted.extend(led);
            wanted.insert(own);
        }
        wanted
    }

    /// What is known of the `wanted`, here or on the server.
    async fn entries(
        &self,
        link: &Link,
        wanted: &BTreeSet<i64>,
        own: &Registered,
    ) -> Result<HashMap<i64, Arc<[u8]>>, StoreError> {
        let mut entries = self.known_of(wanted);
        entries.insert(own.number, own.entry(own.number));
        let missing = wanted.iter().filter(|number| !entries.contains_key(number));
        let missing: Vec<i64> = missing.copied().collect();
        if missing.is_empty() {
            return Ok(entries);
        }
        let mut command = redis::cmd("HMGET");
        let Value::Array(found) = link.query(command.arg(&self.key).arg(&missing)).await? else {
            return Err(garbled("no revisions"));
        };
        let mut known = self.known.lock();
        for (number, bytes) in missing.into_iter().zip(found) {
            if let Value::BulkString(bytes) = bytes {
                let bytes: Arc<[u8]> = bytes.into();
                known.insert(number, Arc::clone(&bytes));
                entries.insert(number, bytes);
            }
        }
        Ok(entries)
    }

    fn known_of(&self, wanted: &BTreeSet<i64>) -> HashMap<i64, Arc<[u8]>> {
        let mut known = self.known.lock();
        if known.len() > MOST_KEPT {
            known.retain(|number, _| wanted.contains(number));
        }
        let entry = |number: &i64| Some((*number, Arc::clone(known.get(number)?)));
        wanted.iter().filter_map(entry).collect()
    }

    /// Whether the own revision is to be looked after again.
    pub(crate) fn is_time_to_look(&self) -> bool {
        let (now, mut looked) = (Instant::now(), self.looked.lock());
        let is_time = now.duration_since(*looked) >= LOOK;
        if is_time {
            *looked = now;
        }
        is_time
    }

    /// Gives `own` back if the plans have lost it: whoever finds its rows shall know of
    /// it. What fails is tried again the next time. Answers whether they were lost since, by this
    /// look or by that of another process that was quicker.
    pub(crate) async fn look_after(
        &self,
        link: &Link,
        scripts: &Scripts,
        own: &Registered,
    ) -> bool {
        let mut command = redis::cmd("HEXISTS");
        let is_there = link.query(command.arg(&self.key).arg(own.number)).await;
        if is_there != Ok(Value::Int(0)) {
            return self.were_restored(link).await;
        }
        let arguments = [
            own.number.to_string().into_bytes().into(),
            own.entry(own.number),
            Arc::clone(&own.content),
        ];
        let keys = std::slice::from_ref(&self.key);
        let _ = link.call(&scripts.restore, keys, &arguments).await;
        true
    }

    /// Whether a process has given its revision back since this was asked last.
    async fn were_restored(&self, link: &Link) -> bool {
        let mut command = redis::cmd("HGET");
        let restored = link.query(command.arg(&self.key).arg("restored")).await;
        let Ok(Value::BulkString(restored)) = restored else {
            return false;
        };
        let mut known = self.restored.lock();
        let is_new = known.as_ref() != Some(&restored);
        *known = Some(restored);
        is_new
    }
}

/// Its number, its instant, and the numbers that led to it.
fn registered(answer: &Value) -> Option<(i64, i64, &[u8])> {
    let Value::Array(parts) = answer else {
        return None;
    };
    match &parts[..] {
        [Value::Int(number), Value::Int(at), Value::BulkString(order)] => {
            Some((*number, *at, order))
        }
        _ => None,
    }
}
