//! Keys, leases and usage, a page at a time, in the order of the table's own index. Where
//! a page ends is the place in it of what was looked at last.

use tidegate_store::core::{Amount, Timestamp};
use tidegate_store::key::root_of_beginning;
use tidegate_store::{HeldLease, Hour, Hours, Listing, OwnedKey, Page, Select, StoreError, Usage};
use tokio_postgres::Row;

use crate::connection::Argument;
use crate::error::garbled;
use crate::inner::Calls;
use crate::reply::translated;

/// How many rows are looked at for one page, at most.
const LOOKED_AT: i64 = 2_000;

/// So much of a key is surely in the index as it is.
const INDEXED: usize = 224;

/// What the place of a page begins with, before the number of the set.
const MARK: &[u8] = b"tidegate page ";

/// What the keys, or their roots, begin with, as the index holds them.
fn beginning(wanted: &Listing<'_>, roots: bool) -> Vec<u8> {
    let bytes = wanted.select.beginning();
    let bytes = match roots {
        true => root_of_beginning(bytes, wanted.levels).0,
        false => bytes,
    };
    bytes[..bytes.len().min(INDEXED)].to_vec()
}

/// The place behind which the page begins.
fn place(wanted: &Listing<'_>, calls: &Calls) -> Result<Vec<u8>, StoreError> {
    let Some(after) = wanted.after else {
        return Ok(Vec::new());
    };
    let rest = after.strip_prefix(MARK);
    let rest = rest.and_then(|rest| rest.strip_prefix(&calls.tab.to_be_bytes()));
    rest.map(<[u8]>::to_vec).ok_or(StoreError::UnknownPage)
}

fn place_at(calls: &Calls, at: &[u8]) -> Vec<u8> {
    [MARK, &calls.tab.to_be_bytes(), at].concat()
}

