//! The verbs of a set out of bytes, in any order, with what any caller could
//! get wrong: unknown and repeated names, amounts beyond every bound, keys that
//! cannot be one, leases that have ended, a clock that jumps.
//!
//! What is checked after every verb: an error or a refusal has changed nothing,
//! and what is held and what is free make up the capacity.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::StoreError;
use tidegate::{
    Admission, DecisionError, Handle, Lease, LimitSet, ManualClock, Request, Span, Standing,
    Timestamp, Verdict,
};

use crate::Feed;
use crate::held::Held;
use crate::limits::{NAMES, RUNNING, length, limit};

/// Longer than any key may be.
static HUGE: LazyLock<Vec<u8>> = LazyLock::new(|| vec![b'k'; 70_000]);

/// What of a kind is kept at once.
const MOST: usize = 6;

/// All that can be told of a key from the outside.
type Face = Result<(Verdict, Vec<(String, Standing)>), DecisionError>;

/// Someone who waits.
type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Admission, DecisionError>> + 'a>>;

/// Whether a verb may have changed something.
type Changed = bool;

/// Amounts by name, and how many slots they come to if the ask is admitted.
type Named = (Vec<(&'static str, u64)>, u64);

/// A set, and everyone who uses it.
pub struct Play<'a> {
    set: &'a LimitSet,
    time: &'a ManualClock,
    levels: bool,
    waiting: Vec<Waiting<'a>>,
    leases: Vec<Lease>,
    handles: Vec<Handle>,
    held: Held,
}

impl<'a> Play<'a> {
    /// Nobody uses `set` yet; its keys have two `levels`, or one.
    pub fn new(set: &'a LimitSet, time: &'a ManualClock, levels: bool) -> Self {
        Self {
            set,
            time,
            levels,
            waiting: Vec::new(),
            leases: Vec::new(),
            handles: Vec::new(),
            held: Held::default(),
        }
    }

    /// One verb, and what must hold after it.
    pub fn step(&mut self, feed: &mut Feed<'a>) {
        let key = self.key(feed);
        let before = self.face(&key);
        let verb = feed.choose(17);
        if !self.act(verb, &key, feed) {
            unchanged(&before, &self.face(&key), verb);
        }
        self.poll();
        self.conserved(&key);
    }

    fn act(&mut self, verb: u8, key: &[u8], feed: &mut Feed<'a>) -> Changed {
        match verb {
            0 => self.check(key, feed),
            1 => self
                .set
                .admit(key, feed.amount())
                .wait()
                .is_ok_and(Verdict::admitted),
            2 => self.debit(key, feed),
            3 | 4 => self.acquire(key, feed),
            5 => self.wait(feed),
            6 => self.leave(feed),
            7 => self.settle(feed),
            8 => self.end(feed),
            9 => self.settle_by_id(key, feed),
            10 => self.renew(feed),
            11 => self.reset(key),
            12 => self.look(key, feed),
            13 => self.by_handle(key, feed),
            14 => self.change_limits(feed),
            15 => self.adjust(feed),
            _ => self.pass_time(feed),
        }
    }

    fn check(&self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let (named, _) = self.named(feed);
        let answer = self.set.check(key, Request::named(&named));
        answer.wait().is_ok_and(|decision| decision.admitted())
    }

    fn debit(&self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let (named, _) = self.named(feed);
        self.set.debit(key, Request::named(&named)).wait().is_ok()
    }

    fn acquire(&mut self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let (named, weight) = self.named(feed);
        let mut ask = Request::named(&named).priority(feed.byte());
        if feed.choose(3) == 0 {
            ask = ask.ttl(length(feed));
        }
        let retried = [feed.choose(3)];
        if retried[0] > 0 {
            ask = ask.idempotency(&retried);
        }
        match self.set.try_acquire(key, ask).wait() {
            Ok(Admission::Granted(lease)) => self.granted(lease, weight),
            Ok(Admission::Refused(_)) | Err(_) => false,
        }
    }

    fn granted(&mut self, lease: Lease, weight: u64) -> Changed {
        let holds = self.capacity().is_some() && self.reaches_last(lease.key());
        self.held.grant(&lease, if holds { weight } else { 0 });
        self.leases.push(lease);
        if self.leases.len() > MOST {
            let first = self.leases.remove(0);
            self.held.dropped(&first);
        }
        true
    }

    fn wait(&mut self, feed: &mut Feed<'a>) -> Changed {
        let mut ask = Request::from(feed.amount()).priority(feed.byte());
        ask = ask.within(match feed.choose(2) {
            0 => length(feed),
            _ => Duration::MAX,
        });
        let key: &'a [u8] = feed.rest_until(b'\n');
        let set = self.set;
        self.waiting
            .push(Box::pin(async move { set.acquire(key, ask).await }));
        self.poll();
        self.waiting.truncate(MOST);
        true
    }

    fn leave(&mut self, feed: &mut Feed<'_>) -> Changed {
        match pick(self.waiting.len(), feed) {
            Some(i) => {
                drop(self.waiting.remove(i));
                true
            }
            None => false,
        }
    }

    /// Settles a lease that may have ended or expired, with any report.
    fn settle(&mut self, feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.leases.len(), feed) else {
            return false;
        };
        let (used, _) = self.named(feed);
        let (id, key) = (self.leases[i].id(), self.leases[i].key().to_vec());
        let before = self.face(&key);
        if self.leases[i].settle(&used).wait().is_err() {
            unchanged(&before, &self.face(&key), 7);
            return false;
        }
        self.held.end(id);
        true
    }

    /// Releases, cancels, fails or drops a lease.
    fn end(&mut self, feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.leases.len(), feed) else {
            return false;
        };
        let id = self.leases[i].id();
        let ended = match feed.choose(4) {
            0 => self.leases[i].release().wait().is_ok(),
            1 => self.leases[i].cancel().wait().is_ok(),
            2 => {
                self.leases[i].fail();
                return false;
            }
            _ => {
                let lease = self.leases.remove(i);
                self.held.dropped(&lease);
                return true;
            }
        };
        if ended {
            self.held.end(id);
        }
        ended
    }

    /// From elsewhere, under a key that may not be the lease's, and again.
    fn settle_by_id(&mut self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.leases.len(), feed) else {
            return false;
        };
        let (used, _) = self.named(feed);
        let id = self.leases[i].id();
        let Ok(first) = self.set.settle(key, id, &used).wait() else {
            return false;
        };
        assert!(!first.repeated() || !self.held.knows(id), "settled twice");
        self.held.end(id);
        let before = self.face(key);
        let again = self
            .set
            .release(key, id)
            .wait()
            .expect("a retry is answered");
        assert!(again.repeated(), "a retry gets the first answer");
        unchanged(&before, &self.face(key), 9);
        true
    }

    fn renew(&mut self, feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.leases.len(), feed) else {
            return false;
        };
        let renewed = self.leases[i].renew(length(feed)).wait();
        if let Ok(until) = renewed {
            self.held.renew(self.leases[i].id(), until);
        }
        renewed.is_ok()
    }

    /// All or nothing, or into debt, of a lease that may have ended or expired.
    fn adjust(&mut self, feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.leases.len(), feed) else {
            return false;
        };
        let (to, _) = self.named(feed);
        let (id, key) = (self.leases[i].id(), self.leases[i].key().to_vec());
        let before = self.face(&key);
        let lease = &mut self.leases[i];
        let adjusted = match feed.choose(2) {
            0 => lease.adjust(&to).wait(),
            _ => lease.overdraw(&to).wait(),
        };
        if !adjusted.is_ok_and(|decision| decision.admitted()) {
            unchanged(&before, &self.face(&key), 15);
            return false;
        }
        if let Some((_, weight)) = to.iter().find(|(name, _)| *name == RUNNING) {
            self.held.adjust(id, *weight, self.leases[i].fence());
        }
        true
    }

    fn reset(&mut self, key: &[u8]) -> Changed {
        self.set.reset(key).wait().is_ok()
    }

    /// Questions change nothing.
    fn look(&self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let (named, _) = self.named(feed);
        let peeked = self.set.peek(key, Request::named(&named)).wait().is_ok();
        let foreseen = self
            .set
            .forecast(key, Request::named(&named))
            .wait()
            .is_ok();
        assert!(peeked || !foreseen, "a forecast for what cannot be asked");
        let _ = (self.set.statistics(), self.set.count(), self.set.limits());
        false
    }

    /// A handle keeps a row of its own, before and after a change of limits, so
    /// that in a full store another key may find room where there was none, or
    /// none where there was.
    fn by_handle(&mut self, key: &[u8], feed: &mut Feed<'_>) -> Changed {
        let Some(i) = pick(self.handles.len(), feed).filter(|_| feed.choose(3) > 0) else {
            self.handles.extend(self.set.handle(key));
            self.handles.truncate(MOST);
            return true;
        };
        if feed.choose(8) == 0 {
            drop(self.handles.remove(i));
            return true;
        }
        let handle = &self.handles[i];
        let before = self.face(handle.key());
        let admitted = handle
            .admit(feed.amount())
            .wait()
            .is_ok_and(Verdict::admitted);
        if !admitted {
            unchanged(&before, &self.face(handle.key()), 13);
        }
        true
    }

    /// Limits are put and removed, except that slots stay slots.
    fn change_limits(&mut self, feed: &mut Feed<'_>) -> Changed {
        let name = NAMES[usize::from(feed.choose(5))];
        let has_slots = self.capacity().is_some();
        let before = self.set.limits();
        let changed = match feed.choose(3) {
            0 if name == RUNNING => Ok(()),
            0 => self.set.remove_limit(name),
            _ if name == RUNNING && !has_slots => Ok(()),
            _ => self.set.put_limit(limit(name, feed)),
        };
        if changed.is_err() {
            assert_eq!(before, self.set.limits(), "a change that failed");
        }
        changed.is_ok()
    }

    fn pass_time(&mut self, feed: &mut Feed<'_>) -> Changed {
        match feed.choose(4) {
            0 => self.time.set(Timestamp::from_micros(feed.signed())),
            1 => {
                let back = Span::from(length(feed));
                self.time.set(self.time.clock().now() - back);
            }
            _ => self.time.advance(length(feed)),
        }
        true
    }

    /// Whoever waited and is answered has a lease, or goes. Too many leases end
    /// the first of them, which may give the next one its turn.
    fn poll(&mut self) {
        loop {
            let mut leases = self.answered();
            if leases.is_empty() {
                return;
            }
            leases.sort_by_key(Lease::fence);
            for lease in leases {
                self.granted(lease, 1);
            }
        }
    }

    fn answered(&mut self) -> Vec<Lease> {
        let mut context = Context::from_waker(Waker::noop());
        let mut answers = Vec::new();
        self.waiting
            .retain_mut(|turn| match turn.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    answers.push(answer);
                    false
                }
            });
        let answers = answers.into_iter().flatten();
        answers.filter_map(Admission::granted).collect()
    }

    /// What is held and what is free make up the capacity, unless it was
    /// lowered below what is held.
    fn conserved(&self, key: &[u8]) {
        let now = self.time.clock().now();
        let running = |(_, standings): (Verdict, Vec<(String, Standing)>)| {
            let mut standings = standings.into_iter();
            standings.find(|(name, _)| name == RUNNING)
        };
        if let Some((_, standing)) = self.face(key).ok().and_then(running) {
            let held = self.held.sum(key, now);
            assert_eq!(standing.remaining, standing.limit.saturating_sub(held));
        }
    }

    fn face(&self, key: &[u8]) -> Face {
        let decision = self.set.peek(key, 1).wait()?;
        let standings = decision.standings();
        let standings = standings.map(|(name, standing)| (name.to_owned(), standing));
        Ok((decision.verdict(), standings.collect()))
    }

    /// The number of slots, if there is such a limit.
    fn capacity(&self) -> Option<u64> {
        let limits = self.set.limits();
        let slots = limits.iter().find(|limit| limit.name() == RUNNING);
        slots.map(tidegate::Limit::capacity)
    }

    /// Whether the key reaches the level at which slots are held.
    fn reaches_last(&self, key: &[u8]) -> bool {
        !self.levels || key.contains(&b'/')
    }

    fn key(&self, feed: &mut Feed<'a>) -> Vec<u8> {
        match feed.choose(10) {
            0 => feed.rest_until(b'\n').to_vec(),
            1 => Vec::new(),
            2 => HUGE.clone(),
            3 => b"a/".to_vec(),
            4 => b"b".to_vec(),
            5 | 6 => b"a/y".to_vec(),
            _ => b"a/x".to_vec(),
        }
    }

    /// At most three names, perhaps unknown or repeated, with any amounts.
    fn named(&self, feed: &mut Feed<'_>) -> Named {
        let count = usize::from(feed.choose(4));
        let mut named = Vec::new();
        for _ in 0..count {
            let name = NAMES.get(usize::from(feed.choose(6))).copied();
            let amount = match feed.choose(4) {
                0 => feed.amount(),
                _ => u64::from(feed.choose(6)),
            };
            named.push((name.unwrap_or("unheard of"), amount));
        }
        let slots = named.iter().find(|(name, _)| *name == RUNNING);
        let weight = slots.map_or(1, |(_, amount)| *amount);
        (named, weight)
    }
}

/// A key is as it was, after `verb`. Whether a full store finds room for one
/// that it does not hold is no state of that key: it depends on which others
/// have followed a change of limits by now, which looking at them makes them do.
fn unchanged(before: &Face, after: &Face, verb: u8) {
    let no_room =
        |face: &Face| matches!(face, Err(DecisionError::Store(StoreError::KeysFull { .. })));
    if !no_room(before) && !no_room(after) {
        assert_eq!(before, after, "verb {verb} was to change nothing");
    }
}

/// One of `count`, if there is any.
fn pick(count: usize, feed: &mut Feed<'_>) -> Option<usize> {
    let byte = usize::from(feed.byte());
    (count > 0).then(|| byte % count)
}
