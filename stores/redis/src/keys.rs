//! The names of keys: everything of one root under one hash tag.
//!
//! ```text
//! {prefix:table:root}:r...   a row; after the r, what the path adds to the root
//! {prefix:table:root}:b      the leases of the root
//! {prefix:table:root}:d      what of them is due when
//! {prefix:table}:plans       the editions of the table's plan
//! ```
//! Whatever bytes prefix, table and root have, `%`, `:`, `{` and `}` in them are
//! written as `%` and two digits: no two tags are alike, and none ends early.

use tidegate_contract::KeyPath;

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

    /// Where the editions of the plan are.
    pub(crate) fn plans(&self) -> Vec<u8> {
        [b"{", self.table.as_slice(), b"}:plans"].concat()
    }

    /// The book, its order of time, and the rows of `path`, outermost first.
    pub(crate) fn of(&self, path: &KeyPath<'_>) -> Vec<Vec<u8>> {
        let tag = self.tag(path.root());
        let rows = (0..path.depth()).map(|level| self.row(path, level));
        let book = [
            [&tag, b":b".as_slice()].concat(),
            [&tag, b":d".as_slice()].concat(),
        ];
        book.into_iter().chain(rows).collect()
    }

    /// The row of `path` at `level`.
    pub(crate) fn row(&self, path: &KeyPath<'_>, level: usize) -> Vec<u8> {
        let mut row = self.tag(path.root());
        row.extend(b":r");
        row.extend(&path.prefix(level)[path.root().len()..]);
        row
    }

    /// A pattern for `SCAN` that all rows of the table match.
    pub(crate) fn all_rows(&self) -> Vec<u8> {
        let mut pattern = b"{".to_vec();
        for &byte in &self.table {
            if b"*?[]^-\\".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.extend(b":*}:r*");
        pattern
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

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'%' | b':' | b'{' | b'}' => out.extend(format!("%{byte:02X}").bytes()),
            _ => out.push(byte),
        }
    }
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
            ["b", "d", "r", "r/x", "r/x/y"].map(|end| format!("{tag}:{end}"))
        );
    }
}
