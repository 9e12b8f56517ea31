//! The keys of the one table: what is kept where.
//!
//! ```text
//! partition key `pk`              sort key `sk`                    holds
//! r LENGTH SET ROOT               k                                the root's row, which everything
//!                                                                  of the root hangs on
//! r LENGTH SET ROOT               k KEY                            the row of a key below it
//! r LENGTH SET ROOT               l ID                             a lease
//! r LENGTH SET ROOT               i HASH                           which lease an idempotency key has
//! r LENGTH SET ROOT               u SIZE KEY HOUR                  what a row used in an hour
//! r LENGTH SET ROOT               w CAME TURN                      a request that waits
//! p SET                           r REVISION                       a revision of the set's limits
//! d OWNER                         v                                the version of its definitions
//! d OWNER                         k KEY                            a definition
//! d OWNER                         c VERSION                        that this version was made
//! d OWNER                         e VERSION                        an event
//! d OWNER                         x END VERSION                    that this event ends then
//! s                               v                                the version of this layout
//! ```
//! All are bytes. LENGTH is that of SET in two bytes, SIZE that of KEY in one, ID and TURN have 16, CAME,
//! END and VERSION have 8, HASH 32, REVISION and HOUR 4; numbers have their highest byte first. A SET, ROOT,
//! OWNER or KEY of more than 200 bytes is its first 169 and the SHA-256 of all of it.

use sha2::{Digest, Sha256};
use tidegate_store::Hour;

/// The longest name that stands for itself.
const LONGEST: usize = 200;

/// How many bytes a hash has.
const HASH: usize = 32;

/// So many bytes of a longer name are its beginning.
pub(crate) const HEAD: usize = LONGEST - HASH + 1;

/// What a sort key of a row, or of a definition, begins with.
pub(crate) const ROW: u8 = b'k';
/// Of a lease.
pub(crate) const LEASE: u8 = b'l';
/// Of what was used in an hour.
pub(crate) const USAGE: u8 = b'u';
/// Of a request that waits.
pub(crate) const WAITER: u8 = b'w';
/// Of a version that was made.
const CHANGE: u8 = b'c';
/// Of an event.
pub(crate) const EVENT: u8 = b'e';
/// Of when an event ends.
const ENDING: u8 = b'x';

/// Where an item is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) partition: Vec<u8>,
    pub(crate) sort: Vec<u8>,
}

impl Key {
    /// Where the row of the root is under which this is.
    pub(crate) fn of_root(&self) -> Self {
        Self {
            partition: self.partition.clone(),
            sort: root_row(),
        }
    }
}

/// A name. One that has a hash is longer than any that has none.
pub(crate) fn name(whole: &[u8]) -> Vec<u8> {
    if whole.len() <= LONGEST {
        return whole.to_vec();
    }
    let mut name = whole[..HEAD].to_vec();
    name.extend(Sha256::digest(whole));
    name
}

/// The whole of it, where its name does not say it.
pub(crate) fn whole(key: &[u8]) -> Option<&[u8]> {
    (key.len() > LONGEST).then_some(key)
}

/// What the partitions of all roots of `set` begin with.
pub(crate) fn roots(set: &str) -> Vec<u8> {
    let set = name(set.as_bytes());
    let mut partition = vec![b'r'];
    partition.extend((set.len() as u16).to_be_bytes());
    partition.extend(set);
    partition
}

/// The partition of everything of `root`.
pub(crate) fn root(set: &str, root: &[u8]) -> Vec<u8> {
    let mut partition = roots(set);
    partition.extend(name(root));
    partition
}

/// The partition of a set's revisions.
pub(crate) fn plans(set: &str) -> Vec<u8> {
    with(b'p', &name(set.as_bytes()))
}

/// The partition of what is defined for `owner`.
pub(crate) fn definitions(owner: &str) -> Vec<u8> {
    with(b'd', &name(owner.as_bytes()))
}

/// The sort key of a definition of this name, or where names from it on begin.
pub(crate) fn definition_at(name: &[u8]) -> Vec<u8> {
    with(ROW, name)
}

/// The sort key of a version that was made.
pub(crate) fn change(version: u64) -> Vec<u8> {
    with(CHANGE, &version.to_be_bytes())
}

/// The sort key of an event.
pub(crate) fn event(version: u64) -> Vec<u8> {
    with(EVENT, &version.to_be_bytes())
}

/// The version of the event of a sort key.
pub(crate) fn read_event(sort: &[u8]) -> Option<u64> {
    let version = sort.strip_prefix(&[EVENT])?;
    Some(u64::from_be_bytes(version.try_into().ok()?))
}

/// The sort key of when an event ends.
pub(crate) fn ending(until: i64, version: u64) -> Vec<u8> {
    with(ENDING, &due(until, version))
}

