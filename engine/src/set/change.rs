//! Limits added, replaced and removed while in use.
//!
//! A change makes a new view under a new version; it applies at the next
//! decision of every key, which carries its state over (see the kernels'
//! `adopt`): nobody is reset, and raising a limit delays no one.

use std::sync::Arc;

use tidegate_contract::sync::Mutex;
use tidegate_contract::sync::atomic::Ordering;

use super::inner::{Inner, numbered};
use super::verbs::LimitSet;
use super::view::View;
use crate::error::Error;
use crate::limit::Limit;

/// What successive versions share.
#[derive(Debug)]
pub(crate) struct Changes {
    levels: Vec<String>,
    /// One change at a time; holds the next limit's uid.
    next_uid: Mutex<u32>,
}

impl Changes {
    pub(super) const fn new(levels: Vec<String>, next_uid: u32) -> Self {
        Self {
            levels,
            next_uid: Mutex::new(next_uid),
        }
    }
}

impl LimitSet {
    /// The limits as they are now.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        self.inner().view.load().limits.clone()
    }

    /// Adds a limit, or replaces the one of that name; from the next decision
    /// on, for every key.
    ///
    /// # Errors
    /// A limit that makes no sense; then nothing changes.
    pub fn put_limit(&self, limit: Limit) -> Result<(), Error> {
        self.inner().change(|limits, next_uid| {
            let found = limits.iter_mut().find(|(_, l)| l.name() == limit.name());
            match found {
                Some((_, old)) => *old = limit,
                None => {
                    limits.push((*next_uid, limit));
                    *next_uid += 1;
                }
            }
            Ok(())
        })
    }

    /// Goes over to exactly these limits, in one step; from the next decision
    /// on, for every key. A limit that keeps its name keeps what was used.
    ///
    /// # Errors
    /// Limits that make no sense, or none; then nothing changes.
    pub fn replace_limits(&self, limits: &[Limit]) -> Result<(), Error> {
        if limits.is_empty() {
            return Err(Error::Nothing("limit"));
        }
        let now = self.limits();
        if now.len() == limits.len() && limits.iter().all(|limit| now.contains(limit)) {
            return Ok(());
        }
        self.inner().change(|known, next_uid| {
            let old = std::mem::take(known);
            let uid = |name: &str| old.iter().find(|(_, limit)| limit.name() == name);
            *known = numbered(limits.to_vec(), next_uid, |name| Some(uid(name)?.0));
            Ok(())
        })
    }

    /// Removes the limit called `name`; from the next decision on, for every key.
    ///
    /// # Errors
    /// An unknown name, or the last limit; then nothing changes.
    pub fn remove_limit(&self, name: &str) -> Result<(), Error> {
        self.inner().view.load().position(name)?;
        self.inner().change(|limits, _| {
            limits.retain(|(_, limit)| limit.name() != name);
            Ok(())
        })
    }
}

impl Inner {
    /// The table goes over to the newest view, as of now.
    pub(super) fn adopt(&self) {
        let (view, now) = (self.view.load(), self.clock.now());
        self.table.adopt(&view.plan, now, &view.calendars(now));
    }

    fn change(
        &self,
        edit: impl FnOnce(&mut Vec<(u32, Limit)>, &mut u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut next_uid = self.changes.next_uid.lock();
        let old = self.view.load_full();
        let uids = old.plan.limits().iter().map(|limit| limit.uid);
        let mut limits: Vec<_> = uids.zip(old.limits.iter().cloned()).collect();
        let mut uid = *next_uid;
        edit(&mut limits, &mut uid)?;
        if limits.is_empty() {
            return Err(Error::Nothing("limit"));
        }
        let view = View::new(old.plan.version() + 1, &self.changes.levels, limits)?;
        *next_uid = uid;
        self.lone.store(view.lone, Ordering::Relaxed);
        self.view.store(Arc::new(view));
        drop(next_uid);
        self.adopt();
        self.lines.serve_all(self.clock.now());
        Ok(())
    }
}
