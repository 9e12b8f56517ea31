//! KEYS, LEASES: what a policy holds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::Select;
use tidegate_service::{Call, Listing};

use super::named::{once, policy};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

/// Where a page has ended, as people have typed it.
pub(super) fn cursor(text: &[u8]) -> Result<Vec<u8>, Fault> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Fault::Cursor)
}

/// How many items a page has, if that is said.
pub(super) fn most(count: Option<&[u8]>) -> Result<Option<u64>, Fault> {
    let count = count.map(|count| natural(count, ANY, "COUNT"));
    count.transpose()
}

pub(in crate::command) fn keys(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    Ok(Call::Keys(policy(arguments)?, read(arguments)?))
}

pub(in crate::command) fn leases(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    Ok(Call::Leases(policy(arguments)?, read(arguments)?))
}

/// `[KEY key | PREFIX text] [CURSOR c] [COUNT n]`
fn read(arguments: Arguments<'_>) -> Result<Listing<'_>, Fault> {
    let (mut key, mut prefix, mut after, mut count) = (None, None, None, None);
    let mut words = arguments.from(2);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        match word.to_ascii_uppercase().as_slice() {
            b"KEY" if prefix.is_none() => once(&mut key, next()?, "KEY")?,
            b"PREFIX" if key.is_none() => once(&mut prefix, next()?, "PREFIX")?,
            b"CURSOR" => once(&mut after, next()?, "CURSOR")?,
            b"COUNT" => once(&mut count, next()?, "COUNT")?,
            _ => return Err(Fault::Syntax(quoted(word))),
        }
    }
    let select = match (key, prefix) {
        (Some(key), _) => Select::Key(key),
        (None, Some(prefix)) => Select::Prefix(prefix),
        (None, None) => Select::All,
    };
    Ok(Listing {
        select,
        after: after.map(cursor).transpose()?.map(Into::into),
        most: most(count)?,
    })
}
