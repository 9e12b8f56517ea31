//! OVERRIDE: limits in place of what the policies say.

use tidegate::{Limit, MAX_AMOUNT};
use tidegate_service::{Place, Placed, Setting, bounds, settings_of};

use super::ask::once;
use super::listing::{cursor, most};
use super::named::text;
use crate::command::number::natural;
use crate::command::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::render::facts;
use crate::render::reply::Replies;
use crate::session::Session;

const SET: &str = "TG.OVERRIDE SET [POLICY name] [KEY key] LIMIT name field value \
                   [field value]... [LIMIT ...]..., such as LIMIT rpm calls 100 per 1m";
const GET: &str = "TG.OVERRIDE GET [POLICY name] [KEY key]";
const DEL: &str = "TG.OVERRIDE DEL [POLICY name] [KEY key]";
const LIST: &str = "TG.OVERRIDE LIST [POLICY name] [KEY key] [CURSOR c] [COUNT n]";

type Fields = Vec<(String, Setting)>;

pub(in crate::command) async fn override_(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let word = arguments.get(1).unwrap_or_default();
    match word.to_ascii_uppercase().as_slice() {
        b"SET" => set(session, arguments).await,
        b"GET" => get(session, arguments),
        b"DEL" => del(session, arguments).await,
        b"LIST" => list(session, arguments),
        _ => Err(Fault::UnknownSubcommand("TG.OVERRIDE", quoted(word))),
    }
}

async fn set(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let options = Options::read(arguments, SET)?;
    let (service, caller) = session.at_the_service()?;
    let placed = service.write_override(caller, &options.place()?, &options.limits);
    let placed = placed.await?;
    shown(&mut session.replies, &placed);
    Ok(Flow::Next)
}

/// What is set for exactly that place, or nothing.
fn get(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let options = Options::read(arguments, GET)?;
    let (service, caller) = session.at_the_service()?;
    match service.override_at(caller, &options.place()?)? {
        Some(placed) => shown(&mut session.replies, &placed),
        None => session.replies.null(),
    }
    Ok(Flow::Next)
}

/// How many were removed: 1 or 0.
async fn del(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let options = Options::read(arguments, DEL)?;
    let (service, caller) = session.at_the_service()?;
    let removed = service.remove_override(caller, &options.place()?).await?;
    session.replies.integer(removed.into());
    Ok(Flow::Next)
}

fn list(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let options = Options::read(arguments, LIST)?;
    let most = bounds::page(most(options.count)?)?;
    let after = options.cursor.map(cursor).transpose()?;
    let (service, caller) = session.at_the_service()?;
    let page = service.list_overrides(caller, &options.place()?, after.as_deref(), most)?;
    let placed = page.items;
    let replies = &mut session.replies;
    replies.map(2);
    replies.text("overrides");
    replies.array(placed.len());
    placed.iter().for_each(|placed| shown(replies, placed));
    facts::cursor(replies, page.next.as_deref());
    Ok(Flow::Next)
}

/// The words behind the subcommand.
#[derive(Default)]
struct Options<'a> {
    policy: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    cursor: Option<&'a [u8]>,
    count: Option<&'a [u8]>,
    limits: Vec<(String, Fields)>,
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
                    options.limits.push((name.to_owned(), Fields::new()));
                }
                // No field of a limit is called so.
                (b"POLICY", _) => once(&mut options.policy, value, "POLICY")?,
                (b"KEY", _) => once(&mut options.key, value, "KEY")?,
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

    fn place(&self) -> Result<Place, Fault> {
        let policy = self.policy.map(|policy| text(policy, "the policy's name"));
        Ok(Place::read(policy.transpose()?, self.key)?)
    }
}

/// Whose it is, how specific, what the limits become, and which have no effect.
fn shown(replies: &mut Replies, placed: &Placed) {
    replies.map(5);
    replies.text("policy");
    facts::optional_text(replies, placed.place.resource.as_deref());
    replies.text("key");
    match &placed.place.entity {
        Some(key) => replies.bulk(key),
        None => replies.null(),
    }
    replies.text("level");
    replies.text(placed.place.level().name());
    replies.text("limits");
    replies.map(placed.limits.len());
    placed.limits.iter().for_each(|each| limit(replies, each));
    replies.text("inert");
    replies.array(placed.inert.len());
    placed.inert.iter().for_each(|name| replies.text(name));
}

/// Its fields, as SET takes them.
fn limit(replies: &mut Replies, limit: &Limit) {
    replies.text(limit.name());
    let settings = settings_of(limit);
    replies.map(settings.len());
    for (field, setting) in settings {
        replies.text(field);
        match setting {
            Setting::Integer(number) => replies.count(number),
            Setting::Units(amount) => facts::amount(replies, limit.amounts(), amount),
            Setting::Text(text) => replies.text(&text),
            Setting::Flag(flag) => replies.boolean(flag),
        }
    }
}