/// What no key that begins so is as large as; `None` if there is no such thing.
fn end_of(beginning: &[u8]) -> Option<Vec<u8>> {
    let last = beginning.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = beginning[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Whatever is looked at has room on the page.
fn looked_at(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(LOOKED_AT).min(LOOKED_AT)
}

impl Calls {
    pub(crate) async fn keys(&self, wanted: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let statement = "SELECT coalesce(long_key, key), key,
                tidegate.forget_at(rows) > CASE WHEN $6 THEN $5 ELSE tidegate.clock() END
            FROM tidegate.rows
            WHERE tab = $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3) AND key > $4
            ORDER BY key LIMIT $7";
        let (place, now) = (place(wanted, self)?, wanted.now.as_micros());
        let beginning = beginning(wanted, false);
        let (end, most) = (end_of(&beginning), looked_at(wanted.most));
        let caller = self.is_callers();
        let arguments: [Argument<'_>; 7] =
            [&self.tab, &beginning, &end, &place, &now, &caller, &most];
        let rows = self.link.query(statement, &arguments).await?;
        let found = rows.iter().filter(|row| row.get(2));
        let keys = found.map(|row| OwnedKey::new(row.get(0)));
        let next = rows.last().filter(|_| rows.len() as i64 >= most);
        Ok(Page {
            items: keys.filter(|key| wanted.takes(key.bytes())).collect(),
            next: next.map(|row| place_at(self, row.get(1))),
        })
    }

    /// The place is the id, then the root.
    pub(crate) async fn leases(&self, wanted: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let statement = "SELECT owner, id::text, expires_at, fence::text,
                array_to_string(shares, ','), now, root, stage = 0 AND expires_at > now,
                granted_at
            FROM tidegate.leases,
                (SELECT CASE WHEN $7 THEN $6 ELSE tidegate.clock() END AS now) AS clock
            WHERE tab = $1 AND root >= $2 AND ($3::bytea IS NULL OR root < $3)
                AND (root, id) > ($4, $5::text::numeric)
            ORDER BY leases.root, leases.id LIMIT $8";
        let place = place(wanted, self)?;
        let (id, root) = match place.split_first_chunk::<16>() {
            Some((id, root)) => (u128::from_be_bytes(*id).to_string(), root),
            None => ("-1".to_owned(), &b""[..]),
        };
        let beginning = beginning(wanted, true);
        let (end, most) = (end_of(&beginning), looked_at(wanted.most));
        let (now, caller) = (wanted.now.as_micros(), self.is_callers());
        let arguments: [Argument<'_>; 8] = [
            &self.tab, &beginning, &end, &root, &id, &now, &caller, &most,
        ];
        let rows = self.link.query(statement, &arguments).await?;
        let held = rows.iter().filter(|row| row.get(7));
        let held: Result<Vec<_>, _> = held.map(|row| lease(row, wanted.now)).collect();
        let mut items = held?;
        items.retain(|lease| wanted.takes(lease.key.bytes()));
        let next = rows.last().filter(|_| rows.len() as i64 >= most);
        let next = next.map(|row| {
            let id = number::<u128>(row.get(1))?.to_be_bytes();
            Ok::<_, StoreError>(place_at(self, &[&id[..], row.get(6)].concat()))
        });
        Ok(Page {
            items,
            next: next.transpose()?,
        })
    }
}

/// The place of a page of usage: hour, the length of the limit's name, the name, the key.
fn place_of(hour: i32, name: &str, key: &[u8]) -> Vec<u8> {
    let mut place = hour.to_be_bytes().to_vec();
    place.extend((name.len() as u32).to_be_bytes());
    place.extend(name.as_bytes());
    place.extend(key);
    place
}

fn usage_place(place: &[u8]) -> Option<(i32, &str, &[u8])> {
    if place.is_empty() {
        return Some((-1, "", &[]));
    }
    let (hour, rest) = place.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (name, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    // Its text is the server's to read.
    let name = str::from_utf8(name)
        .ok()
        .filter(|name| !name.contains('\0'))?;
    Some((i32::from_be_bytes(*hour), name, key))
}

/// The hour of a place behind all that is of a key.
const END_OF_KEY: i32 = i32::MAX;

/// The sums of records and of what rows have counted, by key, hour and limit. Of each $11 are read at most.
/// If so many rows were, the page ends at the last of them, marked by an entry of the hour 2147483647
/// ([`END_OF_KEY`]) and nothing used; the next page goes on behind that.
const USED: &str = "WITH plan AS (
        SELECT (SELECT e.usage FROM tidegate.sets s
            JOIN tidegate.revisions e ON e.tab = s.tab AND e.revision = s.newest
            WHERE s.tab = $1) AS keep),
    looked_at AS MATERIALIZED (
        SELECT tab, key, long_key, revision, used_hour, used FROM tidegate.rows
        WHERE tab = $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3)
            AND key >= $6 AND (key > $6 OR $7 < 2147483647)
        ORDER BY key LIMIT $11),
    last AS (
        SELECT key FROM looked_at WHERE (SELECT count(*) FROM looked_at) >= $11
        ORDER BY key DESC LIMIT 1),
    parts AS (
        (SELECT long_key, key, hour, name, amount, over_at FROM tidegate.usage
            WHERE tab = $1 AND key >= $2 AND ($3::bytea IS NULL OR key < $3)
                AND hour >= $4 AND hour < $5 AND (key, hour, name) > ($6, $7, $8)
            ORDER BY key, hour, name LIMIT $11)
        UNION ALL
        SELECT r.long_key, r.key, r.used_hour, u.name, u.amount,
            tidegate.over_at(r.used_hour, e.usage)
        FROM looked_at r JOIN tidegate.revisions e ON e.tab = r.tab AND e.revision = r.revision,
            unnest(e.names, r.used) AS u (name, amount)
        WHERE r.used_hour >= $4 AND r.used_hour < $5 AND u.amount <> 0
            AND (r.key, r.used_hour, u.name) > ($6, $7, $8)
        UNION ALL
        SELECT NULL, key, 2147483647, '', 0, 0 FROM last)
    SELECT coalesce(long_key, key), key, name, hour,
        least(sum(amount), 9223372036854775807)::bigint,
        sum(amount) > 0 AND least(max(over_at), (hour::bigint + 1) * 3600000000 + keep)
            > CASE WHEN $10 THEN $9 ELSE tidegate.clock() END
    FROM parts, plan
    WHERE key <= (SELECT key FROM last) OR NOT EXISTS (SELECT FROM last)
    GROUP BY key, long_key, hour, name, keep ORDER BY key, hour, name LIMIT $11";

impl Calls {
    pub(crate) async fn usage(
        &self,
        wanted: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        let place = place(wanted, self)?;
        let (hour, name, key) = usage_place(&place).ok_or(StoreError::UnknownPage)?;
        let beginning = beginning(wanted, false);
        let end = match wanted.select {
            // It and no other.
            Select::Key(key) if key.len() <= INDEXED => Some([key, &[0]].concat()),
            _ => end_of(&beginning),
        };
        let number = |hour: Hour| i32::try_from(hour.number()).unwrap_or(i32::MAX);
        let (from, to) = (number(hours.from), number(hours.to));
        let (now, caller) = (wanted.now.as_micros(), self.is_callers());
        let most = looked_at(wanted.most);
        let arguments: [Argument<'_>; 11] = [
            &self.tab, &beginning, &end, &from, &to, &key, &hour, &name, &now, &caller, &most,
        ];
        let rows = self.link.query(USED, &arguments).await?;
        let kept = rows.iter().filter(|row| row.get(5));
        let items = kept.map(|row| Usage {
            key: OwnedKey::new(row.get(0)),
            limit: row.get::<_, &str>(2).into(),
            hour: Hour::new(row.get::<_, i32>(3).unsigned_abs()),
            amount: row.get::<_, i64>(4).unsigned_abs(),
        });
        let is_cut = |last: &&Row| rows.len() as i64 >= most || last.get::<_, i32>(3) == END_OF_KEY;
        let next = rows.last().filter(is_cut);
        let next = next.map(|row| place_of(row.get(3), row.get(2), row.get(1)));
        Ok(Page {
            items: items
                .filter(|used| wanted.takes(used.key.bytes()))
                .collect(),
            next: next.map(|place| place_at(self, &place)),
        })
    }
}

impl Calls {
    /// Those of these roots under which leases have expired that nothing has ended yet.
    pub(crate) async fn expired_roots(
        &self,
        roots: &[OwnedKey],
        now: Timestamp,
    ) -> Result<Vec<OwnedKey>, StoreError> {
        let statement = "SELECT root FROM unnest($2::bytea[]) AS roots (root) WHERE EXISTS (
                SELECT FROM tidegate.leases WHERE tab = $1 AND leases.root = tidegate.short(roots.root)
                    AND stage = 0
                    AND due <= CASE WHEN $4 THEN $3 ELSE tidegate.clock() END)";
        let roots: Vec<&[u8]> = roots.iter().map(OwnedKey::bytes).collect();
        let (now, caller) = (now.as_micros(), self.is_callers());
        let arguments: [Argument<'_>; 4] = [&self.tab, &roots, &now, &caller];
        let rows = self.link.query(statement, &arguments).await?;
        Ok(rows.iter().map(|row| OwnedKey::new(row.get(0))).collect())
    }

    /// Ends the leases under a root that have expired.
    pub(crate) async fn end_expired(&self, root: &[u8], now: Timestamp) -> Result<(), StoreError> {
        let (now, caller) = (now.as_micros(), self.is_callers());
        let arguments: [Argument<'_>; 4] = [&self.tab, &root, &now, &caller];
        loop {
            let _share = self.link.share(self.tab, root).await?;
            let statement = "SELECT tidegate.end_expired($1, $2, $3, $4)";
            let rows = self.link.query(statement, &arguments).await?;
            let row = rows.first().ok_or_else(|| garbled("no answer"))?;
            if row.get(0) {
                return Ok(());
            }
        }
    }
}

/// A lease, by the clock of a caller for whom it is `now`.
fn lease(row: &Row, now: Timestamp) -> Result<HeldLease, StoreError> {
    let ahead = i128::from(row.get::<_, i64>(5)) - i128::from(now.as_micros());
    let shares: Result<Vec<i128>, _> = row.get::<_, &str>(4).split(',').map(number).collect();
    let shares = match row.get::<_, &str>(4) {
        "" => Vec::new(),
        _ => shares?,
    };
    let share = |share: &[i128]| (share[0] as u32, share[1] as Amount);
    Ok(HeldLease {
        key: OwnedKey::new(row.get(0)),
        id: number(row.get(1))?,
        granted_at: Timestamp::from_micros(row.get(8)),
        expires_at: translated(Timestamp::from_micros(row.get(2)), ahead),
        fence: number(row.get(3))?,
        taken: shares.chunks_exact(4).map(share).collect(),
    })
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, StoreError> {
    word.parse().map_err(|_| garbled("no number"))
}
