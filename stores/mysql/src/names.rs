//! What a row is called in SQL: its key if that is short, else the key's
//! beginning and a hash of all of it. (An index of InnoDB takes 3,072 bytes, a key
//! may have 4,096.)

use sha2::{Digest, Sha256};

/// The longest key that is its own name.
const LONGEST: usize = 200;

/// So many bytes of a longer key begin its name.
pub(crate) const HEAD: usize = LONGEST - HASH + 1;

/// How many bytes a hash has.
const HASH: usize = 32;

/// A name. One that has a hash is longer than any that has none.
pub(crate) fn name(key: &[u8]) -> Vec<u8> {
    if key.len() <= LONGEST {
        return key.to_vec();
    }
    let hash = Sha256::digest(key);
    let mut name = key[..HEAD].to_vec();
    name.extend(hash);
    name
}

/// The [name](name()) of the parent's key that a value, which is this column, holds at the byte `offset`
/// ([`Definition::parent_key`](tidegate_store::Definition::parent_key)), in SQL; of what is no whole
/// key, some name.
pub(crate) fn parent_name(column: &str, offset: u8) -> String {
    let offset = usize::from(offset);
    let byte = |at: usize| format!("ORD(SUBSTRING({column}, {}, 1))", at + 1);
    let key = format!(
        "SUBSTRING({column}, {}, {} + 256 * {})",
        offset + 6,
        byte(offset + 1),
        byte(offset + 2)
    );
    let name = format!(
        "IF(LENGTH({key}) <= {LONGEST}, {key}, \
         CONCAT(LEFT({key}, {HEAD}), UNHEX(SHA2({key}, 256))))"
    );
    format!("IF({} = 1, {name}, NULL)", byte(offset))
}

/// What the names of all keys begin with that begin with `prefix`.
pub(crate) fn beginning(prefix: &[u8]) -> &[u8] {
    &prefix[..prefix.len().min(HEAD)]
}

/// The whole key, where its name does not say it.
pub(crate) fn whole(key: &[u8]) -> Option<Vec<u8>> {
    (key.len() > LONGEST).then(|| key.to_vec())
}

/// What an idempotency key is found by.
pub(crate) fn idempotency(key: &[u8]) -> Vec<u8> {
    Sha256::digest(key).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_have_one_name() {
        let (short, long) = ([b'a'; LONGEST], [b'a'; LONGEST + 1]);
        assert_eq!(name(&short), short);
        assert_eq!(name(&long).len(), LONGEST + 1);
        let other = [&long[..], b"b"].concat();
        assert_ne!(name(&long), name(&other));
        assert_ne!(name(&name(&other)), name(&other), "a name as a key");
        assert_eq!((whole(&short), whole(&long)), (None, Some(long.to_vec())));
    }
}
