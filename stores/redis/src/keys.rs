//! The names of keys: everything of one root under one hash tag.
//!
//! ```text
//! {prefix:table:root}:r...   a row; after the r, what its name adds to the root
//! {prefix:table:root}:e...   the row of an entity; after the e, what its name has behind the root
//! {prefix:table:root}:b      the leases of the root
//! {prefix:table:root}:d      what of them is due when
//! {prefix:table:root}:q      the order of those who wait
//! {prefix:table:root}:w      who they are
//! {prefix:table:root}:u      what was used under the root, hour by hour
//! {prefix:table:root}:h      the same in order
//! {prefix:table}:plans       the revisions of the table's plan
//! {prefix:table}:used        the roots under which something was used, in order
//! {prefix:table}:used:until  until when each stays there
//! {prefix:owner}:own         what is defined for an owner
//! {prefix:owner}:own:log     its last changes, in order
//! {prefix:owner}:own:ends    until when some of it lasts
//! {prefix:owner}:own:keys    its keys in order
//! {prefix:owner}:told        what is told of its changes
//! {prefix:owner}:told:order  in the order of their versions
//! {prefix:owner}:told:about  those about each subject
//! {prefix:owner}:told:ends   until when they last
//! ```
//! Whatever bytes prefix, table and root have, `%`, `:`, `{` and `}` in them are
//! written as `%` and two digits: no two tags are alike, and none ends early.

use tidegate_store::key::root_of_beginning;
use tidegate_store::{KeyPath, Select};

/// The names of one table's keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `prefix:table`
    table: Vec<u8>,
}

impl Names {
    pub(crate) fn new(prefix: &str, table: &str) -> Self {
        let mut name = Vec::new();
        escape(prefix.as_bytes(), &mut name);
        name.push(b':');
        escape(table.as_bytes(), &mut name);
        Self { table: name }
    }

    /// What tells the table from every other.
    pub(crate) fn table(&self) -> &[u8] {
        &self.table
    }

    /// Where the revisions of the plan are.
    pub(crate) fn plans(&self) -> Vec<u8> {
        [b"{", self.table.as_slice(), b"}:plans"].concat()
    }

    /// The roots under which something was used in order, and until when each stays there.
    pub(crate) fn counted_roots(&self) -> [Vec<u8>; 2] {
        self.beside("used", ["", ":until"])
    }

    /// Where an owner's definitions are, their last changes, until when some of them last, and
    /// the order of their keys.
    pub(crate) fn definitions(&self) -> [Vec<u8>; 4] {
        self.beside("own", ["", ":log", ":ends", ":keys"])
    }

    /// Where its events are, in which order, those about each subject, and until when they
    /// last.
    pub(crate) fn events(&self) -> [Vec<u8>; 4] {
        self.beside("told", ["", ":order", ":about", ":ends"])
    }

    fn beside<const N: usize>(&self, own: &str, words: [&str; N]) -> [Vec<u8>; N] {
        let own = [b"{", self.table.as_slice(), b"}:", own.as_bytes()].concat();
        words.map(|word| [own.as_slice(), word.as_bytes()].concat())
    }

    /// The ledger, its order of time, the order of those who wait, who they are, the records of usage,
    /// their order, and the rows of `path`, outermost first.
    pub(crate) fn of(&self, path: &KeyPath<'_>) -> Vec<Vec<u8>> {
        let tag = self.tag(path.root());
        let rows = (0..path.depth()).map(|level| self.row(path, level));
        let ledger = [
            [&tag, b":b".as_slice()].concat(),
            [&tag, b":d".as_slice()].concat(),
            [&tag, b":q".as_slice()].concat(),
            [&tag, b":w".as_slice()].concat(),
        ];
        let usage = self.usage(path.root());
        ledger.into_iter().chain(usage).chain(rows).collect()
    }

    /// What was used under a root: its records, and their order.
    fn usage(&self, root: &[u8]) -> [Vec<u8>; 2] {
        let tag = self.tag(root);
        [b":u", b":h"].map(|end| [&tag, end.as_slice()].concat())
    }

    /// What a listing of usage asks of a root: its records, their order, the order of time of its leases,
    /// and its row.
    pub(crate) fn usage_listing(&self, root: &[u8]) -> [Vec<u8>; 4] {
        let tag = self.tag(root);
        [b":u", b":h", b":d", b":r"].map(|end| [&tag, end.as_slice()].concat())
    }

    /// The row of a path of one level, the order of those who wait; if leases matter, the ledger,
    /// its order of time; and if usage is counted, its records, their order.
    pub(crate) fn plain(&self, path: &KeyPath<'_>, leases: bool, counts: bool) -> Vec<Vec<u8>> {
        let tag = self.tag(path.root());
        let ends: &[&[u8]] = match leases {
            true => &[b":r", b":q", b":b", b":d"],
            false => &[b":r", b":q"],
        };
        let usage: &[&[u8]] = if counts { &[b":u", b":h"] } else { &[] };
        ends.iter()
            .chain(usage)
            .map(|end| [&tag, *end].concat())
            .collect()
    }

