//! Keys: bytes of any content, seen as a path of ancestors.
//!
//! A set with one level takes a key as it is, whatever its bytes are. Under a set of more levels
//! a key is written in one of two ways.
//!
//! **A composed key**: `acme/search/alice`. A set with n levels splits it at `/` into at most n
//! segments (the last keeps the rest), and every prefix is an ancestor: under `org/team/user` it
//! has the ancestors `acme` and `acme/search`. Each of them names a row, where a store keeps what
//! was used: `alice` under another team is another row.
//!
//! **A path of entities**: `/acme/search/alice`, with a slash in front. Each segment is the id of
//! an entity, two at least and at most one for each level of the set. The row of an entity is
//! found by its root and its id, whatever stands between the two: an entity that moves within its
//! root keeps what it has used.
//!
//! | level | row of `/acme/search/alice` | row of `acme/search/alice` |
//! |---|---|---|
//! | 0 | `acme` | `acme` |
//! | 1 | `/acme/search` | `acme/search` |
//! | 2 | `/acme//alice` | `acme/search/alice` |
//!
//! The root's row is the same for both; by itself a root is the key `acme`. The row of a deeper
//! entity is named by the path to it with nothing between the slashes of its parents, which no
//! composed key is. Its level is in its name: an entity is at one level, and where another level
//! has the same id, that is another entity. The name of a row stands for its entity where nothing
//! is charged: in overrides and listings.
//!
//! The root, the first segment, decides where a store keeps all of it. A segment that itself
//! contains `/` is written with [`escape`], which keeps keys unambiguous.

use std::borrow::Cow;
use std::ops::Range;

/// Stands between segments, and in front of a path of entities.
const SEPARATOR: u8 = b'/';
/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4_096;
/// The most levels a set may have.
pub const MAX_LEVELS: usize = 8;

/// A key that cannot be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// No bytes at all.
    #[error("the key is empty; name who or what is limited")]
    Empty,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the key has {0} bytes; at most {MAX_KEY_BYTES} are accepted: hash it first")]
    TooLong(usize),
    /// Two separators with nothing between them, or one at either end.
    #[error("the key has an empty segment; write a segment's own '/' as %2F")]
    EmptySegment,
    /// A path of more entities than the set has levels.
    #[error(
        "the key begins with '/', so it is a path of entities: it has {entities}, and the limits \
         are over {levels} levels; write a '/' that is part of an id as %2F"
    )]
    TooManyEntities {
        /// So many segments it has.
        entities: usize,
        /// So many there may be.
        levels: usize,
    },
    /// A path of entities where the name of a row is meant.
    #[error(
        "an entity is named by its root and its id, with nothing between the slashes of those \
         that it stands below now: '/acme//alice', not '/acme/search/alice'"
    )]
    Parents,
}

/// A key with where its ancestors end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPath<'a> {
    bytes: &'a [u8],
    ends: Ends,
}

/// Where a key's ancestors end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends {
    ends: [u16; MAX_LEVELS - 1],
    ancestors: u8,
    /// It is a path of two entities or more.
    entities: bool,
}

impl<'a> KeyPath<'a> {
    /// The key that a caller has written, under a set of `levels` levels.
    ///
    /// # Errors
    /// [`KeyError`]: empty, too long, with an empty segment, or a path of more entities than
    /// there are levels.
    #[inline]
    pub fn new(bytes: &'a [u8], levels: usize) -> Result<Self, KeyError> {
        check(bytes)?;
        let ends = match (levels, bytes[0]) {
            (0 | 1, _) => Ends::default(),
            (_, SEPARATOR) => entities(bytes, levels)?,
            _ => split(bytes, levels)?,
        };
        Ok(Self { bytes, ends })
    }

    /// The path to the row of this name, [`row_name`] of a key, under a set of `levels` levels. Of
    /// an entity's it has no parents but the root.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`KeyError::Parents`].
    pub fn of_row(name: &'a [u8], levels: usize) -> Result<Self, KeyError> {
        check(name)?;
        if levels < 2 || name[0] != SEPARATOR {
            return Self::new(name, levels);
        }
        let (ends, is_whole) = split_entities(name, levels)?;
        let path = Self { bytes: name, ends };
        match (1..path.depth() - 1).all(|level| path.lacks(level)) {
            _ if !is_whole => Err(too_many(name, levels)),
            true => Ok(path),
            false => Err(KeyError::Parents),
        }
    }

