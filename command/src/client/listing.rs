//! `tidegate keys` and `tidegate leases`: what a policy holds.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Map, Value, json};
use tidegate_client::{Exchange, Verb};

use super::exit::{DOES, Exit, OF_A_LEASE, Outcome, Stop};
use super::options::Options;
use super::print::{print, print_for_reader};
use super::server::{Client, runtime};
use super::words::{self, amount};

/// What usage is called in a listing, and what is said where there is none.
pub const USAGE: &str = "usage";
pub const NO_USAGE: &str = "nothing was used in that time, or the policy does not count it (write `usage = \"400d\"` into the policy in the server's file)";

/// How many items are asked for at a time.
const PAGE: usize = 500;

/// How much of a listing is told, how, and by which server.
#[derive(Clone, Debug, Args)]
pub struct Paging {
    /// No more than so many; 0 lists all
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub most: usize,

    /// Print a JSON object for each, one a line
    #[arg(long, help_heading = "The answer")]
    pub json: bool,

    #[command(flatten)]
    pub options: Options,
}

impl Paging {
    /// Prints the pages of `asked`, oldest first: each of `items` by `line`, or as JSON.
    pub fn list(
        &self,
        asked: Exchange,
        items: &str,
        said: &[(&str, Option<&str>)],
        line: impl Fn(&Value) -> String,
    ) -> Outcome<Exit> {
        let listing = Listing {
            asked,
            items,
            said,
            most: self.most,
            newest: false,
            more,
        };
        listing.print(&self.options, |item| match self.json {
            true => item.to_string(),
            false => line(item),
        })
    }
}

/// Of which keys, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct What {
    /// The policy
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: String,

    /// Of this key alone
    #[arg(long, short, value_name = "KEY", conflicts_with_all = ["prefix", "key_base64"])]
    key: Option<String>,

    /// Of this key alone, in Base64: it is no text
    #[arg(long, value_name = "BASE64", conflicts_with = "prefix")]
    key_base64: Option<String>,

    /// Only of keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    #[command(flatten)]
    page: Paging,
}

/// Keys.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Keys {
    #[command(flatten)]
    what: What,
}

/// List the leases that are held, or end one
///
/// A line for each: its handle, its key, since when and until when it is held, and how much of
/// which limit. The handle stands for the lease's id, which only its holder knows: a
/// handle ends the lease by --revoke, and cannot renew or settle it.
#[derive(Debug, Args)]
#[command(after_help = OF_A_LEASE)]
pub struct Leases {
    /// End the lease of this handle (the first word of its line) and this --key, as its holder's
    /// release would; takes the scope `administer`
    #[arg(long, value_name = "HANDLE")]
    revoke: Option<String>,

    #[command(flatten)]
    what: What,
}

impl Keys {
    /// Lists them.
    pub fn perform(&self) -> Outcome<Exit> {
        self.what.list("/v1/keys", "keys", key_line)
    }
}

impl Leases {
    /// Lists them, or ends one.
    pub fn perform(&self) -> Outcome<Exit> {
        match &self.revoke {
            Some(handle) => self.what.revoke(handle),
            None => self.what.list("/v1/leases", "leases", lease_line),
        }
    }
}

impl What {
    fn list(&self, path: &str, items: &str, line: fn(&Value) -> String) -> Outcome<Exit> {
        let said = [
            ("policy", Some(self.policy.as_str())),
            ("key", self.key.as_deref()),
            ("key_base64", self.key_base64.as_deref()),
            ("prefix", self.prefix.as_deref()),
        ];
        self.page.list(Exchange::get(path), items, &said, line)
    }

