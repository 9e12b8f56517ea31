//! KEYS, LEASES, USAGE: what a policy holds, and what was used.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::{Select, Timestamp};
use tidegate_service::{Call, Listing, UsageBy, UsageListing};

use super::named::{ENTITY_ID, once, policy, text};
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
    let options = Options::read(arguments, false)?;
    Ok(Call::Keys(policy(arguments)?, options.listing()?))
}

pub(in crate::command) fn leases(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let options = Options::read(arguments, false)?;
    Ok(Call::Leases(policy(arguments)?, options.listing()?))
}

pub(in crate::command) fn usage(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let options = Options::read(arguments, true)?;
    let entity = options.entity.map(|id| text(id, ENTITY_ID)).transpose()?;
    let listing = UsageListing {
        entity,
        since: instant(options.since, "SINCE")?,
        until: instant(options.until, "UNTIL")?,
        by: options.by()?,
        listing: options.listing()?,
    };
    Ok(Call::Usage(policy(arguments)?, listing))
}

/// An instant in microseconds since 1970, if it is said.
pub(super) fn instant(said: Option<&[u8]>, word: &'static str) -> Result<Option<Timestamp>, Fault> {
    let micros = said.map(|text| natural(text, ANY, word)).transpose()?;
    Ok(micros.map(|micros| Timestamp::from_micros(micros.cast_signed())))
}

/// The words behind the policy: `[KEY key | PREFIX text] [CURSOR c] [COUNT n]`; of usage
/// `[KEY key | PREFIX text | ENTITY id] [SINCE us] [UNTIL us] [BY HOUR | DAY | MONTH]`, too.
#[derive(Default)]
struct Options<'a> {
    key: Option<&'a [u8]>,
    prefix: Option<&'a [u8]>,
    entity: Option<&'a [u8]>,
    since: Option<&'a [u8]>,
    until: Option<&'a [u8]>,
    by: Option<&'a [u8]>,
    cursor: Option<&'a [u8]>,
    count: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(arguments: Arguments<'a>, is_usage: bool) -> Result<Self, Fault> {
        let mut read = Self::default();
        let mut words = arguments.from(2);
        while let Some(word) = words.next() {
            let syntax = || Fault::Syntax(quoted(word));
            let (place, name) = read.place(word, is_usage).ok_or_else(syntax)?;
            once(place, words.next().ok_or_else(syntax)?, name)?;
        }
        Ok(read)
    }

    /// What a word says, and the word.
    fn place(
        &mut self,
        word: &[u8],
        is_usage: bool,
    ) -> Option<(&mut Option<&'a [u8]>, &'static str)> {
        let selects = [self.key, self.prefix, self.entity].map(|one| one.is_some());
        Some(match word.to_ascii_uppercase().as_slice() {
            b"KEY" if matches!(selects, [_, false, false]) => (&mut self.key, "KEY"),
            b"PREFIX" if matches!(selects, [false, _, false]) => (&mut self.prefix, "PREFIX"),
            b"ENTITY" if is_usage && matches!(selects, [false, false, _]) => {
                (&mut self.entity, "ENTITY")
            }
            b"SINCE" if is_usage => (&mut self.since, "SINCE"),
            b"UNTIL" if is_usage => (&mut self.until, "UNTIL"),
            b"BY" if is_usage => (&mut self.by, "BY"),
            b"CURSOR" => (&mut self.cursor, "CURSOR"),
            b"COUNT" => (&mut self.count, "COUNT"),
            _ => return None,
        })
    }

    fn by(&self) -> Result<UsageBy, Fault> {
        let Some(word) = self.by else {
            return Ok(UsageBy::default());
        };
        let said = std::str::from_utf8(word).ok().map(str::to_ascii_lowercase);
        let by = said.and_then(|said| UsageBy::named(&said));
        by.ok_or_else(|| Fault::Syntax(quoted(word)))
    }

    fn listing(self) -> Result<Listing<'a>, Fault> {
        let select = match (self.key, self.prefix) {
            (Some(key), _) => Select::Key(key),
            (None, Some(prefix)) => Select::Prefix(prefix),
            (None, None) => Select::All,
        };
        Ok(Listing {
            select,
            after: self.cursor.map(cursor).transpose()?.map(Into::into),
            most: most(self.count)?,
        })
    }
}