    /// What a store has kept: the name of a row, or the [`bytes`](Self::bytes) of a path, under a
    /// set of `levels` levels. Of a path of more entities the outermost count, as many as there
    /// are levels: the limits had more of them once.
    ///
    /// # Errors
    /// [`KeyError`]: empty, too long, or with an empty segment where none can be.
    pub fn stored(bytes: &'a [u8], levels: usize) -> Result<Self, KeyError> {
        check(bytes)?;
        let ends = match (levels, bytes[0]) {
            (0 | 1, _) => Ends::default(),
            (_, SEPARATOR) => split_entities(bytes, levels)?.0,
            _ => split(bytes, levels)?,
        };
        Ok(Self { bytes, ends })
    }

    /// A key whose ancestors are known.
    pub(crate) const fn of(bytes: &'a [u8], ends: Ends) -> Self {
        Self { bytes, ends }
    }

    pub(crate) const fn ends(&self) -> Ends {
        self.ends
    }

    /// The whole key.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many levels the key has: 1 for a key without ancestors.
    #[inline]
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.ends.ancestors as usize + 1
    }

    /// The name of the row at `level`, the outermost first. Those of a composed key are its
    /// prefixes, the last is the key itself; see the [module](self) for those of a path of
    /// entities.
    ///
    /// # Panics
    /// There is no such level.
    #[inline]
    #[must_use]
    pub fn row(&self, level: usize) -> Cow<'a, [u8]> {
        let ancestors = usize::from(self.ends.ancestors);
        assert!(level <= ancestors, "a level that the key does not reach");
        if self.ends.entities {
            return self.row_of_entity(level);
        }
        Cow::Borrowed(match level < ancestors {
            true => &self.bytes[..usize::from(self.ends.ends[level])],
            false => self.bytes,
        })
    }

    /// The names of all its rows, the outermost first.
    pub fn rows(&self) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
        let path = *self;
        (0..path.depth()).map(move |level| path.row(level))
    }

    /// The name of the key's own row, the last of them.
    #[must_use]
    pub fn own_row(&self) -> Cow<'a, [u8]> {
        self.row(self.depth() - 1)
    }

    /// The outermost ancestor: what decides where a store keeps all of them.
    #[inline]
    #[must_use]
    pub fn root(&self) -> &'a [u8] {
        match self.ends.ancestors {
            0 => self.bytes,
            _ => &self.bytes[usize::from(self.ends.entities)..usize::from(self.ends.ends[0])],
        }
    }

    /// Where the segments of its levels begin and end in its bytes, the outermost first.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<'a> {
        let path = *self;
        (0..path.depth()).map(move |level| path.segment(level))
    }

    fn segment(&self, level: usize) -> Range<usize> {
        let start = match level {
            0 => usize::from(self.ends.entities),
            _ => usize::from(self.ends.ends[level - 1]) + 1,
        };
        let rest = &self.bytes[start..];
        let length = match level < usize::from(self.ends.ancestors) {
            true => usize::from(self.ends.ends[level]) - start,
            // The limits may have had more levels once.
            false if self.ends.entities => position(rest).unwrap_or(rest.len()),
            false => rest.len(),
        };
        start..start + length
    }

    /// Whether it does not say whose row it has at `level`: it is the name of an entity's row,
    /// and nothing stands between that and the root.
    #[must_use]
    pub fn lacks(&self, level: usize) -> bool {
        self.ends.entities && self.segment(level).is_empty()
    }

    #[cold]
    fn row_of_entity(&self, level: usize) -> Cow<'a, [u8]> {
        let (root, id) = (self.root(), self.segment(level));
        match level {
            0 => Cow::Borrowed(root),
            // Nothing stands between: as it is where the path is the name of a row.
            _ if id.start == 1 + root.len() + level => Cow::Borrowed(&self.bytes[..id.end]),
            _ => {
                let mut name = Vec::with_capacity(1 + root.len() + level + id.len());
                name.push(SEPARATOR);
                name.extend_from_slice(root);
                name.resize(name.len() + level, SEPARATOR);
                name.extend_from_slice(&self.bytes[id]);
                Cow::Owned(name)
            }
        }
    }
}

/// Checks the length alone: all that a set of one level asks of a key.
///
/// # Errors
/// [`KeyError`]: empty or too long.
#[inline]
pub const fn check(bytes: &[u8]) -> Result<(), KeyError> {
    match bytes.len() {
        0 => Err(KeyError::Empty),
        1..=MAX_KEY_BYTES => Ok(()),
        length => Err(KeyError::TooLong(length)),
    }
}