    fn revoke(&self, handle: &str) -> Outcome<Exit> {
        let mut request = Map::new();
        request.insert("policy".to_owned(), json!(self.policy));
        let (name, key) = match (&self.key, &self.key_base64) {
            (Some(key), _) => ("key", key),
            (None, Some(key)) => ("key_base64", key),
            (None, None) => return Err(Stop::usage("say whose lease it is: --key KEY")),
        };
        request.insert(name.to_owned(), json!(key));
        request.insert("handle".to_owned(), json!(handle));
        let client = self.page.options.connect()?;
        let asked = Exchange::post("/v1/leases/revoke", &request);
        let reply = runtime()?.block_on(client.done(asked))?;
        match self.page.json {
            true => print(&words::json(&reply.body))?,
            false => print(&words::answer(Verb::Release, &reply.body))?,
        }
        Ok(Exit::Done)
    }
}

/// A listing that comes page by page.
pub struct Listing<'a> {
    /// Where it is.
    pub asked: Exchange,
    /// What the items are called there.
    pub items: &'a str,
    /// What is asked of it.
    pub said: &'a [(&'a str, Option<&'a str>)],
    /// No more items than so many; 0 for all.
    pub most: usize,
    /// Those at the end, where there are more; else those at the beginning.
    pub newest: bool,
    /// What is said where there are more than were printed, of which this is the last.
    pub more: fn(&Value) -> String,
}

