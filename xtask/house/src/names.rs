//! Public names that a reader of the glossary knows: its words, and its list of names.

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
    use super::unexplained;

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
    fn a_name_that_nothing_explains_is_told() {
        let listing = "Lake\nLimitSet\nLimitPool\nlock::Span\nlock::Mutex\n";
        let unknown = ["Lake", "LimitPool", "lock::Span", "lock::Mutex"];
        assert_eq!(unexplained(listing, GLOSSARY), unknown);
    }
}
