//! The roots under which something was used, in order: usage is listed by it, each root once.
//! (A scan of the server's keys may find one again, where the server's own table shrinks.)
//!
//! A root is entered before anything is used under it: the order is another key, which a
//! cluster has elsewhere, so one step cannot do both. Entered for nothing it has no records; it
//! is dropped like any other of which all records are over (`lua/root.lua`).

use std::future::Future;
use std::sync::Arc;

use futures_util::future::join;
use redis::Value;
use tidegate_net::key_order;
use tidegate_store::StoreError;
use tidegate_store::core::{Span, Timestamp};

use crate::error::garbled;
use crate::inner::Inner;
use crate::link::text;
use crate::options::Clock;
use crate::wire;

impl Inner {
    /// Does what may use something under a root of which records are kept for so long, if any are:
    /// the root is entered before, unless that was done lately. One server does in order what it
    /// is asked on one connection: there both are one trip.
    ///
    /// What is answered is listed: a root that was not entered, since the connection was lost
    /// between, is entered before the answer. From then on what is used waits until one is entered,
    /// so that what the server does not allow is told before it is done.
    pub(crate) async fn entered_before<T>(
        &self,
        counted: Option<(&[u8], Span)>,
        now: Timestamp,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some((root, keep)) = counted.filter(|(root, _)| !self.entered.has(root, now)) else {
            return work.await;
        };
        let entering = self.enter(root, keep, now);
        let is_in_order = self.shared.link.is_in_order(&self.shared.scripts.root);
        if !is_in_order || self.entered.has_failed() {
            entering.await?;
            return work.await;
        }
        // They are sent in this order.
        let (entered, done) = join(entering, work).await;
        if entered.is_err() && done.is_ok() {
            self.enter(root, keep, now).await?;
        }
        done
    }

    async fn enter(&self, root: &[u8], keep: Span, now: Timestamp) -> Result<(), StoreError> {
        let keep = keep.as_micros().min(1 << 53).to_string();
        let sweeps: &[u8] = if self.entered.sweeps(now) { b"1" } else { b"" };
        let keep = keep.into_bytes().into();
        let arguments = [root.into(), keep, self.instant(now), sweeps.into()];
        let (link, keys) = (&self.shared.link, self.names.counted_roots());
        let entered = link.call(&self.shared.scripts.root, &keys, &arguments);
        let entered = entered.await.map(drop);
        match entered {
            Ok(()) => self.entered.note(root, now),
            Err(_) => self.entered.note_failure(),
        }
        entered
    }

    /// The next roots that begin so, or are called so, behind one of them.
    pub(crate) async fn roots(
        &self,
        (beginning, is_whole): (&[u8], bool),
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let (low, is_on_it) = key_order::beginning(beginning, after);
        let from = [if is_on_it { b"[" } else { b"(" }, low].concat();
        let to = match key_order::behind(beginning) {
            _ if is_whole => [b"[", beginning].concat(),
            Some(high) => [b"(", high.as_slice()].concat(),
            None => b"+".to_vec(),
        };
        let most = most.to_string().into_bytes();
        let arguments = [from.into(), to.into(), most.into(), self.instant(now)];
        let (link, keys) = (&self.shared.link, self.names.counted_roots());
        let answer = link
            .call(&self.shared.scripts.roots, &keys, &arguments)
            .await?;
        let Value::Array(roots) = answer else {
            return Err(garbled("no roots"));
        };
        let roots = roots.into_iter().map(text).collect::<Option<_>>();
        roots.ok_or_else(|| garbled("no root"))
    }

    /// The caller's instant, if that decides.
    fn instant(&self, now: Timestamp) -> Arc<[u8]> {
        match self.shared.clock {
            Clock::Server => Arc::default(),
            Clock::Caller => wire::instant(now).to_string().into_bytes().into(),
        }
    }
}
