//! ENTITY: who belongs to whom.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tidegate_service::{Call, EntityChange, EntityListing, EntityTerms, NewEntity, OnlyIf};

use super::listing::{cursor, most};
use super::named::{ENTITY_ID, once, text};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

const CREATE: &str = "TG.ENTITY CREATE id [PARENT id] [NAME text] [META word text]... \
                      [CHARGEPARENTS yes|no] [REASON text]";
const SHOW: &str = "TG.ENTITY SHOW id";
const CHANGE: &str = "TG.ENTITY CHANGE id [PARENT id] [NAME text] [META word text]... \
                      [NOMETA] [CHARGEPARENTS yes|no] [IFVERSION n] [REASON text]";
const DELETE: &str = "TG.ENTITY DELETE id [IFVERSION n] [REASON text]";
const LIST: &str = "TG.ENTITY LIST [CURSOR c] [COUNT n]";
const CHILDREN: &str = "TG.ENTITY CHILDREN id [CURSOR c] [COUNT n]";

pub(in crate::command) fn entity(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let word = arguments.get(1).unwrap_or_default();
    Ok(match word.to_ascii_uppercase().as_slice() {
        b"CREATE" => {
            let (id, options) = Options::of(arguments, CREATE)?;
            let new = NewEntity {
                id,
                parent: options.parent,
                name: options.name.unwrap_or_default(),
                metadata: options.metadata.unwrap_or_default(),
                charge_parents: options.charge_parents.unwrap_or(true),
            };
            Call::CreateEntity(new, options.reason)
        }
        b"SHOW" => Call::Entity(Options::of(arguments, SHOW)?.0),
        b"CHANGE" => {
            let (id, options) = Options::of(arguments, CHANGE)?;
            let terms = options.terms();
            let change = EntityChange {
                parent: options.parent,
                name: options.name,
                metadata: options.metadata,
                charge_parents: options.charge_parents,
            };
            Call::ChangeEntity(id, change, terms)
        }
        b"DELETE" => {
            let (id, options) = Options::of(arguments, DELETE)?;
            Call::DeleteEntity(id, options.terms())
        }
        b"LIST" => Options::read(arguments, 2, LIST)?.page(None)?,
        b"CHILDREN" => {
            let (id, options) = Options::of(arguments, CHILDREN)?;
            options.page(Some(id))?
        }
        _ => {
            return Err(Fault::UnknownSubcommand(
                "TG.ENTITY",
                quoted(word),
                "CREATE, SHOW, CHANGE, DELETE, LIST and CHILDREN",
            ));
        }
    })
}

/// The words behind the subcommand, and behind its id.
#[derive(Default)]
struct Options<'a> {
    parent: Option<&'a str>,
    name: Option<&'a str>,
    metadata: Option<BTreeMap<String, String>>,
    charge_parents: Option<bool>,
    if_version: Option<u64>,
    reason: Option<&'a str>,
    cursor: Option<&'a [u8]>,
    count: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// The id, and the words behind it.
    fn of(arguments: Arguments<'a>, usage: &'static str) -> Result<(&'a str, Self), Fault> {
        let (name, usage_of_it) = usage.split_once(' ').unwrap_or_default();
        let id = arguments.get(2).ok_or(Fault::Arity(name, usage_of_it))?;
        let options = Self::read(arguments, 3, usage)?;
        Ok((text(id, ENTITY_ID)?, options))
    }

    /// Reads them from `position` on, as `usage` says that they are.
    fn read(arguments: Arguments<'a>, position: usize, usage: &'static str) -> Result<Self, Fault> {
        let (mut options, mut no_meta) = (Self::default(), None);
        let mut words = arguments.from(position);
        while let Some(word) = words.next() {
            let wrong = |word: &[u8]| Fault::Words(quoted(word), usage.into());
            let mut next = || words.next().ok_or_else(|| wrong(word));
            match (word.to_ascii_uppercase().as_slice(), usage) {
                (b"PARENT", CREATE | CHANGE) => {
                    once(
                        &mut options.parent,
                        text(next()?, "the parent's id")?,
                        "PARENT",
                    )?;
                }
                (b"NAME", CREATE | CHANGE) => {
                    once(&mut options.name, text(next()?, "the name")?, "NAME")?;
                }
                (b"META", CREATE | CHANGE) => options.word(next()?, next()?)?,
                (b"NOMETA", CHANGE) => once(&mut no_meta, (), "NOMETA")?,
                (b"CHARGEPARENTS", CREATE | CHANGE) => {
                    let said = next()?;
                    let yes = said.eq_ignore_ascii_case(b"yes");
                    if !yes && !said.eq_ignore_ascii_case(b"no") {
                        return Err(wrong(said));
                    }
                    once(&mut options.charge_parents, yes, "CHARGEPARENTS")?;
                }
                (b"IFVERSION", CHANGE | DELETE) => {
                    let version = natural(next()?, ANY, "IFVERSION")?;
                    once(&mut options.if_version, version, "IFVERSION")?;
                }
                (b"REASON", CREATE | CHANGE | DELETE) => {
                    once(&mut options.reason, text(next()?, "the reason")?, "REASON")?;
                }
                (b"CURSOR", LIST | CHILDREN) => once(&mut options.cursor, next()?, "CURSOR")?,
                (b"COUNT", LIST | CHILDREN) => once(&mut options.count, next()?, "COUNT")?,
                _ => return Err(wrong(word)),
            }
        }
        if no_meta.is_some() {
            once(&mut options.metadata, BTreeMap::new(), "META")?;
        }
        Ok(options)
    }

    /// One more word of its metadata.
    fn word(&mut self, word: &[u8], says: &[u8]) -> Result<(), Fault> {
        let word = text(word, "a word of the metadata")?;
        let says = text(says, "a word of the metadata")?;
        let metadata = self.metadata.get_or_insert_default();
        match metadata.insert(word.to_owned(), says.to_owned()) {
            None => Ok(()),
            Some(_) => Err(Fault::GivenTwice("META")),
        }
    }

    fn terms(&self) -> EntityTerms<'a> {
        EntityTerms {
            only_if: self.if_version.map(OnlyIf::number),
            reason: self.reason,
        }
    }

    fn page(&self, of: Option<&'a str>) -> Result<Call<'a>, Fault> {
        Ok(Call::Entities(EntityListing {
            of,
            after: self.cursor.map(cursor).transpose()?.map(Cow::Owned),
            most: most(self.count)?,
        }))
    }
}