/// Appends `segment` to the path `key`, its own `/` and `%` escaped; an empty
/// one is written `%`, which nothing else is.
pub fn push_segment(key: &mut Vec<u8>, segment: &[u8]) {
    if !key.is_empty() {
        key.push(b'/');
    }
    if segment.is_empty() {
        key.push(b'%');
    }
    escape(segment, key);
}

/// Writes `segment` with `%` as `%25` and `/` as `%2F`.
pub fn escape(segment: &[u8], out: &mut Vec<u8>) {
    for &byte in segment {
        match byte {
            b'/' => out.extend(b"%2F"),
            b'%' => out.extend(b"%25"),
            _ => out.push(byte),
        }
    }
}

/// The name of the row that `key` is about under a set of `levels` levels: `/acme//alice` of
/// `/acme/search/alice`. A composed key, the name of a row, and what is no key, is left as it is.
#[must_use]
pub fn row_name(key: &[u8], levels: usize) -> Cow<'_, [u8]> {
    match key.first() {
        Some(&SEPARATOR) if levels > 1 => match split_entities(key, levels) {
            Ok((ends, true)) => KeyPath { bytes: key, ends }.own_row(),
            _ => Cow::Borrowed(key),
        },
        _ => Cow::Borrowed(key),
    }
}

/// The level of the row of this name under a set of `levels` levels.
#[must_use]
pub fn level_of_row(name: &[u8], levels: usize) -> usize {
    let separators = name.iter().filter(|&&byte| byte == SEPARATOR).count();
    let level = separators - usize::from(name.first() == Some(&SEPARATOR));
    level.min(levels.max(1) - 1)
}

/// The root of the row, or of the path, that is kept under a set of `levels` levels; what is none
/// is its own.
#[must_use]
pub fn root_of(stored: &[u8], levels: usize) -> &[u8] {
    KeyPath::stored(stored, levels).map_or(stored, |path| path.root())
}

/// What the roots of all rows and paths begin with that begin with `beginning`, and whether that
/// is a whole root, the only one there is, under a set of `levels` levels.
#[must_use]
pub fn root_of_beginning(beginning: &[u8], levels: usize) -> (&[u8], bool) {
    if levels <= 1 {
        return (beginning, false);
    }
    let root = beginning.strip_prefix(b"/").unwrap_or(beginning);
    position(root).map_or((root, false), |end| (&root[..end], true))
}

fn position(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == SEPARATOR)
}

/// A path of entities as a caller writes it: all of its ids are there.
#[cold]
fn entities(bytes: &[u8], levels: usize) -> Result<Ends, KeyError> {
    let (ends, is_whole) = split_entities(bytes, levels)?;
    match bytes.windows(2).any(|two| two == [SEPARATOR; 2]) {
        true => Err(KeyError::EmptySegment),
        false if !is_whole => Err(too_many(bytes, levels)),
        false => Ok(ends),
    }
}

fn too_many(bytes: &[u8], levels: usize) -> KeyError {
    KeyError::TooManyEntities {
        entities: bytes.iter().filter(|&&byte| byte == SEPARATOR).count(),
        levels,
    }
}

/// Where the outermost `levels` of two entities or more end, of which those between the root and
/// the last may be left out; and whether there are no more.
fn split_entities(bytes: &[u8], levels: usize) -> Result<(Ends, bool), KeyError> {
    let mut ends = Ends {
        entities: true,
        ..Ends::default()
    };
    let mut start = 1;
    let is_whole = loop {
        let Some(length) = position(&bytes[start..]) else {
            break true;
        };
        if usize::from(ends.ancestors) + 1 == levels.min(MAX_LEVELS) {
            break false;
        }
        ends.ends[usize::from(ends.ancestors)] = (start + length) as u16;
        ends.ancestors += 1;
        start += length + 1;
    };
    let has_root = ends.ancestors > 0 && ends.ends[0] > 1;
    match has_root && bytes.last() != Some(&SEPARATOR) {
        true => Ok((ends, is_whole)),
        false => Err(KeyError::EmptySegment),
    }
}

