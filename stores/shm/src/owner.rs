//! Where what belongs to an owner is: records whose keys begin with a kind and its name.

use tidegate_store::core::DecodeError;

use crate::error::Fault;
use crate::registry::bucket_of;
use crate::segment::Segment;
use crate::txn::Txn;

/// A key, without what it begins with, and a value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// One owner.
pub(crate) struct Owner<'o> {
    name: &'o [u8],
    pub(crate) bucket: usize,
}

impl<'o> Owner<'o> {
    pub(crate) fn new(segment: &Segment, name: &'o str) -> Self {
        Self {
            name: name.as_bytes(),
            bucket: bucket_of(segment.seed(), name.as_bytes()),
        }
    }

    /// The key of a record of a kind.
    pub(crate) fn of(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = (self.name.len() as u32).to_be_bytes();
        [&[kind], &length[..], self.name, rest].concat()
    }

    /// Records of a kind, from a place (or from behind it) on, at most so many.
    pub(crate) fn some(
        &self,
        txn: &Txn<'_>,
        kind: u8,
        (from, mut is_behind): (&[u8], bool),
        most: usize,
    ) -> Result<Vec<Pair>, Fault> {
        let beginning = self.of(kind, &[]);
        let (mut from, mut found) = (self.of(kind, from), Vec::new());
        while found.len() < most
            && let Some(record) = txn.seek(self.bucket, &from, is_behind)?
        {
            from = txn.key(record)?.into_vec();
            let Some(rest) = from.strip_prefix(&beginning[..]) else {
                break;
            };
            found.push((rest.to_vec(), txn.value(record)?.into_vec()));
            is_behind = true;
        }
        Ok(found)
    }
}

/// The little-endian word at a place.
pub(crate) fn word(bytes: &[u8], at: usize) -> Result<u64, Fault> {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    let word = word.map(u64::from_le_bytes);
    word.ok_or_else(|| DecodeError::Corrupt("a version is none").into())
}
