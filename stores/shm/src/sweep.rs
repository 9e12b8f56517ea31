//! What is spent is deleted where there is no room: rows and usage from the instant on that the
//! loop said, a root's row with all that hangs on it but its usage; where there is none, what is remembered of
//! leases that have ended.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidegate_store::bytes::decode_record;
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::ledger::LeaseStage;

use crate::clock;
use crate::error::Fault;
use crate::in_place;
use crate::kept::{Lease, Overview, Used};
use crate::keys::{Parsed, kind, parse};
use crate::layout::shard;
use crate::root::row_instants;
use crate::segment::Segment;
use crate::txn::Txn;

/// So many records are deleted in one step.
const MOST_AT_ONCE: usize = 32;

/// So many leases that have ended are forgotten at once where there is no room.
const MOST_FORGOTTEN: usize = 1_024;

/// For so long a shard is not looked at again in which nothing was spent.
const PAUSE: Span = Span::from_millis(100);

/// When each shard was looked at in vain.
#[derive(Debug)]
pub(crate) struct Sweeps([AtomicI64; shard::ROOTS]);

impl Default for Sweeps {
    fn default() -> Self {
        Self([const { AtomicI64::new(i64::MIN) }; shard::ROOTS])
    }
}

impl Sweeps {
    /// Deletes what is spent in a shard; whether there was anything.
    pub(crate) fn sweep(&self, segment: &Segment, shard: usize, deadline: Duration) -> bool {
        let Some(last) = self.0.get(shard) else {
            return false;
        };
        let now = clock::now();
        let looked = Timestamp::from_micros(last.load(Ordering::Relaxed));
        if now.since(looked) < PAUSE {
            return false;
        }
        let place = (segment, shard, deadline);
        let mut is_any = false;
        for bucket in 0..shard::BUCKETS {
            is_any |= sweep_bucket(place, bucket).unwrap_or(false);
        }
        // What is remembered of ended leases never refuses a new one.
        let mut forgotten = 0;
        for bucket in 0..shard::BUCKETS {
            if !is_any && forgotten < MOST_FORGOTTEN {
                forgotten += forget_ended(place, bucket).unwrap_or(0);
            }
        }
        is_any |= forgotten > 0;
        if !is_any {
            last.store(now.as_micros(), Ordering::Relaxed);
        }
        is_any
    }
}

fn sweep_bucket(
    (segment, shard, deadline): (&Segment, usize, Duration),
    bucket: usize,
) -> Result<bool, Fault> {
    let (mut from, mut is_any) = (Vec::new(), false);
    loop {
        let mut txn = Txn::begin(segment, shard, deadline)?;
        let now = txn.now();
        let spent = next_spent(&txn, bucket, &mut from, now)?;
        let Some(spent) = spent else {
            return Ok(is_any);
        };
        if delete(&mut txn, bucket, &spent)? {
            txn.commit()?;
            is_any = true;
        } else {
            from = spent;
        }
    }
}

/// A row or a record of usage that is spent, from `from` on.
fn next_spent(
    txn: &Txn<'_>,
    bucket: usize,
    from: &mut Vec<u8>,
    now: Timestamp,
) -> Result<Option<Vec<u8>>, Fault> {
    while let Some(record) = txn.seek(bucket, from, true)? {
        *from = txn.key(record)?.into_vec();
        let Some(parsed) = parse(from) else { continue };
        let keep_until = match parsed.kind {
            kind::ROW => row_instants(&txn.value(record)?)?.1,
            kind::USAGE => Used::decode(&txn.value(record)?)?.keep_until,
            _ => continue,
        };
        if keep_until <= now {
            let spent = from.clone();
            // A root that has more than is deleted at once is looked at again.
            if is_root(&parsed) {
                from.pop();
            }
            return Ok(Some(spent));
        }
    }
    Ok(None)
}

/// Forgets leases that have ended, in each root those first that would be forgotten first; how
/// many.
fn forget_ended(
    (segment, shard, deadline): (&Segment, usize, Duration),
    bucket: usize,
) -> Result<usize, Fault> {
    let (mut from, mut forgotten) = (Vec::new(), 0);
    while forgotten < MOST_FORGOTTEN {
        let mut txn = Txn::begin(segment, shard, deadline)?;
        let ended = next_ended(&txn, bucket, &mut from)?;
        if ended.is_empty() {
            break;
        }
        forgotten += ended.len();
        for key in ended.into_iter().flatten() {
            txn.remove(bucket, &key)?;
        }
        txn.commit()?;
    }
    Ok(forgotten)
}

/// The records of some leases that have ended, and of places for leases where none is, from `from` on.
fn next_ended(
    txn: &Txn<'_>,
    bucket: usize,
    from: &mut Vec<u8>,
) -> Result<Vec<Vec<Vec<u8>>>, Fault> {
    let mut ended = Vec::new();
    while ended.len() < MOST_AT_ONCE
        && let Some(record) = txn.seek(bucket, from, true)?
    {
        *from = txn.key(record)?.into_vec();
        match parse(from).map(|parsed| parsed.kind) {
            Some(kind::DUE) => {
                let id = txn.value(record)?;
                ended.extend(ended_lease(txn, bucket, from, &id)?);
            }
            Some(kind::IN_PLACE) if in_place::is_empty(&txn.value(record)?) => {
                ended.push(vec![from.clone()]);
            }
            _ => {}
        }
    }
    Ok(ended)
}

