//! What a set holds, a page at a time.

use tidegate_contract::{HeldLease, Listing, Page, Select, Verb};
use tidegate_core::{Amount, Timestamp};

use super::verbs::LimitSet;
use super::view::{Amounts, View};
use crate::decision::Decision;
use crate::error::Error;
use crate::lease::LeaseId;
#[cfg(feature = "gate")]
use crate::pool::Member;

/// The most items of one page.
pub const LONGEST_PAGE: usize = 1_000;

/// How often the table is asked for one page: it looks at a bounded number of
/// its keys each time, and may find none.
const ASKED: usize = 16;

/// Which page of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOf<'a> {
    /// Of which keys.
    pub select: Select<'a>,
    /// Where the page before has ended: its [`next`](Page::next).
    pub after: Option<&'a [u8]>,
    /// How many items it has at most: from 1 to [`LONGEST_PAGE`], and taken for
    /// that if it is less or more.
    pub most: usize,
}

/// A key that is in use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedKey {
    /// The key, or the ancestor of keys.
    pub key: Vec<u8>,
    /// Where it stands. The verdict is on an ask for nothing.
    pub decision: Decision,
}

impl ListedKey {
    /// The same, as this member's.
    #[cfg(feature = "gate")]
    pub(crate) fn of(mut self, member: &Member) -> Self {
        self.decision = self.decision.of(member);
        self
    }
}

/// A lease that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedLease {
    /// Whose it is.
    pub key: Vec<u8>,
    /// Its id: a secret of its holder.
    pub id: LeaseId,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; 0 without.
    pub fence: u64,
    /// What was taken, by limit.
    pub taken: Vec<(String, Amount)>,
}

impl LimitSet {
    /// A page of the keys that are in use, and where they stand: as of the
    /// moment of each, for a listing takes no lock for long.
    ///
    /// # Errors
    /// A store that cannot list, or a page that is no longer known.
    pub fn list_keys(&self, page: PageOf<'_>) -> Result<Page<ListedKey>, Error> {
        let table = &self.inner().table;
        let keys = pages(page, self.now(), |listing| Ok(table.list_keys(listing)?))?;
        let listed = keys.items.iter().map(|key| {
            let decision = self.standing(key.bytes())?;
            let key = key.bytes().to_vec();
            Ok(ListedKey { key, decision })
        });
        Ok(Page {
            items: listed.collect::<Result<_, Error>>()?,
            next: keys.next,
        })
    }

    /// A page of the leases that are held.
    ///
    /// # Errors
    /// As [`list_keys`](Self::list_keys).
    pub fn list_leases(&self, page: PageOf<'_>) -> Result<Page<ListedLease>, Error> {
        let table = &self.inner().table;
        let leases = pages(page, self.now(), |listing| Ok(table.list_leases(listing)?))?;
        let view = self.inner().view.load();
        let items = leases.items.into_iter();
        Ok(Page {
            items: items.map(|lease| named(lease, &view)).collect(),
            next: leases.next,
        })
    }

    /// How many leases are remembered after their end; `None` if the store does
    /// not say.
    #[must_use]
    pub fn leases_remembered(&self) -> Option<usize> {
        self.inner().table.leases_remembered()
    }

    /// How many leases are held; `None` if the store does not say.
    #[must_use]
    pub fn leases_held(&self) -> Option<usize> {
        self.inner().table.leases_held(self.now())
    }

    fn standing(&self, key: &[u8]) -> Result<Decision, Error> {
        self.inner().with_view_at(key, |view, path| {
            let nothing: Amounts = view.limits.iter().map(|_| 0).collect();
            self.answer(view, path, Verb::Peek { amounts: &nothing })
        })
    }
}

/// A page that is full, or the last, or as far as it was looked.
fn pages<T>(
    page: PageOf<'_>,
    now: Timestamp,
    list: impl Fn(&Listing<'_>) -> Result<Page<T>, Error>,
) -> Result<Page<T>, Error> {
    let most = page.most.clamp(1, LONGEST_PAGE);
    let mut full = Page {
        items: Vec::new(),
        next: page.after.map(<[u8]>::to_vec),
    };
    for _ in 0..ASKED {
        let listing = Listing {
            select: page.select,
            after: full.next.as_deref(),
            most: most - full.items.len(),
            now,
        };
        let more = list(&listing)?;
        full.items.extend(more.items);
        full.next = more.next;
        if full.next.is_none() || full.items.len() >= most {
            break;
        }
    }
    Ok(full)
}

/// The lease with its limits' names; a limit that is gone has none.
fn named(lease: HeldLease, view: &View) -> ListedLease {
    let name = |&(uid, amount): &(u32, Amount)| {
        let position = view.plan.position(uid)?;
        Some((view.plan.limits()[position].name.to_string(), amount))
    };
    ListedLease {
        key: lease.key.bytes().to_vec(),
        id: LeaseId(lease.id),
        expires_at: lease.expires_at,
        fence: lease.fence,
        taken: lease.taken.iter().filter_map(name).collect(),
    }
}
