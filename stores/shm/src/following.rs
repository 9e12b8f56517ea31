//! Who follows what is defined. A process that follows sleeps on a word of the segment,
//! which every change moves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;
use rustix::thread::futex;
use tidegate_store::{Follower, Followers, StoreError};

use crate::layout::header;
use crate::process;
use crate::steps::Steps;
use crate::wakeup;

/// Who follows what is defined, in this process.
#[derive(Debug)]
pub(crate) struct Following {
    steps: Arc<Steps>,
    followers: Followers,
    /// One at a time leads those who follow.
    turn: Mutex<()>,
    /// The fork since which a thread listens, and one; 0: none does.
    since: AtomicU64,
    is_over: AtomicBool,
}

impl Following {
    pub(crate) fn new(steps: &Arc<Steps>) -> Self {
        Self {
            steps: Arc::clone(steps),
            followers: Followers::default(),
            turn: Mutex::default(),
            since: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// From here on `follower` goes over to whatever is defined for `owner`.
    pub(crate) fn follow(self: &Arc<Self>, owner: &str, follower: Weak<dyn Follower>) {
        self.followers.add(owner, follower);
        self.listen();
        // What cannot be told now is told with the next change.
        let _ = self.lead(owner);
    }

    /// Has a thread listen, once for each process.
    fn listen(self: &Arc<Self>) {
        let this = process::generation() + 1;
        if self.since.swap(this, Ordering::SeqCst) == this {
            return;
        }
        let following = Arc::downgrade(self);
        let listening = thread::Builder::new().name("tidegate-shm-definitions".to_owned());
        if listening.spawn(move || listen(&following)).is_err() {
            self.since.store(0, Ordering::SeqCst);
        }
    }

    /// In the child of a fork nobody listens yet.
    pub(crate) fn listen_again(self: &Arc<Self>) {
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 && since != process::generation() + 1 {
            self.listen();
        }
    }

    /// Those who follow `owner` go over to what is defined now.
    pub(crate) fn lead(&self, owner: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.turn.lock();
        for follower in self.followers.of(owner) {
            loop {
                let (known, keys_alone) = (follower.version(), follower.is_partial());
                let definitions = self.steps.defined(owner, known, keys_alone)?;
                if definitions.version == definitions.newer_than {
                    break;
                }
                follower.follow(&definitions);
            }
        }
        Ok(())
    }

    /// Nobody follows any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if self.since.load(Ordering::SeqCst) != 0 {
            wakeup::wake_followers(&self.steps.segment);
        }
    }
}

/// Until nobody has the store any more.
fn listen(following: &Weak<Following>) {
    while let Some(following) = following.upgrade() {
        let word = following.steps.segment.mapping().futex(header::DEFINED);
        let seen = word.load(Ordering::SeqCst);
        if following.is_over.load(Ordering::SeqCst) {
            return;
        }
        for owner in following.followers.owners() {
            // What cannot be told now is told with the next change.
            let _ = following.lead(&owner);
        }
        let _ = futex::wait(word, futex::Flags::empty(), seen, None);
    }
}