/// Asks `path` for page after page, of `most` items each, and calls `act` with each as it comes.
pub async fn each_page(
    client: &Client,
    path: &str,
    said: &[(&str, Option<&str>)],
    most: &str,
    mut act: impl FnMut(Value),
) -> Outcome<()> {
    let mut cursor = None;
    loop {
        let asked = Exchange::get(path);
        let (page, next) = page_of(client, asked, said, (cursor.as_deref(), most)).await?;
        act(page);
        cursor = next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// The page behind `cursor`, of `limit` items at most, and where the next begins.
async fn page_of(
    client: &Client,
    asked: Exchange,
    said: &[(&str, Option<&str>)],
    (cursor, limit): (Option<&str>, &str),
) -> Outcome<(Value, Option<String>)> {
    let page = [("cursor", cursor), ("limit", Some(limit))];
    let said = said.iter().copied().chain(page);
    let query: Vec<_> = said
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let page = client.done(asked.query(&query)).await?.body;
    let next = page["cursor"].as_str().map(str::to_owned);
    Ok((page, next))
}

/// What is said of a listing that goes on.
pub fn more(_: &Value) -> String {
    "there are more; --most 0 lists all".to_owned()
}

impl Listing<'_> {
    /// Asks for page after page, and prints each as it comes, an item a line; of the newest what is
    /// left once all have come.
    pub fn print(&self, options: &Options, line: impl Fn(&Value) -> String) -> Outcome<Exit> {
        let client = options.connect()?;
        runtime()?.block_on(async {
            match self.newest && self.most > 0 {
                true => self.print_newest(&client, line).await,
                false => self.print_oldest(&client, line).await,
            }
        })
    }

    /// Asks for page after page, and calls `act` with each item as it comes, until it breaks off:
    /// then no further page is asked for.
    pub fn each(
        &self,
        options: &Options,
        mut act: impl FnMut(Value) -> Outcome<ControlFlow<()>>,
    ) -> Outcome<ControlFlow<()>> {
        let client = options.connect()?;
        runtime()?.block_on(async {
            let mut cursor = None;
            loop {
                let (listed, next) = self.page(&client, cursor.as_deref(), 0).await?;
                for item in listed {
                    if act(item)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                cursor = next;
                if cursor.is_none() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        })
    }

    async fn print_oldest(
        &self,
        client: &Client,
        line: impl Fn(&Value) -> String,
    ) -> Outcome<Exit> {
        let (mut cursor, mut left, mut last) = (None, self.most, Value::Null);
        loop {
            let (listed, next) = self.page(client, cursor.as_deref(), left).await?;
            left = left.saturating_sub(listed.len());
            for item in listed {
                if !print_for_reader(&line(&item))? {
                    return Ok(Exit::Done);
                }
                last = item;
            }
            cursor = next;
            if cursor.is_none() || (self.most > 0 && left == 0) {
                break;
            }
        }
        if cursor.is_some() {
            eprintln!("{}", (self.more)(&last));
        } else if last.is_null() {
            self.note_empty();
        }
        Ok(Exit::Done)
    }

    async fn print_newest(
        &self,
        client: &Client,
        line: impl Fn(&Value) -> String,
    ) -> Outcome<Exit> {
        let (mut cursor, mut newest, mut passed) = (None, VecDeque::new(), false);
        loop {
            let (listed, next) = self.page(client, cursor.as_deref(), 0).await?;
            newest.extend(listed);
            let older = newest.len().saturating_sub(self.most);
            newest.drain(..older);
            passed |= older > 0;
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        for item in &newest {
            if !print_for_reader(&line(item))? {
                return Ok(Exit::Done);
            }
        }
        if passed {
            eprintln!("there are older ones; --most 0 lists all");
        } else if newest.is_empty() {
            self.note_empty();
        }
        Ok(Exit::Done)
    }

    /// Nothing was printed, and that is no mistake.
    fn note_empty(&self) {
        match self.items {
            USAGE => eprintln!("{NO_USAGE}"),
            items => eprintln!("no {items}"),
        }
    }

    /// The items of a page, `left` at most if that is not 0, and where the next begins.
    async fn page(
        &self,
        client: &Client,
        cursor: Option<&str>,
        left: usize,
    ) -> Outcome<(Vec<Value>, Option<String>)> {
        let limit = if left == 0 { PAGE } else { left.min(PAGE) }.to_string();
        let of = (cursor, limit.as_str());
        let (mut page, next) = page_of(client, self.asked.clone(), self.said, of).await?;
        let items = match page[self.items].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok((items, next))
    }
}

/// The key, and what is left of each limit.
fn key_line(item: &Value) -> String {
    let empty = Map::new();
    let limits = item["limits"].as_object().unwrap_or(&empty);
    let limits = limits.iter().map(|(name, stand)| {
        let owed = words::owed(stand).map(|debt| format!(" (owes {debt})"));
        let (left, limit) = (amount(&stand["remaining"]), amount(&stand["limit"]));
        format!("{name} {left}/{limit}{}", owed.unwrap_or_default())
    });
    let limits = limits.collect::<Vec<_>>().join("  ");
    format!("{}{}  {limits}", key(item), member(item))
}

fn lease_line(item: &Value) -> String {
    let empty = Map::new();
    let amounts = item["amounts"].as_object().unwrap_or(&empty);
    let amounts = amounts
        .iter()
        .map(|(name, taken)| format!("{name}={}", amount(taken)));
    let amounts = amounts.collect::<Vec<_>>().join(" ");
    let word = |name: &str| item[name].as_str().unwrap_or("?");
    let (handle, until) = (word("handle"), word("expires_at"));
    let since = item["granted_at"].as_str();
    let since = since.map_or_else(String::new, |since| format!("since {since} "));
    let (key, member) = (key(item), member(item));
    format!("{handle}  {key}{member}  {since}until {until}  {amounts}")
}

/// The member of a pool where it is; nothing without a pool.
fn member(item: &Value) -> String {
    let member = item["member"].as_str();
    member.map_or_else(String::new, |member| format!(" at {member}"))
}

/// A key as it can be shown: text without what steers a terminal, or Base64.
pub fn key(item: &Value) -> String {
    match (item["key"].as_str(), item["key_base64"].as_str()) {
        (Some(text), _) => printable(text),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        (None, None) => "?".to_owned(),
    }
}

/// A text without what steers a terminal.
pub fn printable(text: &str) -> String {
    text.chars().flat_map(visible).collect()
}

/// A text of several lines without what steers a terminal.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

fn visible(letter: char) -> impl Iterator<Item = char> {
    let escaped = letter.is_control().then(|| letter.escape_default());
    let plain = escaped.is_none().then_some(letter);
    escaped.into_iter().flatten().chain(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_steer_the_terminal() {
        let shown = |name: &str, text: &str| key(&json!({ name: text }));
        assert_eq!(shown("key", "caf\u{e9} \u{1b}[2J"), "caf\u{e9} \\u{1b}[2J");
        assert_eq!(shown("key_base64", "/w=="), "base64:/w==");
    }
}
