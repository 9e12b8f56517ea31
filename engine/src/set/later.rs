//! The verbs of a set for who must not block: where the store is beyond a
//! network, the answer is waited for as a future. Elsewhere they are the plain
//! verbs, which answer at once.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    Command, Detail, Ending, KeyPath, RemoteTable, Reply, Sent, StoreError, Verb,
};
use tidegate_core::{Amount, Timestamp};

use super::inner::{Inner, mismatch};
use super::verbs::LimitSet;
use super::view::{View, lease_length};
use crate::ask::Ask;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::lease::{LeaseId, Settlement};

impl Inner {
    /// Whether an answer takes a round trip.
    pub(crate) fn is_remote(&self) -> bool {
        self.table.remote().is_some()
    }

    /// Sends a command by the newest view, again if the limits change meanwhile.
    /// `send` is told the view and the path of `key` by it.
    pub(crate) async fn ask_later(
        &self,
        key: &[u8],
        send: impl Fn(&dyn RemoteTable, &View, &KeyPath<'_>) -> Result<Sent, Error>,
    ) -> Result<(Reply, Arc<View>), Error> {
        loop {
            let (sent, view) = self.sent(key, &send)?;
            match sent.await {
                Err(StoreError::StalePlan) => {}
                reply => return Ok((reply?, view)),
            }
        }
    }

    fn sent(
        &self,
        key: &[u8],
        send: impl Fn(&dyn RemoteTable, &View, &KeyPath<'_>) -> Result<Sent, Error>,
    ) -> Result<(Sent, Arc<View>), Error> {
        let remote = self.table.remote().ok_or_else(mismatch)?;
        let view = self.view.load_full();
        let path = KeyPath::new(key, view.plan.levels())?;
        let view = view.at(&path).unwrap_or(view);
        Ok((send(remote, &view, &path)?, view))
    }

    /// A command by `view`, as of now.
    pub(crate) fn with_command<T>(
        &self,
        view: &View,
        path: &KeyPath<'_>,
        verb: Verb<'_>,
        act: impl FnOnce(&Command<'_>) -> T,
    ) -> T {
        let now = self.clock.now();
        act(&Command {
            plan: &view.whole,
            key: path.clone(),
            now,
            calendars: &view.calendars(now),
            verb,
        })
    }

    /// A verb that a decision answers.
    async fn decide_later(
        &self,
        key: &[u8],
        amounts: impl Fn(&View, &KeyPath<'_>) -> Result<super::Amounts, Error>,
        verb: fn(&[Amount]) -> Verb<'_>,
    ) -> Result<Decision, Error> {
        let send = |remote: &dyn RemoteTable, view: &View, path: &KeyPath<'_>| {
            let amounts = amounts(view, path)?;
            Ok(self.with_command(view, path, verb(&amounts), |command| remote.send(command)))
        };
        match self.ask_later(key, send).await? {
            (Reply::Decision(answer), view) => Ok(Decision::new(answer, view)),
            _ => Err(mismatch()),
        }
    }

    /// Ends a lease; `ending` is told what was used by the view's limits.
    pub(crate) async fn end_later(
        &self,
        key: &[u8],
        id: u128,
        used: Option<&[(&str, Amount)]>,
        ending: Ending<'static>,
        remember: bool,
    ) -> Result<Settlement, Error> {
        let send = |remote: &dyn RemoteTable, view: &View, path: &KeyPath<'_>| {
            let uses = used.map(|used| view.uses(used)).transpose()?;
            let ending = uses
                .as_ref()
                .map_or(ending, |uses| Ending::Settle(uses.as_slice()));
            let verb = Verb::End {
                id,
                ending,
                remember,
            };
            Ok(self.with_command(view, path, verb, |command| remote.send(command)))
        };
        match self.ask_later(key, send).await? {
            (Reply::Settled(answer), view) => Ok(Settlement::new(answer, view)),
            _ => Err(mismatch()),
        }
    }

    /// Ends a lease that nobody holds any more, without waiting for the answer;
    /// `false` if the table answers at once, and nothing was done. What fails is
    /// given back at expiry.
    pub(crate) fn end_unseen(&self, key: &[u8], id: u128, failed: bool) -> bool {
        if !self.is_remote() {
            return false;
        }
        let send = |remote: &dyn RemoteTable, view: &View, path: &KeyPath<'_>| {
            let refunds = view.refunds_on_failure();
            let verb = Verb::End {
                id,
                ending: match failed {
                    true => Ending::Fail(&refunds),
                    false => Ending::Release,
                },
                remember: false,
            };
            Ok(self.with_command(view, path, verb, |command| remote.send(command)))
        };
        // It is under way once it is sent.
        drop(self.sent(key, send));
        true
    }
}

fn take(amounts: &[Amount]) -> Verb<'_> {
    Verb::Take {
        amounts,
        lease: None,
        detail: Detail::Always,
    }
}