/// When an event ends, and its version, of such a sort key.
pub(crate) fn read_ending(sort: &[u8]) -> Option<(i64, u64)> {
    read_due(sort.strip_prefix(&[ENDING])?)
}

/// The position of an event among those of its subject, behind all versions.
pub(crate) fn event_of(subject: &[u8], version: u64) -> Vec<u8> {
    let name = name(subject);
    let mut position = with(u8::MAX, &(name.len() as u16).to_be_bytes());
    position.extend(name);
    position.extend(version.to_be_bytes());
    position
}

/// Whether a partition is of a set, or of an owner, whose name begins so. `beginning` has at most
/// [`HEAD`] bytes.
pub(crate) fn begins(partition: &[u8], beginning: &[u8]) -> bool {
    match partition {
        [b'r', high, low, rest @ ..] => {
            let set = usize::from(u16::from_be_bytes([*high, *low]));
            rest.get(..set)
                .is_some_and(|set| set.starts_with(beginning))
        }
        [b'p' | b'd', name @ ..] => name.starts_with(beginning),
        _ => false,
    }
}

/// Where the version of the layout is.
pub(crate) fn schema() -> Key {
    Key {
        partition: b"s".to_vec(),
        sort: b"v".to_vec(),
    }
}

/// The sort key of a root's row.
pub(crate) fn root_row() -> Vec<u8> {
    vec![ROW]
}

/// The sort key of the row of `key`, which is below a root.
pub(crate) fn row(key: &[u8]) -> Vec<u8> {
    with(ROW, &name(key))
}

/// The sort key of a lease.
pub(crate) fn lease(id: u128) -> Vec<u8> {
    with(LEASE, &id.to_be_bytes())
}

/// What the sort keys begin with of what `key` used.
pub(crate) fn used_by(key: &[u8]) -> Vec<u8> {
    let name = name(key);
    let mut sort = vec![USAGE, name.len() as u8];
    sort.extend(name);
    sort
}

/// The sort key of what `key` used in an hour.
pub(crate) fn used(key: &[u8], hour: Hour) -> Vec<u8> {
    let mut sort = used_by(key);
    sort.extend(hour.number().to_be_bytes());
    sort
}

/// The name of the row and the hour of such a sort key.
pub(crate) fn read_used(sort: &[u8]) -> Option<(&[u8], Hour)> {
    let (size, rest) = sort.strip_prefix(&[USAGE])?.split_first()?;
    let (name, hour) = rest.split_at_checked(usize::from(*size))?;
    let hour = u32::from_be_bytes(hour.try_into().ok()?);
    Some((name, Hour::new(hour)))
}

/// What an idempotency key is known by.
pub(crate) fn idempotency_hash(key: &[u8]) -> Vec<u8> {
    Sha256::digest(key).to_vec()
}

/// The sort key of where an idempotency key of this hash leads.
pub(crate) fn idempotency(hash: &[u8]) -> Vec<u8> {
    with(b'i', hash)
}

/// The sort key of a request that waits.
pub(crate) fn waiter(came: i64, turn: u128) -> Vec<u8> {
    let mut sort = with(WAITER, &ordered(came));
    sort.extend(turn.to_be_bytes());
    sort
}

/// When the waiter of a sort key came, and what its place is known by.
pub(crate) fn read_waiter(sort: &[u8]) -> Option<(i64, u128)> {
    let (came, turn) = sort.strip_prefix(&[WAITER])?.split_at_checked(8)?;
    let came = u64::from_be_bytes(came.try_into().ok()?) ^ SIGN;
    Some((
        came.cast_signed(),
        u128::from_be_bytes(turn.try_into().ok()?),
    ))
}

/// An instant, and a number behind it, in their order: the position of a lease among those that
/// are due.
pub(crate) fn due(at: i64, sequence: u64) -> Vec<u8> {
    let mut position = ordered(at).to_vec();
    position.extend(sequence.to_be_bytes());
    position
}

/// The instant and the number of such a position.
pub(crate) fn read_due(position: &[u8]) -> Option<(i64, u64)> {
    let (at, sequence) = position.split_at_checked(8)?;
    let at = u64::from_be_bytes(at.try_into().ok()?) ^ SIGN;
    Some((
        at.cast_signed(),
        u64::from_be_bytes(sequence.try_into().ok()?),
    ))
}

/// The sort key of a revision.
pub(crate) fn revision(number: u32) -> Vec<u8> {
    with(b'r', &number.to_be_bytes())
}

