//! Pages in the order of keys, where an index has a long key by its beginning and a hash.
//!
//! An index is in the order of names: a short key is its own name, a long one's is its
//! beginning and a hash of all of it, so those that begin alike are in no order. A page is
//! read along the index, and of such a group its own keys are put in order; each is found by
//! its range of the index.

use std::future::Future;

use tidegate_store::{Definition, Page, StoreError};

/// What of an owner's is looked at, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Names from here on.
    pub from: Vec<u8>,
    /// Names before this, if any.
    pub to: Option<Vec<u8>>,
    /// Keys behind this one, and itself if that is said.
    pub above: (Vec<u8>, bool),
    /// Keys before this one, if any.
    pub below: Option<Vec<u8>>,
    /// In the order of keys; else of names.
    pub by_key: bool,
    /// At most so many.
    pub most: usize,
}

/// Definitions by names.
pub trait NamedKeys: Sync {
    /// So many bytes of a long key begin its name; a key that is not longer is its own name.
    const HEAD: usize;

    /// Definitions that are not over.
    ///
    /// # Errors
    /// [`StoreError`].
    fn scan(
        &self,
        owner: &str,
        scan: Scan,
    ) -> impl Future<Output = Result<Vec<Definition>, StoreError>> + Send;
}

/// The first bytes that are behind all that begin with `prefix`, if any are.
#[must_use]
pub fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// Where a page begins: the key `after` and those behind it, or if it is not said, those that
/// begin with `prefix`; and whether the key itself is on it.
#[must_use]
pub fn beginning<'a>(prefix: &'a [u8], after: Option<&'a [u8]>) -> (&'a [u8], bool) {
    match after {
        Some(after) if after >= prefix => (after, false),
        _ => (prefix, true),
    }
}

/// A page of definitions, in the order of their keys.
///
/// # Errors
/// Those of the scans.
pub async fn page<N: NamedKeys>(
    named: &N,
    owner: &str,
    (prefix, after): (&[u8], Option<&[u8]>),
    most: usize,
) -> Result<Page<Definition>, StoreError> {
    let (low, is_on_it) = beginning(prefix, after);
    let below = behind(prefix);
    let mut found = Vec::new();
    let mut from = Some(low.to_vec());
    let wanted = most + 1;
    if low.len() >= N::HEAD {
        let head = &low[..N::HEAD];
        let above = (low.to_vec(), is_on_it);
        let group = group(head, above, below.as_deref(), wanted);
        found = named.scan(owner, group).await?;
        from = behind(head);
    }
    if let Some(from) = from
        && found.len() < wanted
        && below.as_ref().is_none_or(|below| from < *below)
    {
        let scan = Scan {
            above: (low.to_vec(), is_on_it),
            to: below.clone(),
            below: below.clone(),
            by_key: false,
            most: wanted - found.len(),
            from,
        };
        along(named, owner, scan, &mut found).await?;
    }
    let is_last = found.len() <= most;
    found.truncate(most);
    let last = found.last().filter(|_| !is_last);
    let next = last.map(|last| last.key.clone());
    Ok(Page { items: found, next })
}

/// Those whose names begin with `head`, in the order of their keys.
fn group(head: &[u8], above: (Vec<u8>, bool), below: Option<&[u8]>, most: usize) -> Scan {
    Scan {
        from: head.to_vec(),
        to: behind(head),
        above,
        below: below.map(<[u8]>::to_vec),
        by_key: true,
        most,
    }
}

