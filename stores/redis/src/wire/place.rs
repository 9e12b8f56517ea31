//! Where a page of a listing ends.
//!
//! MessagePack: the table's name, the cursor of the scan (or that it has ended),
//! what its last step found and was not looked at, and how far the first of
//! those was.

use rmpv::Value;
use tidegate_store::StoreError;

use super::pack::Pack;
use crate::keys::Names;

/// As deep as a place is nested, as the reader counts it.
const DEEP: usize = 8;

/// A place in a scan through the server's keys. It may come from a caller who made
/// it up: what it says was found is looked at only if it has such a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Where the scan goes on; `None` if it has ended.
    pub(crate) cursor: Option<Vec<u8>>,
    /// What was found and not looked at yet; the last is next.
    pub(crate) found: Vec<Vec<u8>>,
    /// How far the next one was looked at: until when due, and the number.
    pub(crate) within: Option<(i64, i64)>,
}

impl Default for Place {
    /// The beginning of a scan.
    fn default() -> Self {
        Self {
            cursor: Some(b"0".to_vec()),
            found: Vec::new(),
            within: None,
        }
    }
}

impl Place {
    /// The beginning of a scan through these alone.
    pub(crate) const fn at(found: Vec<Vec<u8>>) -> Self {
        Self {
            cursor: None,
            found,
            within: None,
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self != Self::default()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.cursor.is_some() || !self.found.is_empty()
    }

    /// There is more of `key`, after this place in it.
    pub(crate) fn go_on_within(&mut self, key: Vec<u8>, after: (i64, i64)) {
        self.found.push(key);
        self.within = Some(after);
    }

    /// What a page says of where the next one goes on.
    pub(crate) fn next(&self, names: &Names) -> Option<Vec<u8>> {
        self.has_more().then(|| self.write(names))
    }

    fn write(&self, names: &Names) -> Vec<u8> {
        let mut pack = Pack::default();
        pack.array(4).bytes(names.table());
        pack.bytes(self.cursor.as_deref().unwrap_or_default());
        pack.array(self.found.len());
        for key in &self.found {
            pack.bytes(key);
        }
        match self.within {
            None => pack.array(0),
            Some((due, number)) => pack.array(2).int(due).int(number),
        };
        pack.done()
    }

    /// # Errors
    /// [`StoreError::UnknownPage`]: another table's, or nobody's.
    pub(crate) fn read(bytes: &[u8], names: &Names) -> Result<Self, StoreError> {
        Self::parsed(bytes, names).ok_or(StoreError::UnknownPage)
    }

    fn parsed(mut bytes: &[u8], names: &Names) -> Option<Self> {
        let value = rmpv::decode::read_value_with_max_depth(&mut bytes, DEEP).ok()?;
        let [name, cursor, found, within] = &value.as_array()?[..] else {
            return None;
        };
        let text = |value: &Value| Some(value.as_slice()?.to_vec());
        let cursor = text(cursor)?;
        let found: Option<Vec<_>> = found.as_array()?.iter().map(text).collect();
        let found = found?;
        let is_ours = name.as_slice()? == names.table();
        let within = match &within.as_array()?[..] {
            [due, number] => Some((due.as_i64()?, number.as_i64()?)),
            [] => None,
            _ => return None,
        };
        let is_place = cursor.is_empty() || is_cursor(&cursor);
        (is_ours && is_place && bytes.is_empty()).then_some(Self {
            cursor: (!cursor.is_empty()).then_some(cursor),
            found,
            within,
        })
    }
}

/// A place in a listing of usage: behind all roots before this one, and either behind this one,
/// too, or within it. It may come from a caller who made it up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct UsagePlace {
    /// The root; none yet, if it is empty.
    pub(crate) root: Vec<u8>,
    /// The last record that was looked at there: before all, if it is empty.
    pub(crate) within: Option<Vec<u8>>,
}

impl UsagePlace {
    /// Before the records of a root.
    pub(crate) const fn at(root: Vec<u8>) -> Self {
        let within = Some(Vec::new());
        Self { root, within }
    }

    pub(crate) fn write(&self, names: &Names) -> Vec<u8> {
        let mut pack = Pack::default();
        pack.array(3).bytes(names.table()).bytes(&self.root);
        pack.array(usize::from(self.within.is_some()));
        if let Some(within) = &self.within {
            pack.bytes(within);
        }
        pack.done()
    }

    /// # Errors
    /// [`StoreError::UnknownPage`]: another table's, or nobody's.
    pub(crate) fn read(bytes: &[u8], names: &Names) -> Result<Self, StoreError> {
        Self::parsed(bytes, names).ok_or(StoreError::UnknownPage)
    }

    fn parsed(mut bytes: &[u8], names: &Names) -> Option<Self> {
        let value = rmpv::decode::read_value_with_max_depth(&mut bytes, DEEP).ok()?;
        let [name, root, within] = &value.as_array()?[..] else {
            return None;
        };
        let within = match &within.as_array()?[..] {
            [within] => Some(within.as_slice()?.to_vec()),
            [] => None,
            _ => return None,
        };
        let is_ours = name.as_slice()? == names.table();
        (is_ours && bytes.is_empty()).then_some(Self {
            root: root.as_slice()?.to_vec(),
            within,
        })
    }
}

/// What `SCAN` takes: a number, behind the name of a cluster's node and a blank.
fn is_cursor(bytes: &[u8]) -> bool {
    let number = bytes.rsplit(|&byte| byte == b' ').next();
    let number = number.and_then(|digits| str::from_utf8(digits).ok());
    number.is_some_and(|digits| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u64>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_among_usage_is_read_as_it_was_written_and_no_other_is() {
        let names = Names::new("tidegate", "t");
        for within in [None, Some(Vec::new()), Some(b"\xff\0".to_vec())] {
            let place = UsagePlace {
                root: b"r\xfe".to_vec(),
                within,
            };
            let written = place.write(&names);
            assert_eq!(UsagePlace::read(&written, &names), Ok(place));
            let other = Names::new("tidegate", "other");
            let unknown = Err(StoreError::UnknownPage);
            assert_eq!(UsagePlace::read(&written, &other), unknown);
            assert_eq!(UsagePlace::read(&written[1..], &names), unknown);
            assert_eq!(
                UsagePlace::read(&[&*written, b"x"].concat(), &names),
                unknown
            );
        }
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_no_other_is() {
        let names = Names::new("tidegate", "t");
        for cursor in ["0", "18446744073709551615", "10.0.0.7:6379 42"] {
            let place = Place {
                cursor: Some(cursor.into()),
                found: vec![b"{tidegate:t:k}:d".to_vec()],
                within: Some((i64::MAX, -1)),
            };
            let written = place.write(&names);
            assert_eq!(Place::read(&written, &names), Ok(place));
            let other = Names::new("tidegate", "other");
            assert_eq!(Place::read(&written, &other), Err(StoreError::UnknownPage));
        }
        for cursor in ["x1", "-1", "+1", " ", "1 ", "18446744073709551616", "n 1x"] {
            let made_up = Place {
                cursor: Some(cursor.into()),
                ..Place::default()
            };
            let read = Place::read(&made_up.write(&names), &names);
            assert_eq!(read, Err(StoreError::UnknownPage), "{cursor}");
        }
    }
}
