//! OVERRIDE: limits in place of what the policies say.

use std::borrow::Cow;
use std::time::Duration;

use tidegate::MAX_AMOUNT;
use tidegate_service::{
    Call, GivenLimit, OnlyIf, OverrideListing, OverrideOf, OverrideTerms, Setting, Until,
};

use super::listing::{cursor, most};
use super::named::{once, text};
use crate::command::number::natural;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

const SET: &str = "TG.OVERRIDE SET [POLICY name] [KEY key] [IFVERSION n] [REASON text] \
                   [EXPIRES ms] LIMIT name field value [field value]... [LIMIT ...]..., such as \
                   LIMIT rpm calls 100 per 1m";
const SHOW: &str = "TG.OVERRIDE SHOW [POLICY name] [KEY key]";
const REMOVE: &str = "TG.OVERRIDE REMOVE [POLICY name] [KEY key] [IFVERSION n] [REASON text]";
const LIST: &str = "TG.OVERRIDE LIST [POLICY name] [KEY key] [CURSOR c] [COUNT n]";

pub(in crate::command) fn override_(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let word = arguments.get(1).unwrap_or_default();
    Ok(match word.to_ascii_uppercase().as_slice() {
        b"SET" => {
            let options = Options::read(arguments, SET)?;
            let (of, terms) = (options.of()?, options.terms()?);
            Call::SetOverride(of, Cow::Owned(options.limits), terms)
        }
        // What is set for exactly that place, or nothing.
        b"SHOW" => Call::Overrides(OverrideListing {
            of: Options::read(arguments, SHOW)?.of()?,
            exact: true,
            ..OverrideListing::default()
        }),
        b"REMOVE" => {
            let options = Options::read(arguments, REMOVE)?;
            Call::RemoveOverride(options.of()?, options.terms()?)
        }
        b"LIST" => {
            let options = Options::read(arguments, LIST)?;
            Call::Overrides(OverrideListing {
                of: options.of()?,
                exact: false,
                after: options.cursor.map(cursor).transpose()?.map(Cow::Owned),
                most: most(options.count)?,
            })
        }
        _ => {
            return Err(Fault::UnknownSubcommand(
                "TG.OVERRIDE",
                quoted(word),
                "SET, SHOW, REMOVE and LIST",
            ));
        }
    })
}

/// The words behind the subcommand.
#[derive(Default)]
struct Options<'a> {
    policy: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    cursor: Option<&'a [u8]>,
    count: Option<&'a [u8]>,
    if_version: Option<&'a [u8]>,
    reason: Option<&'a [u8]>,
    expires: Option<&'a [u8]>,
    limits: Vec<GivenLimit>,
}

impl<'a> Options<'a> {
    /// Reads them as `usage` says that they are.
    fn read(arguments: Arguments<'a>, usage: &'static str) -> Result<Self, Fault> {
        let mut options = Self::default();
        let mut words = arguments.from(2);
        while let Some(word) = words.next() {
            let wrong = || Fault::Words(quoted(word), usage.into());
            let value = words.next().ok_or_else(wrong)?;
            match (word.to_ascii_uppercase().as_slice(), usage) {
                (b"LIMIT", SET) => {
                    let name = text(value, "the limit's name")?;
                    options.limits.push((name.to_owned(), Vec::new()));
                }
                // No field of a limit is called so.
                (b"POLICY", _) => once(&mut options.policy, value, "POLICY")?,
                (b"KEY", _) => once(&mut options.key, value, "KEY")?,
                (b"IFVERSION", SET | REMOVE) => {
                    once(&mut options.if_version, value, "IFVERSION")?;
                }
                (b"REASON", SET | REMOVE) => once(&mut options.reason, value, "REASON")?,
                (b"EXPIRES", SET) => once(&mut options.expires, value, "EXPIRES")?,
                (_, SET) if !options.limits.is_empty() => options.field(word, value)?,
                (b"CURSOR", LIST) => once(&mut options.cursor, value, "CURSOR")?,
                (b"COUNT", LIST) => once(&mut options.count, value, "COUNT")?,
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }

    fn field(&mut self, field: &[u8], value: &[u8]) -> Result<(), Fault> {
        let field = text(field, "the field's name")?.to_ascii_lowercase();
        let value = text(value, "the field's value")?;
        let digits = value.strip_prefix('-').unwrap_or(value);
        let setting = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => {
                let most = MAX_AMOUNT.cast_signed();
                Setting::Integer(natural(value.as_bytes(), 0..=most, "a limit's number")?)
            }
            false => Setting::Text(value.to_owned()),
        };
        if let Some((_, fields)) = self.limits.last_mut() {
            fields.push((field, setting));
        }
        Ok(())
    }

    fn terms(&self) -> Result<OverrideTerms<'a>, Fault> {
        let number = |value: Option<&[u8]>, what: &'static str| {
            let number = value.map(|value| natural(value, 0..=i64::MAX, what));
            number.transpose()
        };
        let reason = self.reason.map(|reason| text(reason, "the reason"));
        let expires = number(self.expires, "EXPIRES")?;
        Ok(OverrideTerms {
            only_if: number(self.if_version, "IFVERSION")?.map(OnlyIf::number),
            reason: reason.transpose()?,
            until: expires.map(|millis| Until::For(Duration::from_millis(millis))),
        })
    }

    fn of(&self) -> Result<OverrideOf<'a>, Fault> {
        let policy = self.policy.map(|policy| text(policy, "the policy's name"));
        Ok(OverrideOf {
            policy: policy.transpose()?,
            key: self.key,
            entity: None,
        })
    }
}