/// The number of the revision of a sort key.
pub(crate) fn read_revision(sort: &[u8]) -> Option<u32> {
    let number = sort.strip_prefix(b"r")?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

const SIGN: u64 = 1 << 63;

/// An instant as bytes in its order.
fn ordered(at: i64) -> [u8; 8] {
    (at.cast_unsigned() ^ SIGN).to_be_bytes()
}

fn with(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + rest.len());
    key.push(kind);
    key.extend(rest);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The drawing, of the page and of this file's head, letter by letter.
    #[test]
    fn the_keys_are_as_they_are_drawn() {
        let partition = [b"r\x00\x03".as_slice(), b"api", b"acme"].concat();
        assert_eq!(root("api", b"acme"), partition);
        assert!(partition.starts_with(&roots("api")));
        assert_eq!(root_row(), b"k");
        assert_eq!(row(b"acme/alice"), b"kacme/alice");
        assert_eq!(lease(1), [b"l".as_slice(), &[0; 15], &[1]].concat());
        let hash = idempotency_hash(b"order 7");
        assert_eq!(hash.len(), HASH);
        assert_eq!(idempotency(&hash), [b"i".as_slice(), &hash].concat());
        let came = [0x80, 0, 0, 0, 0, 0, 0, 5];
        let turn = [[0; 15].as_slice(), &[9]].concat();
        assert_eq!(waiter(5, 9), [b"w".as_slice(), &came, &turn].concat());
        let alice = [b"u\x0aacme/alice".as_slice(), &[0, 0, 1, 2]].concat();
        assert_eq!(used(b"acme/alice", Hour::new(258)), alice);
        assert_eq!(plans("api"), b"papi");
        assert_eq!(revision(258), b"r\x00\x00\x01\x02");
        assert_eq!(definitions("overrides"), b"doverrides");
        assert_eq!(change(258), b"c\x00\x00\x00\x00\x00\x00\x01\x02");
        assert_eq!(event(258), b"e\x00\x00\x00\x00\x00\x00\x01\x02");
        let version = [0, 0, 0, 0, 0, 0, 1, 2];
        assert_eq!(ending(5, 258), [b"x".as_slice(), &came, &version].concat());
        assert_eq!(
            (schema().partition, schema().sort),
            (vec![b's'], vec![b'v'])
        );
    }

    /// The page draws the same.
    #[test]
    fn the_page_draws_these_keys() {
        let page = include_str!("../../../docs/stores/dynamodb.md");
        let lines = include_str!("keys.rs").lines();
        let drawn = lines.skip_while(|line| *line != "//! ```text").skip(1);
        let drawn = drawn.take_while(|line| *line != "//! ```");
        let drawn: Vec<_> = drawn.map(|line| line.trim_start_matches("//! ")).collect();
        assert!(drawn.len() > 8);
        for line in drawn {
            assert!(page.lines().any(|of_page| of_page == line), "{line}");
        }
    }

    #[test]
    fn what_is_written_in_order_is_read_back() {
        let instants = [i64::MIN, -5, 0, 7, i64::MAX];
        for pair in instants.windows(2) {
            assert!(due(pair[0], u64::MAX) < due(pair[1], 0));
            assert!(waiter(pair[0], u128::MAX) < waiter(pair[1], 0));
        }
        for at in instants {
            assert_eq!(read_due(&due(at, 3)), Some((at, 3)));
            assert_eq!(read_waiter(&waiter(at, 3)), Some((at, 3)));
            assert_eq!(read_ending(&ending(at, 3)), Some((at, 3)));
        }
        let most = name(&[b'k'; 4_096]);
        let (hour, last) = (Hour::new(7), Hour::MAX);
        assert_eq!(read_used(&used(b"", hour)), Some((&b""[..], hour)));
        assert_eq!(read_used(&used(&[b'k'; 4_096], last)), Some((&*most, last)));
        assert_eq!(read_used(b"u\x05key"), None);
        assert_eq!(read_revision(&revision(77)), Some(77));
        assert_eq!(read_waiter(b"w12"), None);
        assert_eq!(read_event(&event(7)), Some(7));
        assert!(event_of(b"a", u64::MAX) < event_of(b"ab", 0));
        assert!(event_of(b"", 0).as_slice() > i64::MAX.to_be_bytes().as_slice());
    }

    #[test]
    fn no_two_keys_have_one_name_and_none_is_too_long() {
        let (short, long) = ([b'a'; LONGEST], [b'a'; LONGEST + 1]);
        assert_eq!(name(&short), short);
        assert_eq!(name(&long).len(), LONGEST + 1);
        let other = [&long[..], b"b"].concat();
        assert_ne!(name(&long), name(&other));
        assert_ne!(name(&name(&other)), name(&other), "a name as a key");
        assert_eq!((whole(&short), whole(&long)), (None, Some(&long[..])));
        // DynamoDB takes 2,048 and 1,024.
        let most = root(&"s".repeat(512), &[b'k'; 4_096]);
        assert!(most.len() <= 2_048 && row(&[b'k'; 4_096]).len() <= 1_024);
    }
}