/// Reads along the index, and puts those that begin alike in order.
async fn along<N: NamedKeys>(
    named: &N,
    owner: &str,
    scan: Scan,
    found: &mut Vec<Definition>,
) -> Result<(), StoreError> {
    let (most, below) = (scan.most, scan.below.clone());
    let mut rows = named.scan(owner, scan).await?;
    let is_cut = rows.len() == most;
    let head = |one: &Definition| one.key.get(..N::HEAD).map(<[u8]>::to_vec);
    // Of the last group some may be missing.
    let last = rows.last().and_then(head).filter(|_| is_cut);
    if let Some(last) = &last {
        rows.retain(|one| head(one).as_ref() != Some(last));
    }
    // Only those that begin alike change places.
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    let left = most - rows.len();
    found.extend(rows);
    if let Some(last) = last {
        let group = group(&last, (last.clone(), true), below.as_deref(), left);
        found.extend(named.scan(owner, group).await?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    /// Names as a database has them: four bytes, and for longer keys what looks random.
    struct Names(BTreeMap<Vec<u8>, Vec<u8>>, Mutex<usize>);

    impl Names {
        fn of(keys: &[&[u8]]) -> Self {
            let name = |key: &[u8]| match key.len() {
                0..=6 => key.to_vec(),
                _ => {
                    let sum = key.iter().fold(7_u8, |sum, &b| sum.wrapping_mul(31) ^ b);
                    [&key[..Self::HEAD], &[sum, 0, 0, 0, 0, key.len() as u8]].concat()
                }
            };
            let names = keys.iter().map(|key| (name(key), key.to_vec()));
            Self(names.collect(), Mutex::new(0))
        }
    }

    impl NamedKeys for Names {
        const HEAD: usize = 4;

        async fn scan(&self, _: &str, scan: Scan) -> Result<Vec<Definition>, StoreError> {
            *self.1.lock().expect("no test panics there") += 1;
            let names = self.0.range(scan.from.clone()..);
            let within = |name: &Vec<u8>| scan.to.as_ref().is_none_or(|to| name < to);
            let mut keys: Vec<&Vec<u8>> = names
                .filter(|(name, _)| within(name))
                .map(|(_, key)| key)
                .filter(|key| match &scan.above {
                    (above, true) => *key >= above,
                    (above, false) => *key > above,
                })
                .filter(|key| scan.below.as_ref().is_none_or(|below| *key < below))
                .collect();
            if scan.by_key {
                keys.sort();
            }
            let keys = keys.into_iter().take(scan.most);
            Ok(keys
                .map(|key| Definition::new(key.as_slice(), b""))
                .collect())
        }
    }

    const KEYS: [&[u8]; 14] = [
        b"",
        b"a",
        b"aaaa",
        b"aaaa1",
        b"aaaa2222",
        b"aaaa2223",
        b"aaaa2224",
        b"aaaazzzzzz",
        b"aaab",
        b"aaabcdefgh",
        b"b",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff1234",
        b"\xff\xff\xff\xff\xff\xff\xff",
    ];

    fn walked(names: &Names, prefix: &[u8], most: usize) -> Vec<Vec<u8>> {
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let read = page(names, "me", (prefix, after.as_deref()), most);
            let page = tidegate_store::block_on(read).expect("an answer");
            assert!(page.items.len() <= most);
            all.extend(page.items.into_iter().map(|one| one.key));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn pages_are_in_the_order_of_keys_whatever_their_names() {
        let names = Names::of(&KEYS);
        let mut sorted: Vec<Vec<u8>> = KEYS.iter().map(|key| key.to_vec()).collect();
        sorted.sort();
        for prefix in [
            &b""[..],
            b"a",
            b"aaa",
            b"aaaa",
            b"aaaa2",
            b"aaaa222",
            b"\xff",
            b"\xff\xff\xff\xff\xff",
            b"x",
        ] {
            let expected: Vec<_> = sorted
                .iter()
                .filter(|key| key.starts_with(prefix))
                .cloned()
                .collect();
            for most in 1..=15 {
                assert_eq!(walked(&names, prefix, most), expected, "{prefix:?} {most}");
            }
        }
    }

    #[test]
    fn a_page_of_short_keys_is_one_scan() {
        let names = Names::of(&[b"a", b"b", b"c"]);
        let read = page(&names, "me", (b"", Some(b"a")), 1);
        let page = tidegate_store::block_on(read).expect("an answer");
        assert_eq!(page.next.as_deref(), Some(&b"b"[..]));
        assert_eq!(*names.1.lock().expect("no test panics there"), 1);
    }
}