    /// The row of `path` at `level`.
    pub(crate) fn row(&self, path: &KeyPath<'_>, level: usize) -> Vec<u8> {
        let (root, name) = (path.root(), path.row(level));
        let (kind, rest) = match name.strip_prefix(root) {
            Some(rest) => (b":r", rest),
            // `/ROOT//ID`, which no row begins with its root like.
            None => (b":e", &name[1 + root.len()..]),
        };
        [&self.tag(root), kind.as_slice(), rest].concat()
    }

    /// A pattern for `SCAN` that all rows match that are to be listed, and others
    /// of the same root.
    pub(crate) fn rows(&self, select: Select<'_>, levels: usize) -> Vec<u8> {
        [self.roots(select, levels), b"}:[er]*".to_vec()].concat()
    }

    /// The same for what is due when.
    pub(crate) fn ledgers(&self, select: Select<'_>, levels: usize) -> Vec<u8> {
        [self.roots(select, levels), b"}:d".to_vec()].concat()
    }

    /// A pattern for `SCAN` that all keys match of tables and owners whose names begin with
    /// this one, and no others.
    pub(crate) fn everything(&self) -> Vec<u8> {
        beginning(&[b"{", self.table.as_slice()].concat())
    }

    fn roots(&self, select: Select<'_>, levels: usize) -> Vec<u8> {
        let (root, _) = root_of_beginning(select.beginning(), levels);
        let mut name = [b"{", self.table.as_slice(), b":"].concat();
        escape(root, &mut name);
        beginning(&name)
    }

    /// The key or ancestor whose row has this name.
    pub(crate) fn key_of(&self, row: &[u8]) -> Option<Vec<u8>> {
        let (root, rest) = self.parted(row)?;
        let (kind, rest) = rest.split_first()?;
        let root = unescape(root)?;
        match kind {
            b'r' => Some([&root, rest].concat()),
            b'e' => Some([b"/", root.as_slice(), rest].concat()),
            _ => None,
        }
    }

    /// The leases that are due in the order of this name.
    pub(crate) fn ledger_of(&self, due: &[u8]) -> Option<Vec<u8>> {
        let (_, rest) = self.parted(due)?;
        (rest == b"d").then(|| [&due[..due.len() - 1], b"b"].concat())
    }

    /// The root in a name of this table, as it is written there, and what stands
    /// behind its tag. (No tag has a brace within.)
    fn parted<'n>(&self, name: &'n [u8]) -> Option<(&'n [u8], &'n [u8])> {
        let rest = name.strip_prefix(b"{")?.strip_prefix(&self.table[..])?;
        let rest = rest.strip_prefix(b":")?;
        let end = rest.iter().position(|&byte| byte == b'}')?;
        Some((&rest[..end], rest[end..].strip_prefix(b"}:")?))
    }

    fn tag(&self, root: &[u8]) -> Vec<u8> {
        let mut tag = b"{".to_vec();
        tag.extend(&self.table);
        tag.push(b':');
        escape(root, &mut tag);
        tag.push(b'}');
        tag
    }
}

/// A pattern for what begins so.
fn beginning(name: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::new();
    for &byte in name {
        if b"*?[]^-\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'%' | b':' | b'{' | b'}' => out.extend(format!("%{byte:02X}").bytes()),
            _ => out.push(byte),
        }
    }
}

fn unescape(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        plain.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_of_its_root_alone_and_ends_where_it_should() {
        let names = Names::new("pre:fix", "a {table}");
        let path = KeyPath::new(b"}{/x/y", 3).expect("a key");
        let keys = names.of(&path);
        let text: Vec<_> = keys
            .iter()
            .map(|key| key.escape_ascii().to_string())
            .collect();
        let tag = "{pre%3Afix:a %7Btable%7D:%7D%7B}";
        assert_eq!(
            text,
            ["b", "d", "q", "w", "u", "h", "r", "r/x", "r/x/y"].map(|end| format!("{tag}:{end}"))
        );
        let found: Vec<_> = keys.iter().filter_map(|key| names.key_of(key)).collect();
        assert_eq!(found, [&b"}{"[..], b"}{/x", b"}{/x/y"]);
        let ledgers: Vec<_> = keys.iter().filter_map(|key| names.ledger_of(key)).collect();
        assert_eq!(ledgers, [keys[0].clone()]);
        let path = KeyPath::new(b"/}{/x/y", 3).expect("a key");
        let entities = names.of(&path);
        assert_eq!(entities[..7], keys[..7]);
        assert_eq!(entities[7], format!("{tag}:e/x").as_bytes());
        assert_eq!(entities[8], format!("{tag}:e//y").as_bytes());
        let found: Vec<_> = entities
            .iter()
            .filter_map(|key| names.key_of(key))
            .collect();
        assert_eq!(found, [&b"}{"[..], b"/}{/x", b"/}{//y"]);
        let other = Names::new("pre:fix", "a {table}s");
        assert_eq!(other.key_of(&keys[6]), None);
        assert_eq!(other.ledger_of(&keys[1]), None);
    }
}
