//! A command's tries: each decides by what is known of its root, and writes on that version, as
//! the loop of [`tidegate_store::optimistic`] says, with an eye for those who wait.
//!
//! What was known from before is good enough to write by: the write says whether it still holds,
//! and brings the newer row if not. It is not good enough to refuse by, since nothing is written
//! then: what is refused has been read since the command came.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_net::waiting::{Outcome, kept_back};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::optimistic::{
    Attempt, Clock, DueRange, LoadReply, LoadRequest, OwnedKeyCommand, Step, UsageWrite, WriteSet,
};
use tidegate_store::{Reply, StoreError};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::error::Trouble;
use crate::inner::Inner;
use crate::item::{LeaseItem, RootItem, UsedMore, Version, bytes, ends, item, number};
use crate::kept::{Decided, InLineWrite};
use crate::keys;
use crate::known::LARGEST;
use crate::sight::{Sight, hash_of};
use crate::trips::{self, RootPlace, Write, Writes, Written, stored};
use crate::turns::Turn;

/// What is due within this time is looked at: a decision may be of an instant that is so much
/// later than this process's clock, where another's wrote the root.
const AHEAD: Span = Span::from_secs(15);

/// Of a lease that gives something back when it expires, nothing is forgotten before its debts
/// have drained, which takes this long at most.
const LONGEST_DEBT: Span = Span::from_secs(1_700 * 86_400);

/// A root's row says that somebody waits for as long, at least.
const LONGEST_WAIT: Span = Span::from_secs(86_400);

/// So many items one step may change, with a place in line.
pub(crate) const ROOM: usize = trips::MOST_ITEMS - 2;

/// What a command has of its root.
pub(crate) struct Having {
    sight: Option<Sight>,
    /// Whether that was read since the command came.
    is_new: bool,
    /// A refusal says when the next lease is due: that is to be read, however far it is.
    tells_due: bool,
}

impl Having {
    /// Has what was known before the command came.
    pub(crate) const fn of(sight: Option<Sight>) -> Self {
        Self {
            sight,
            is_new: false,
            tells_due: false,
        }
    }

    /// What is known after it.
    pub(crate) fn kept(self) -> Option<Sight> {
        self.sight.and_then(|sight| sight.within(LARGEST))
    }

    /// Whether the next lease that is due is read in any case.
    pub(crate) const fn tells_due(&self) -> bool {
        self.tells_due
    }

    /// Has nothing from here on, and reads the next lease that is due in any case.
    pub(crate) fn look_for_due(&mut self) {
        self.forget();
        self.tells_due = true;
    }

    /// Has this from here on.
    fn set(&mut self, sight: Option<Sight>, is_new: bool) {
        (self.sight, self.is_new) = (sight, is_new);
    }

    /// Has nothing from here on.
    pub(crate) fn forget(&mut self) {
        self.set(None, false);
    }
}

/// One try, as far as it has come.
pub(crate) struct Seen {
    place: RootPlace,
    sight: Sight,
    is_new: bool,
    /// The lease of a take, and what its idempotency key leads to, were taken not to be there.
    assumes: bool,
    /// Something was read after the root's row.
    looked_later: bool,
    /// Leases that were met, by their ids.
    met: BTreeMap<u128, LeaseItem>,
    /// Those that are due next, as far as they were read, and whether these are all.
    due: Option<(Vec<LeaseItem>, bool)>,
    now: Timestamp,
}