const fn peek(amounts: &[Amount]) -> Verb<'_> {
    Verb::Peek { amounts }
}

const fn debit(amounts: &[Amount]) -> Verb<'_> {
    Verb::Debit { amounts }
}

impl LimitSet {
    /// Whether an answer takes a round trip.
    #[cfg(feature = "gate")]
    pub(crate) fn is_remote(&self) -> bool {
        self.inner().is_remote()
    }

    /// As [`check`](Self::check), on any async runtime: no thread waits for a
    /// store beyond a network.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_async<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let (set, key, ask) = (self.inner(), key.into(), ask.into());
        if !set.is_remote() {
            return self.check(key, ask);
        }
        let amounts = |view: &View, path: &KeyPath<'_>| {
            let amounts = view.amounts(&ask)?;
            view.check_unheld(&amounts)?;
            view.check_reach(path, &amounts)?;
            Ok(amounts)
        };
        let decision = set.decide_later(key.bytes(), amounts, take).await?;
        set.counters.decided(decision.admitted());
        Ok(decision)
    }

    /// As [`peek`](Self::peek), on any async runtime.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    pub async fn peek_async<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let (set, key, ask) = (self.inner(), key.into(), ask.into());
        if !set.is_remote() {
            return self.peek(key, ask);
        }
        let amounts = |view: &View, _: &KeyPath<'_>| view.amounts(&ask);
        set.decide_later(key.bytes(), amounts, peek).await
    }

    /// As [`debit`](Self::debit), on any async runtime.
    ///
    /// # Errors
    /// As [`debit`](Self::debit).
    pub async fn debit_async<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let (set, key, ask) = (self.inner(), key.into(), ask.into());
        if !set.is_remote() {
            return self.debit(key, ask);
        }
        let amounts = |view: &View, _: &KeyPath<'_>| view.debits(&ask);
        set.decide_later(key.bytes(), amounts, debit).await
    }

    /// As [`settle`](Self::settle), on any async runtime.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn settle_async<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        used: &[(&str, Amount)],
    ) -> Result<Settlement, Error> {
        let (set, key) = (self.inner(), key.into());
        if !set.is_remote() {
            return self.settle(key, id, used);
        }
        let release = Ending::Release;
        set.end_later(key.bytes(), id.0, Some(used), release, true)
            .await
    }

    /// As [`release`](Self::release), on any async runtime.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub async fn release_async<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
    ) -> Result<Settlement, Error> {
        let (set, key) = (self.inner(), key.into());
        if !set.is_remote() {
            return self.release(key, id);
        }
        set.end_later(key.bytes(), id.0, None, Ending::Release, true)
            .await
    }

    /// As [`cancel`](Self::cancel), on any async runtime.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub async fn cancel_async<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
    ) -> Result<Settlement, Error> {
        let (set, key) = (self.inner(), key.into());
        if !set.is_remote() {
            return self.cancel(key, id);
        }
        set.end_later(key.bytes(), id.0, None, Ending::Cancel, true)
            .await
    }

    /// As [`renew`](Self::renew), on any async runtime.
    ///
    /// # Errors
    /// As [`renew`](Self::renew).
    pub async fn renew_async<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        ttl: Duration,
    ) -> Result<Timestamp, Error> {
        let (set, key) = (self.inner(), key.into());
        if !set.is_remote() {
            return self.renew(key, id, ttl);
        }
        let until = set.clock.now() + lease_length(ttl)?;
        let send = |remote: &dyn RemoteTable, view: &View, path: &KeyPath<'_>| {
            let renew = Verb::Renew { id: id.0, until };
            Ok(set.with_command(view, path, renew, |command| remote.send(command)))
        };
        set.ask_later(key.bytes(), send).await?;
        Ok(until)
    }
}