/// The records of the lease that stands at `due`, if it has ended: its place in what is due, itself,
/// and its idempotency key, if that names it.
fn ended_lease(
    txn: &Txn<'_>,
    bucket: usize,
    due: &[u8],
    id: &[u8],
) -> Result<Option<Vec<Vec<u8>>>, Fault> {
    let root = parse(due).map_or(0, |parsed| parsed.root.len());
    let of = |kind: u8, rest: &[u8]| [&due[..8 + root], &[kind], rest].concat();
    let key = of(kind::LEASE, id);
    let Some(bytes) = txn.look_up(bucket, &key)? else {
        return Ok(None);
    };
    let lease = Lease::decode(&bytes)?;
    if matches!(decode_record(lease.record)?.stage, LeaseStage::Live) {
        return Ok(None);
    }
    let mut records = vec![due.to_vec(), key];
    if let Some(named) = lease.idempotency_key {
        let named = of(kind::IDEMPOTENCY, named);
        if txn.look_up(bucket, &named)?.as_deref() == Some(id) {
            records.push(named);
        }
    }
    Ok(Some(records))
}

fn is_root(parsed: &Parsed<'_>) -> bool {
    parsed.kind == kind::ROW && parsed.rest == parsed.root
}

/// Deletes a spent record of usage or row, or some of what hangs on it: it goes last. `false`: it stays.
fn delete(txn: &mut Txn<'_>, bucket: usize, spent: &[u8]) -> Result<bool, Fault> {
    let Some(parsed) = parse(spent) else {
        return Ok(false);
    };
    if !is_root(&parsed) {
        txn.remove(bucket, spent)?;
        txn.count_rows(0, u64::from(parsed.kind == kind::ROW));
        return Ok(true);
    }
    let prefix = &spent[..8 + parsed.root.len()];
    let of = |kind: u8| [prefix, &[kind]].concat();
    let overview = txn.look_up(bucket, &of(kind::OVERVIEW))?;
    let overview = overview.as_deref().map(Overview::decode).transpose()?;
    if overview.is_some_and(|overview| overview.waiting > 0) {
        return Ok(false);
    }
    let mut some = records(txn, bucket, prefix, of(kind::DUE))?;
    if some.is_empty() {
        some = records(txn, bucket, prefix, of(kind::ROW))?;
        some.retain(|key| key != spent);
        if some.is_empty() {
            some = vec![of(kind::OVERVIEW), spent.to_vec()];
        }
    }
    for key in some {
        let was_there = txn.remove(bucket, &key)?;
        let is_row = key.get(prefix.len()) == Some(&kind::ROW);
        txn.count_rows(0, u64::from(was_there && is_row));
    }
    Ok(true)
}

/// Some of the records of a root, from a key on, but none of its usage.
fn records(
    txn: &Txn<'_>,
    bucket: usize,
    prefix: &[u8],
    mut from: Vec<u8>,
) -> Result<Vec<Vec<u8>>, Fault> {
    let (mut found, mut is_behind) = (Vec::new(), false);
    while found.len() < MOST_AT_ONCE
        && let Some(record) = txn.seek(bucket, &from, is_behind)?
    {
        from = txn.key(record)?.into_vec();
        let kind = from.strip_prefix(prefix).and_then(|rest| rest.first());
        if kind.is_none_or(|kind| *kind >= kind::USAGE) {
            break;
        }
        found.push(from.clone());
        is_behind = true;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKeys;
    use crate::layout::SMALLEST;
    use crate::options::Options;
    use crate::segment;
    use tidegate_store::Hour;

    #[test]
    fn usage_goes_when_it_is_over_and_not_with_its_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            ..Options::default()
        };
        let path = segment::path("t", &options).expect("a name");
        let segment = Segment::open(&path, &options).expect("it opens");
        // A root whose name is also what a record of usage has behind its kind.
        let root = b"\0\0\0\0\0\0\0\x01tokens";
        let keys = RootKeys::new(segment.seed(), 1, root);
        let (spent, past) = (keys.of(kind::ROW, root), 1_i64.to_le_bytes());
        let used = |keep_until| {
            let used = Used {
                over_at: Timestamp::from_micros(keep_until),
                keep_until: Timestamp::from_micros(keep_until),
                amount: 5,
            };
            used.encode()
        };
        let over = [
            keys.used(b"", Hour::new(1), "tokens"),
            keys.used(root, Hour::new(1), "a"),
        ];
        let stays = keys.used(root, Hour::new(2), "a");
        let deadline = Duration::from_secs(60);
        let mut txn = Txn::begin(&segment, keys.shard, deadline).expect("nobody has it");
        let mut put = |key: &[u8], value: &[u8]| {
            assert!(txn.put(keys.bucket, key, value).expect("room"));
        };
        put(&spent, &[past, past].concat());
        put(&keys.of(kind::ROW, b"below"), &[past, past].concat());
        over.iter().for_each(|key| put(key, &used(1)));
        put(&stays, &used(i64::MAX));
        txn.count_rows(2, 0);
        txn.commit().expect("room");
        drop(txn);
        assert!(Sweeps::default().sweep(&segment, keys.shard, deadline));
        let txn = Txn::begin(&segment, keys.shard, deadline).expect("nobody has it");
        let (mut from, mut left) = (Vec::new(), Vec::new());
        while let Some(record) = txn.seek(keys.bucket, &from, true).expect("whole") {
            from = txn.key(record).expect("whole").into_vec();
            left.push(from.clone());
        }
        assert_eq!(left, [stays.to_vec()]);
    }
}
