//! A table, one command after the other, each waited for.

use std::sync::Arc;

use tidegate_core::{Amount, Bounds, Span, Timestamp, Verdict};
use tidegate_store::{
    Answer, AtomicBucket, Command, Count, Detail, HeldLease, Hours, KeyCommand, KeyPath, Listing,
    Op, OwnedKey, Page, Plan, Reply, StoreError, Table, Usage, Verb,
};

/// What the suite sends to a table. Decisions come in full, however short they came.
pub trait TableExt {
    /// One verb on one key.
    ///
    /// # Errors
    /// Those of the table.
    fn one(&self, command: &KeyCommand<'_>) -> Result<Reply, StoreError>;

    /// The limits have changed.
    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]);

    /// The verdict alone on a take without a lease.
    ///
    /// # Errors
    /// Those of the table.
    fn admit(
        &self,
        plan: &Arc<Plan>,
        key: &KeyPath<'_>,
        amounts: &[Amount],
        now: Timestamp,
    ) -> Result<Verdict, StoreError>;

    /// The same for a key without ancestors, of a plan of one limit.
    ///
    /// # Errors
    /// Those of the table.
    fn admit_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let key = KeyPath::new(key, 1).expect("a key");
        self.admit(plan, &key, &[amount], now)
    }

    /// A page of keys.
    ///
    /// # Errors
    /// Those of the table.
    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError>;

    /// A page of leases.
    ///
    /// # Errors
    /// Those of the table.
    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError>;

    /// A page of usage.
    ///
    /// # Errors
    /// Those of the table.
    fn list_usage(&self, listing: &Listing<'_>, hours: Hours) -> Result<Page<Usage>, StoreError>;

    /// How much it holds at `now`.
    ///
    /// # Errors
    /// Those of the table.
    fn count(&self, now: Timestamp) -> Result<Count, StoreError>;

    /// The atomic bucket of a key, if it has one.
    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<AtomicBucket>>;

    /// Gives an atomic bucket back.
    fn unpin(&self, key: &[u8], bucket: Arc<AtomicBucket>);
}

/// No limits: what is about a whole table needs none.
fn nothing() -> Arc<Plan> {
    Arc::new(Plan::new(0, 1, Vec::new(), Span::SECOND))
}

fn about(table: &dyn Table, now: Timestamp, op: Op<'_>) -> Result<Reply, StoreError> {
    table.execute_and_wait(&Command {
        plan: &nothing(),
        now,
        calendars: &[],
        op,
        patience: None,
    })
}

/// The same answer, a decision in full.
pub(crate) fn in_full(answer: Answer) -> Answer {
    Ok(match answer? {
        short @ (Reply::Verdict(_) | Reply::One(..)) => Reply::Decision(short.decision()?),
        reply => reply,
    })
}

/// Every item of a listing in pages of `most`, with something done between two.
///
/// # Errors
/// Those of a page.
pub(crate) fn every_item<T>(
    most: usize,
    mut list: impl FnMut(Option<&[u8]>) -> Result<Page<T>, StoreError>,
    mut between: impl FnMut(usize),
) -> Result<Vec<T>, StoreError> {
    let (mut items, mut after, mut number) = (Vec::new(), None::<Vec<u8>>, 0);
    loop {
        let page = list(after.as_deref())?;
        assert!(page.items.len() <= most, "no more than was asked for");
        items.extend(page.items);
        match page.next {
            None => return Ok(items),
            next => after = next,
        }
        between(number);
        number += 1;
        assert!(number < 100_000, "it ends");
    }
}

impl TableExt for dyn Table {
    fn one(&self, command: &KeyCommand<'_>) -> Result<Reply, StoreError> {
        in_full(self.execute_and_wait(&(*command).into()))
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        let adopted = self.execute_and_wait(&Command {
            plan,
            now,
            calendars,
            op: Op::Adopt,
            patience: None,
        });
        // A newer plan may be there already; the next command says so.
        let _ = adopted;
    }

    fn admit(
        &self,
        plan: &Arc<Plan>,
        key: &KeyPath<'_>,
        amounts: &[Amount],
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let reply = self.execute_and_wait(&Command {
            plan,
            now,
            calendars: &[],
            op: Op::One(*key, verb),
            patience: None,
        })?;
        reply.verdict().ok_or(StoreError::Mismatch)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        match about(self, listing.now, Op::ListKeys(*listing))? {
            Reply::Keys(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        match about(self, listing.now, Op::ListLeases(*listing))? {
            Reply::Leases(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    fn list_usage(&self, listing: &Listing<'_>, hours: Hours) -> Result<Page<Usage>, StoreError> {
        match about(self, listing.now, Op::ListUsage(*listing, hours))? {
            Reply::Usage(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    fn count(&self, now: Timestamp) -> Result<Count, StoreError> {
        match about(self, now, Op::Count)? {
            Reply::Count(count) => Ok(count),
            _ => Err(StoreError::Mismatch),
        }
    }

    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<AtomicBucket>> {
        self.atomic_buckets()?.pin(plan, key, now)
    }

    fn unpin(&self, key: &[u8], bucket: Arc<AtomicBucket>) {
        if let Some(buckets) = self.atomic_buckets() {
            buckets.unpin(key, bucket);
        }
    }
}
