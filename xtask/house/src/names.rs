//! Public names that a reader of the glossary knows: its words, and its list of names.

/// Words that no public name has: the field has better ones, in the second column.
pub const RETIRED: [(&str, &str); 40] = [
    ("ask", "request"),
    ("asked", "requested"),
    ("asides", "side table"),
    ("backing", "store"),
    ("book", "ledger"),
    ("crowd", "waiters"),
    ("desk", "fixture"),
    ("dice", "rng"),
    ("door", "protocol"),
    ("ears", "subscription"),
    ("edition", "revision"),
    ("entry", "request"),
    ("far", "remote"),
    ("front", "begin"),
    ("handover", "delivery"),
    ("heard", "wakeup"),
    ("hurry", "deadline"),
    ("keeper", "renewal, store"),
    ("later", "pending"),
    ("lean", "fast path"),
    ("lone", "single"),
    ("lows", "low-water marks"),
    ("moment", "instant"),
    ("oracle", "reference"),
    ("outlook", "forecast"),
    ("pace", "interval, speed"),
    ("place", "charge reference"),
    ("plain", "fast path"),
    ("prompt", "immediate"),
    ("said", "stated"),
    ("served", "charge"),
    ("swap", "optimistic"),
    ("tenure", "lease term"),
    ("threshold", "service"),
    ("ticket", "waiter id"),
    ("turn", "dispatch, queue position"),
    ("vigil", "wait"),
    ("voice", "notifier"),
    ("walk", "round"),
    ("written", "stored"),
];

/// The names of `listing`, and the functions, fields and variants below them, that have a
/// retired word, each with the better one.
pub fn retired(listing: &str) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut above = "";
    for line in listing.lines() {
        let is_member = line.starts_with(' ');
        let names = match is_member {
            true => named(line),
            false => {
                above = line;
                vec![line.rsplit("::").next().unwrap_or(line)]
            }
        };
        for name in names {
            let words = words(name).replace('_', " ");
            let bad = words.split(' ').find_map(|word| {
                let known = RETIRED.iter().find(|(retired, _)| *retired == word);
                known.map(|(_, better)| *better)
            });
            let full = match is_member {
                true => format!("{above}::{name}"),
                false => line.to_owned(),
            };
            found.extend(bad.map(|better| (full, better)));
        }
    }
    found
}

/// What a member is called: its function, field or variant, and a variant's fields; not what
/// its arguments and types are called.
fn named(member: &str) -> Vec<&str> {
    let identifier = |text: &'_ str| {
        let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        end.unwrap_or(text.len())
    };
    let mut text = member.trim();
    for before in ["const ", "async ", "unsafe ", "fn ", "type "] {
        text = text.strip_prefix(before).unwrap_or(text);
    }
    let mut names = vec![&text[..identifier(text)]];
    if let Some((_, fields)) = text.split_once(" { ") {
        let fields = fields.split(", ").filter(|field| field.contains(": "));
        names.extend(fields.map(|field| &field[..identifier(field)]));
    }
    names
}

/// Names of the standard library, which mean what they mean there.
const STD: [&str; 2] = ["Mutex", "MutexGuard"];

/// The names of `listing` that the glossary does not explain: neither one of its words, nor
/// in its list of names, nor the standard library's.
pub fn unexplained<'l>(listing: &'l str, glossary: &str) -> Vec<&'l str> {
    let explained = explained(glossary);
    let is_known = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        STD.contains(&name)
            || explained.iter().any(|one| one == name)
            || explained.iter().any(|one| *one == words(last))
    };
    let names = listing.lines().filter(|line| !line.starts_with(' '));
    names.filter(|name| !is_known(name)).collect()
}

/// What the first columns of the glossary's tables say: words in bold, names as code.
fn explained(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| "));
    let columns = rows.filter_map(|row| row.split(" | ").next());
    let mut explained = Vec::new();
    for column in columns {
        let names = column.split('`').skip(1).step_by(2);
        explained.extend(names.map(str::to_owned));
        let words = column.split("**").skip(1).step_by(2);
        let words = words.flat_map(|words| words.split(", "));
        explained.extend(words.map(str::to_owned));
    }
    explained
}

/// `LimitSet` as the glossary writes it: "limit set".
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{retired, unexplained};

    const GLOSSARY: &str = "\
| word | meaning |
|---|---|
| **limit set** | limits that are taken together; not a `Lake` |
| **pool, member** | what serves the same work |

| name | is |
|---|---|
| `Span`, `lock::LeasedPermit` | a length of time; a permit |
";

    #[test]
    fn a_name_is_a_word_of_the_glossary_or_in_its_list_or_of_std() {
        let listing = "Mutex\nLimitSet\n    fn lake(&self)\nMember\nSpan\nlock::LeasedPermit\n";
        assert_eq!(unexplained(listing, GLOSSARY), Vec::<&str>::new());
    }

    #[test]
    fn a_name_of_a_retired_word_is_told_and_arguments_are_not() {
        let listing = "fair::Ticket\nClock\n    fn pace(&self) -> u32\n    fn take(&self, turn: u64)\n\
                       Placement\n    Full { asked: usize, held: Ticket }\nfair::LeasedTurn\n";
        let told = [
            ("fair::Ticket", "waiter id"),
            ("Clock::pace", "interval, speed"),
            ("Placement::asked", "requested"),
            ("fair::LeasedTurn", "dispatch, queue position"),
        ];
        let told = told.map(|(name, better)| (name.to_owned(), better));
        assert_eq!(retired(listing), told);
    }

    #[test]
    fn a_name_that_nothing_explains_is_told() {
        let listing = "Lake\nLimitSet\nLimitPool\nlock::Span\nlock::Mutex\n";
        let unknown = ["Lake", "LimitPool", "lock::Span", "lock::Mutex"];
        assert_eq!(unexplained(listing, GLOSSARY), unknown);
    }
}