fn split(bytes: &[u8], levels: usize) -> Result<Ends, KeyError> {
    let (mut ends, mut start) = (Ends::default(), 0);
    while usize::from(ends.ancestors) + 1 < levels.min(MAX_LEVELS) {
        let Some(length) = position(&bytes[start..]) else {
            break;
        };
        if length == 0 {
            return Err(KeyError::EmptySegment);
        }
        ends.ends[usize::from(ends.ancestors)] = (start + length) as u16;
        ends.ancestors += 1;
        start += length + 1;
    }
    if start == bytes.len() {
        return Err(KeyError::EmptySegment);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(key: &[u8], levels: usize) -> Result<Vec<String>, KeyError> {
        let path = KeyPath::new(key, levels)?;
        let text = |row: Cow<'_, [u8]>| row.escape_ascii().to_string();
        Ok(path.rows().map(text).collect())
    }

    #[test]
    fn a_composed_key_has_its_prefixes_for_rows() {
        assert_eq!(rows(b"a/b/c/d", 3).unwrap(), ["a", "a/b", "a/b/c/d"]);
        assert_eq!(rows(b"a/b", 3).unwrap(), ["a", "a/b"]);
        assert_eq!(rows(b"a/b//", 1).unwrap(), ["a/b//"]);
        for key in [&b"a//b"[..], b"a/b/"] {
            assert_eq!(rows(key, 3), Err(KeyError::EmptySegment));
        }
    }

    #[test]
    fn an_entity_has_one_row_whatever_its_parents_are() {
        let search = rows(b"/acme/search/alice", 3).unwrap();
        let sales = rows(b"/acme/sales/alice", 3).unwrap();
        assert_eq!(search, ["acme", "/acme/search", "/acme//alice"]);
        assert_eq!(sales, ["acme", "/acme/sales", "/acme//alice"]);
        let elsewhere = rows(b"/other/search/alice", 3).unwrap();
        assert!(elsewhere.iter().all(|row| !search.contains(row)));
        // The same id at another level is another entity.
        assert_eq!(rows(b"/acme/alice", 3).unwrap(), ["acme", "/acme/alice"]);
        let deepest = rows(b"/1/2/3/4/5/6/7/8", MAX_LEVELS).unwrap();
        assert_eq!(deepest[7], "/1///////8");
    }

    #[test]
    fn a_key_of_one_level_is_what_it_is_with_slashes_in_front_too() {
        for key in ["/", "//", "/acme", "/v1/users", "//cdn/a/b", "/acme//alice"] {
            let bytes = key.as_bytes();
            let path = KeyPath::new(bytes, 1).unwrap();
            assert_eq!(
                (path.depth(), path.root(), &*path.row(0)),
                (1, bytes, bytes)
            );
            assert_eq!(KeyPath::of_row(bytes, 1), Ok(path));
            assert_eq!(KeyPath::stored(bytes, 1), Ok(path));
            assert_eq!(*row_name(bytes, 1), *bytes);
            assert_eq!(root_of(bytes, 1), bytes);
            assert_eq!(level_of_row(bytes, 1), 0);
        }
    }

    #[test]
    fn a_path_of_more_entities_than_levels_is_refused() {
        for levels in 2..MAX_LEVELS {
            let key = "/e".repeat(levels + 1);
            let expected = KeyError::TooManyEntities {
                entities: levels + 1,
                levels,
            };
            assert_eq!(rows(key.as_bytes(), levels), Err(expected));
            assert!(rows(&key.as_bytes()[2..], levels).is_ok());
        }
        let most = rows("/e".repeat(2_048).as_bytes(), MAX_LEVELS);
        assert!(matches!(
            most,
            Err(KeyError::TooManyEntities {
                entities: 2_048,
                ..
            })
        ));
    }

    #[test]
    fn an_entity_without_an_id_or_without_a_root_is_refused() {
        for key in ["/", "//", "/a", "/a/", "//a", "/a//b", "/a/b/", "///"] {
            for levels in 2..=MAX_LEVELS {
                let refused = rows(key.as_bytes(), levels);
                assert_eq!(refused, Err(KeyError::EmptySegment), "{key} of {levels}");
            }
        }
    }

    #[test]
    fn a_row_of_an_entity_says_nothing_of_its_parents() {
        let whole = KeyPath::of_row(b"/acme/search/alice", 3);
        assert_eq!(whole, Err(KeyError::Parents));
        let name = row_name(b"/acme/search/alice", 3);
        assert_eq!(*name, *b"/acme//alice");
        assert!(KeyPath::of_row(&name, 3).is_ok());
    }

    /// Every path and every composed key of a few short segments, and the names of their rows.
    fn all(levels: usize) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let mut keys = vec![Vec::new()];
        let is_key = |key: &Vec<u8>| key[0] != b'/' || (levels > 1 && key[1..].contains(&b'/'));
        for length in 1..=levels {
            for key in keys
                .clone()
                .iter()
                .filter(|key| key.len() == 2 * (length - 1))
            {
                keys.extend([b"/a", b"/b"].map(|segment| [&key[..], segment].concat()));
            }
        }
        let both = keys[1..]
            .iter()
            .flat_map(|key| [key.clone(), key[1..].to_vec()]);
        let with_rows = |key: Vec<u8>| {
            let path = KeyPath::new(&key, levels).unwrap();
            let rows = path.rows().map(Cow::into_owned).collect();
            (key, rows)
        };
        both.filter(is_key).map(with_rows).collect()
    }

    #[test]
    fn a_name_says_its_root_its_level_and_itself() {
        for levels in 1..=4 {
            for (key, rows) in all(levels) {
                let stored = KeyPath::stored(KeyPath::new(&key, levels).unwrap().bytes(), levels);
                assert_eq!(stored, KeyPath::new(&key, levels));
                assert_eq!(*row_name(&key, levels), *rows[rows.len() - 1]);
                for (level, row) in rows.iter().enumerate() {
                    let path = KeyPath::of_row(row, levels).unwrap();
                    assert_eq!(KeyPath::stored(row, levels), Ok(path));
                    assert_eq!((path.depth() - 1, path.root()), (level, &*rows[0]));
                    assert_eq!(*path.own_row(), **row);
                    let between = if row[0] == b'/' { 1..level } else { 0..0 };
                    let lacking = (0..=level).filter(|level| path.lacks(*level));
                    assert!(lacking.eq(between), "what stands between is not said");
                    assert_eq!(*row_name(row, levels), **row);
                    assert_eq!(level_of_row(row, levels), level);
                    assert_eq!(root_of(row, levels), rows[0]);
                    assert!(row.len() <= key.len(), "no longer than a key may be");
                }
            }
        }
    }

    #[test]
    fn below_the_root_no_entity_shares_a_row_with_a_composed_key() {
        for levels in 2..=4 {
            let (paths, composed): (Vec<_>, Vec<_>) =
                all(levels).into_iter().partition(|(key, _)| key[0] == b'/');
            let composed: Vec<_> = composed.iter().flat_map(|(_, rows)| rows).collect();
            for (_, rows) in &paths {
                assert!(composed.contains(&&rows[0]));
                assert!(rows[1..].iter().all(|row| !composed.contains(&row)));
            }
        }
    }

    #[test]
    fn a_path_of_more_levels_than_there_are_now_keeps_its_outermost_rows() {
        let path = KeyPath::stored(b"/acme/search/alice", 2).unwrap();
        let rows: Vec<_> = path.rows().collect();
        assert_eq!(rows, [&b"acme"[..], b"/acme/search"]);
        assert_eq!(path.bytes(), b"/acme/search/alice");
        let too_deep = KeyPath::of_row(b"/acme//alice", 2);
        let expected = KeyError::TooManyEntities {
            entities: 3,
            levels: 2,
        };
        assert_eq!(too_deep, Err(expected));
        assert_eq!(level_of_row(b"/acme//alice", 2), 1);
    }

    #[test]
    fn what_is_no_key_is_no_row_and_breaks_nothing() {
        for bytes in [&b""[..], b"/", b"//", b"/a", b"/a/", b"/a//", b"//a"] {
            assert!(KeyPath::of_row(bytes, 3).is_err());
            assert!(KeyPath::stored(bytes, 3).is_err());
            assert_eq!(*row_name(bytes, 3), *bytes);
            assert_eq!(root_of(bytes, 3), bytes);
            assert!(level_of_row(bytes, 3) < 3);
        }
    }

    #[test]
    fn what_begins_alike_is_looked_for_at_its_root() {
        let root = |beginning: &'static str, levels| {
            let (root, is_whole) = root_of_beginning(beginning.as_bytes(), levels);
            (str::from_utf8(root).unwrap(), is_whole)
        };
        assert_eq!(root("acme/s", 1), ("acme/s", false));
        assert_eq!(root("ac", 3), ("ac", false));
        assert_eq!(root("/ac", 3), ("ac", false));
        assert_eq!(root("/", 3), ("", false));
        for beginning in ["acme/", "acme/s", "/acme/", "/acme//a", "/acme/search/"] {
            assert_eq!(root(beginning, 3), ("acme", true), "{beginning}");
        }
    }
}