impl Inner {
    /// Executes a command, one that may wait at its turn; and whether others in line are first.
    pub(crate) async fn try_until_told(
        self: Arc<Self>,
        request: OwnedKeyCommand,
        mut turn: Option<&mut Turn>,
    ) -> Result<(Reply, bool), StoreError> {
        self.changes
            .follow(&request.plan, request.now, &request.calendars)?;
        let mut alone = self.alone(request.root()?).await?;
        let mut having = Having::of(alone.take());
        let mut backoff = self.shared.connection.backoff();
        let answer = loop {
            let turn = turn.as_deref_mut();
            match self.attempt(&request, turn, &mut having).await {
                Ok(Outcome::Reply(reply)) => break reply.map(|reply| (reply, false)),
                Ok(Outcome::Kept(Some(reply))) => break Ok((reply, true)),
                Ok(Outcome::Kept(None)) => {
                    let refusal = self.refusal(&request, &mut having).await;
                    break refusal.map(|reply| (reply, true));
                }
                Ok(Outcome::Again) => {}
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

    /// The turn of a command among those of this process about `root`, with what is known of it.
    pub(crate) async fn alone(
        &self,
        root: &[u8],
    ) -> Result<OwnedMutexGuard<Option<Sight>>, StoreError> {
        let place = self.known.place(root);
        let patience = self.shared.driver.deadline() / 2;
        let alone = timeout(patience, place.lock_owned()).await;
        alone.map_err(|_| {
            StoreError::Busy("other commands for the same key are not answered in time".to_owned())
        })
    }

    /// One try.
    async fn attempt(
        self: &Arc<Self>,
        request: &OwnedKeyCommand,
        mut turn: Option<&mut Turn>,
        having: &mut Having,
    ) -> Result<Outcome, Trouble> {
        let revision = self.revision_of(&request.plan).await?;
        let known = self.revisions.all();
        let clock = self.shared.options.clock;
        let mut attempt = Attempt::new(request, revision, known, clock).with_room(ROOM);
        let wanted = attempt.begin()?;
        let mut seen = self.see(request, &wanted, having).await?;
        let found = self
            .first(request, &wanted, &mut seen, having.tells_due)
            .await?;
        let waiters = match seen.has_waiters() && request.is_take() {
            true => Some(self.waiters(&seen.place).await?),
            false => None,
        };
        if let Some(turn) = &mut turn {
            turn.found(waiters.as_ref());
        }
        let mut step = attempt.found(found);
        let (write_set, reply) = loop {
            step = match step {
                Step::Done(reply) => break (None, Some(reply)),
                Step::Write(write_set, reply) => break (Some(write_set), reply),
                Step::Load(wanted) => attempt.found(self.more(&wanted, &mut seen).await?),
                Step::Revisions(numbers) => {
                    self.learn(&numbers).await?;
                    attempt.learned(self.revisions.all())
                }
            };
        };
        if !having.tells_due && seen.lacks_due(request, reply.as_ref()) {
            having.look_for_due();
            return Ok(Outcome::Again);
        }
        let decided = Decided::of(request, turn, (self.shared.clock.now(), waiters))?;
        self.conclude(decided, (write_set, reply), seen, having)
            .await
    }

    /// What is known of the root, or else read of it.
    pub(crate) async fn see(
        &self,
        request: &OwnedKeyCommand,
        wanted: &LoadRequest,
        having: &mut Having,
    ) -> Result<Seen, Trouble> {
        let place = RootPlace::new(&self.set, request.root()?);
        let now = self.shared.clock.now();
        let mut known = having.sight.take();
        let shows = |sight: &mut Sight| sight.shows(wanted, request.is_take());
        let enough = known.take_if(shows);
        let seen = |sight, is_new, assumes| Seen {
            place,
            sight,
            is_new,
            assumes,
            looked_later: false,
            met: BTreeMap::new(),
            due: None,
            now,
        };
        let is_lease = !wanted.ids.is_empty() || wanted.idempotency_key.is_some();
        if let Some(sight) = enough {
            return Ok(seen(sight, having.is_new, request.is_take() && is_lease));
        }
        let place = RootPlace::new(&self.set, request.root()?);
        let loaded = self
            .shared
            .connection
            .load(&place, wanted, || self.shared.clock.now());
        let loaded = loaded.await?;
        let mut seen = seen(loaded.sight.and(known), true, false);
        seen.now = self.shared.clock.now();
        if let Some(id) = loaded.leads_to {
            let key = seen.place.at(keys::lease(id));
            let found = self.shared.connection.get(&key).await?;
            seen.sight.leases.insert(id, trips::lease(found, seen.now)?);
            seen.looked_later = true;
        }
        Ok(seen)
    }

    /// The first answer to the loop.
    pub(crate) async fn first(
        &self,
        request: &OwnedKeyCommand,
        wanted: &LoadRequest,
        seen: &mut Seen,
        tells_due: bool,
    ) -> Result<LoadReply, Trouble> {
        if self.shared.options.clock == Clock::Server {
            seen.sight.root = seen
                .sight
                .root
                .take()
                .map(|root| root.without_spent(seen.now));
        }
        let root = seen.sight.root.as_ref();
        let written_at = root.map_or(Timestamp::MIN, |root| root.head.written_at);
        if written_at.since(seen.now) <= Span::from_secs(10) {
            seen.now = seen.now.max(written_at);
        }
        let (version, due) = (seen.sight.version(), root.and_then(|root| root.due));
        let mut rows = vec![root.and_then(|root| root.body.clone())];
        for key in &wanted.rows[1..] {
            rows.push(seen.sight.rows.get(key).cloned().flatten());
        }
        let wanted_leases = seen.sight.leases.iter();
        let leads = hash_of(wanted);
        let is_wanted = |id: &u128, lease: &LeaseItem| {
            wanted.ids.contains(id) || (leads.is_some() && lease.asked == leads)
        };
        let mut leases: Vec<LeaseItem> = wanted_leases
            .filter_map(|(id, lease)| lease.as_ref().filter(|lease| is_wanted(id, lease)))
            .cloned()
            .collect();
        if wanted.all_leases && due.is_some() {
            leases.extend(
                self.shared
                    .connection
                    .all_leases(&seen.place, seen.now)
                    .await?,
            );
            seen.looked_later = true;
        }
        let horizon = match self.shared.options.clock {
            Clock::Server => seen.now + AHEAD,
            Clock::Caller => request.now,
        };
        let due = match (wanted.due, due) {
            (Some(range), Some(due)) if tells_due || due <= horizon => {
                self.due(range, seen).await?
            }
            _ => Vec::new(),
        };
        seen.meet(&leases);
        Ok(LoadReply {
            now: seen.now,
            version: version.map(Version::number),
            rows,
            leases: leases.iter().map(stored).collect(),
            due: due.iter().map(stored).collect(),
        })
    }

    /// What the loop wants later.
    async fn more(&self, wanted: &LoadRequest, seen: &mut Seen) -> Result<LoadReply, Trouble> {
        seen.looked_later = true;
        let connection = &self.shared.connection;
        let rows = wanted.rows.iter().map(|key| seen.place.row(key));
        let leases = wanted.ids.iter().map(|&id| seen.place.at(keys::lease(id)));
        let all: Vec<_> = rows.chain(leases).collect();
        let mut found = connection.load_more(&seen.place, &all).await?.into_iter();
        let mut reply = LoadReply {
            now: seen.now,
            ..LoadReply::default()
        };
        for _ in &wanted.rows {
            let row = found.next().flatten();
            reply.rows.push(trips::row(row, seen.now)?);
        }
        let leases: Result<Vec<_>, _> = found.map(|item| trips::lease(item, seen.now)).collect();
        let mut leases: Vec<_> = leases?.into_iter().flatten().collect();
        if wanted.all_leases {
            leases.extend(connection.all_leases(&seen.place, seen.now).await?);
        }
        if let Some(range) = wanted.due {
            let due = self.due(range, seen).await?;
            reply.due = due.iter().map(stored).collect();
        }
        seen.meet(&leases);
        reply.leases = leases.iter().map(stored).collect();
        Ok(reply)
    }

    async fn due(&self, range: DueRange, seen: &mut Seen) -> Result<Vec<LeaseItem>, Trouble> {
        let found = self
            .shared
            .connection
            .due(&seen.place, range, seen.now)
            .await?;
        seen.looked_later = true;
        seen.meet(&found);
        let (all, is_all) = seen.due.get_or_insert_default();
        all.extend(found.iter().cloned());
        *is_all = found.len() < range.most;
        Ok(found)
    }

    /// Writes what is to be written, in line, too; or answers what was read.
    pub(crate) async fn conclude(
        &self,
        mut decided: Decided<'_>,
        (write_set, reply): (Option<WriteSet>, Option<Result<Reply, StoreError>>),
        seen: Seen,
        having: &mut Having,
    ) -> Result<Outcome, Trouble> {
        let is_kept = matches!(&reply, Some(Ok(reply)) if decided.is_overtaking(reply));
        let (write_set, reply) = match is_kept {
            true => (None, None),
            false => (write_set, reply),
        };
        let in_line = match &reply {
            Some(Ok(reply)) => decided.move_in_line(&seen.place, reply)?,
            None if is_kept => decided.stand(&seen.place, 0)?,
            _ => InLineWrite::Nothing,
        };
        let writes_nothing = write_set.is_none() && matches!(in_line, InLineWrite::Nothing);
        if writes_nothing {
            if !self.is_sure(&seen, having).await? {
                return Ok(Outcome::Again);
            }
            let place = RootPlace::new(&self.set, &seen.place.root);
            having.set(Some(seen.sight), seen.is_new);
            decided.beat(self, &place).await?;
            return Ok(decided.outcome(reply, is_kept));
        }
        let is_guarded = |set: &WriteSet| set.leases.iter().any(|lease| seen.is_new_lease(lease));
        if seen.assumes && !write_set.as_ref().is_some_and(is_guarded) {
            having.forget();
            decided.undo();
            return Ok(Outcome::Again);
        }
        let written = self.write(write_set, in_line, seen, &decided, having).await;
        match written {
            Ok(true) => Ok(decided.outcome(reply, is_kept)),
            Ok(false) => {
                decided.undo();
                Ok(Outcome::Again)
            }
            Err(trouble) => {
                decided.undo();
                Err(trouble)
            }
        }
    }

    /// Whether what was read is of one instant since the command came, where nothing is
    /// written that would be compared with it; else it is to be read, or was read just now.
    async fn is_sure(&self, seen: &Seen, having: &mut Having) -> Result<bool, Trouble> {
        having.forget();
        if !seen.is_new || seen.assumes {
            return Ok(false);
        }
        if !seen.looked_later {
            return Ok(true);
        }
        let root = self.shared.connection.get(&seen.place.own()).await?;
        let root = root.as_ref().map(RootItem::read).transpose()?;
        Ok(root.map(|root| root.head.version) == seen.sight.version())
    }

    /// Writes; `false` if it was not done, and what `having` has is newer.
    async fn write(
        &self,
        write_set: Option<WriteSet>,
        in_line: InLineWrite,
        mut seen: Seen,
        decided: &Decided<'_>,
        having: &mut Having,
    ) -> Result<bool, Trouble> {
        let due = seen.due_after(write_set.as_ref());
        let before = seen.sight.root.clone();
        let mut root = before.clone().unwrap_or_else(RootItem::fresh);
        root.head.version = root.head.version.next();
        if self.shared.options.clock == Clock::Caller {
            root.ends = None;
        }
        root.head.writer = rand::random();
        root.head.written_at = seen.now;
        root.due = due;
        root.head.has_waiters = decided.leaves_waiters(root.head.has_waiters, &in_line);
        let mut others = Vec::new();
        match in_line {
            InLineWrite::Nothing => {}
            InLineWrite::Stand(item) => {
                // It says so for as long as anybody may wait.
                let kept = ends(seen.now + LONGEST_WAIT);
                root.ends = root.ends.zip(kept).map(|(root, kept)| root.max(kept));
                others.push(Write::Put(item));
            }
            InLineWrite::Leave(key) => others.push(Write::Delete(key)),
        }
        if let Some(set) = write_set {
            self.add(set, &mut root, &mut others, &mut seen);
        }
        let mut writes = Writes {
            place: seen.place,
            version: before.map(|before| before.head.version),
            root,
            others,
        };
        match self.shared.connection.write(&mut writes).await {
            Ok(Written::Done) => {
                seen.sight.root = Some(writes.root);
                having.set(Some(seen.sight), true);
                Ok(true)
            }
            Ok(Written::Beaten(root)) => {
                having.set(Some(Sight::of(root)), true);
                Ok(false)
            }
            Ok(Written::NotNew) => {
                having.forget();
                Ok(false)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Adds what the loop wants written, here and to what is known afterwards.
    fn add(&self, set: WriteSet, root: &mut RootItem, others: &mut Vec<Write>, seen: &mut Seen) {
        let clock = self.shared.options.clock;
        let second = seen.now.as_micros().div_euclid(1_000_000);
        let mut asked: BTreeMap<Vec<u8>, Option<(u128, Option<i64>)>> = BTreeMap::new();
        for lease in set.leases {
            let is_new = seen.is_new_lease(&lease);
            let old = seen.met.get(&lease.id).and_then(|old| old.asked.clone());
            let key = seen.place.at(keys::lease(lease.id));
            if let Some(old) = old {
                asked.entry(old).or_insert(None);
            }
            let kept = lease.kept.map(|kept| LeaseItem {
                id: lease.id,
                due: kept.due,
                sequence: kept.sequence,
                asked: kept.idempotency_key.map(|key| keys::idempotency_hash(&key)),
                body: kept.bytes,
            });
            match &kept {
                None => others.push(Write::Delete(key)),
                Some(kept) => {
                    let ends = self.lease_ends(kept.due);
                    root.ends = root.ends.zip(ends).map(|(root, lease)| root.max(lease));
                    if let Some(hash) = &kept.asked {
                        asked.insert(hash.clone(), Some((kept.id, ends)));
                    }
                    let item = kept.item(&key, ends);
                    others.push(match is_new && seen.assumes {
                        true => Write::PutNew(item, second),
                        false => Write::Put(item),
                    });
                }
            }
            seen.sight.leases.insert(lease.id, kept);
        }
        for (hash, leads_to) in asked {
            let key = seen.place.at(keys::idempotency(&hash));
            let Some((id, ends)) = leads_to else {
                others.push(Write::Delete(key));
                continue;
            };
            let was = seen.met.get(&id).and_then(|old| old.asked.as_ref());
            if was == Some(&hash) && !ends_later(seen, id, ends, |due| self.lease_ends(due)) {
                continue;
            }
            let id = Some(bytes(id.to_be_bytes()));
            let item = item(&key, [("id", id), ("ttl", ends.map(number))]);
            others.push(match seen.assumes && was.is_none() {
                true => Write::PutNew(item, second),
                false => Write::Put(item),
            });
        }
        for row in set.rows {
            let ends_at = match clock {
                Clock::Server => ends(row.keep_until),
                Clock::Caller => None,
            };
            if *row.key == *seen.place.root {
                root.body = row.bytes;
                root.forget_at = row.forget_at;
                root.ends = root.ends.zip(ends_at).map(|(root, row)| root.max(row));
                continue;
            }
            let key = seen.place.row(&row.key);
            others.push(match &row.bytes {
                Some(body) => Write::Put(item(
                    &key,
                    [
                        ("b", Some(bytes(body.clone()))),
                        ("f", Some(number(row.forget_at.as_micros()))),
                        ("n", keys::whole(&row.key).map(bytes)),
                        ("ttl", ends_at.map(number)),
                    ],
                )),
                None => Write::Delete(key),
            });
            seen.sight.rows.insert(row.key, row.bytes);
        }
        let is_one =
            |one: &UsageWrite, next: &UsageWrite| (&one.key, one.hour) == (&next.key, next.hour);
        for of_one in set.usage.chunk_by(is_one) {
            let key = seen.place.at(keys::used(&of_one[0].key, of_one[0].hour));
            others.extend(UsedMore::of(key, of_one).map(Write::Use));
        }
    }

    /// When DynamoDB may delete a lease that is due then: it is remembered for a while after
    /// it, and where it gives something back, for as long as that may matter.
    fn lease_ends(&self, due: Timestamp) -> Option<i64> {
        if self.shared.options.clock == Clock::Caller {
            return None;
        }
        let plan = self.changes.newest_plan()?;
        let gives_back = plan.limits().iter().any(|limit| limit.refund_on_expiry);
        let longer = match gives_back {
            // Its refund is noted in what was used, too, for as long as that is kept.
            true => LONGEST_DEBT.max(plan.usage().unwrap_or_default()),
            false => Span::ZERO,
        };
        ends(due + plan.keep() + longer)
    }

    /// What a take is told that others keep back: what its limits say, or an instant from now
    /// on.
    async fn refusal(
        self: &Arc<Self>,
        request: &OwnedKeyCommand,
        having: &mut Having,
    ) -> Result<Reply, StoreError> {
        let Some((peek, detail)) = request.peek() else {
            return Err(StoreError::Unavailable("only a take waits".to_owned()));
        };
        let mut backoff = self.shared.connection.backoff();
        loop {
            match self.attempt(&peek, None, having).await {
                Ok(Outcome::Reply(Ok(reply))) => return Ok(kept_back(reply, request.now, detail)),
                Ok(Outcome::Reply(Err(error))) => return Err(error),
                Ok(Outcome::Kept(_) | Outcome::Again) => {}
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }
}

/// Whether the item of an idempotency key is to last longer than it was written to.
fn ends_later(
    seen: &Seen,
    id: u128,
    ends: Option<i64>,
    lease_ends: impl Fn(Timestamp) -> Option<i64>,
) -> bool {
    let before = seen.met.get(&id).map(|old| lease_ends(old.due));
    before != Some(ends)
}

impl Seen {
    pub(crate) fn has_waiters(&self) -> bool {
        self.sight
            .root
            .as_ref()
            .is_some_and(|root| root.head.has_waiters)
    }

    /// Whether `reply` is a refusal that is to say when the next lease is due, of which nothing
    /// was read.
    pub(crate) fn lacks_due(
        &self,
        request: &OwnedKeyCommand,
        reply: Option<&Result<Reply, StoreError>>,
    ) -> bool {
        let has_leases = self
            .sight
            .root
            .as_ref()
            .is_some_and(|root| root.due.is_some());
        let Some(Ok(Reply::Decision(decision))) = reply else {
            return false;
        };
        has_leases
            && self.due.is_none()
            && !decision.verdict.admitted()
            && request
                .plan
                .limits()
                .iter()
                .any(|limit| limit.refund_on_expiry)
    }

    fn meet(&mut self, leases: &[LeaseItem]) {
        for lease in leases {
            self.met.insert(lease.id, lease.clone());
        }
    }

    /// Whether a lease is written that was not there.
    fn is_new_lease(&self, lease: &tidegate_store::optimistic::LeaseWrite) -> bool {
        lease.kept.is_some() && !self.met.contains_key(&lease.id)
    }

    /// No lease is due before, once this is written.
    fn due_after(&self, set: Option<&WriteSet>) -> Option<Timestamp> {
        let was = self.sight.root.as_ref().and_then(|root| root.due);
        let writes = || set.into_iter().flat_map(|set| &set.leases);
        let left = match &self.due {
            None => was,
            Some((due, is_all)) => {
                let mut left = due
                    .iter()
                    .filter(|lease| !writes().any(|write| write.id == lease.id));
                let next = left.next().map(|lease| lease.due);
                let last = due.last().map(|lease| lease.due);
                next.or(if *is_all { None } else { last })
            }
        };
        let put = writes().filter_map(|write| write.kept.as_ref());
        put.map(|kept| kept.due).chain(left).min()
    }
}
