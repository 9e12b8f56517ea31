//! What was written of models, by their names.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Something of each model: under its name, or under the beginning of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByModel<T>(BTreeMap<String, T>);

impl<T> Default for ByModel<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> ByModel<T> {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were written, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, T)> {
        self.0.iter().map(|(model, one)| (model.as_str(), *one))
    }

    /// What was written for exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<T> {
        self.0.get(name).copied()
    }

    /// What holds for a model: what was written for its name, or for the longest that it is a version
    /// of: `gpt-5` for `gpt-5-2026-02-01` and `gpt-5-latest`, not for `gpt-5-mini`. Else that of the
    /// longest beginning: `gpt-5-*` for `gpt-5-mini`, `*` for any.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<T> {
        self.by_name(model).or_else(|| self.by_beginning(model))
    }

    fn by_name(&self, model: &str) -> Option<T> {
        let upto = (Bound::Unbounded, Bound::Included(model));
        let upto = self.0.range::<str, _>(upto).rev();
        let mut beginnings = upto.filter(|(name, _)| is_version(model, name));
        beginnings.next().map(|(_, one)| *one)
    }

    fn by_beginning(&self, model: &str) -> Option<T> {
        let begins = |(name, one): (&String, &T)| {
            let beginning = name.strip_suffix('*')?;
            let begins = model.starts_with(beginning);
            begins.then_some((beginning.len(), *one))
        };
        let all = self.0.iter().filter_map(begins);
        all.max_by_key(|(length, _)| *length).map(|(_, one)| one)
    }
}

/// Whether `model` is `name`, or a version of it by a number or a date.
fn is_version(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else {
        return false;
    };
    let version = rest.strip_prefix(['-', '@', ':']);
    rest.is_empty()
        || rest == "-latest"
        || version.is_some_and(|version| {
            version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_of_a_date)
        })
}

const fn is_of_a_date(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | '.' | ':')
}

impl<T> FromIterator<(String, T)> for ByModel<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names with 1, 2, 3 and so on.
    fn numbered(names: &[&str]) -> ByModel<u32> {
        let names = names.iter().map(|name| (*name).to_owned());
        names.zip(1..).collect()
    }

    #[test]
    fn a_model_has_what_the_longest_name_has_that_it_is_a_version_of() {
        let all = numbered(&["gpt-5", "gpt-5-mini", "gpt-6"]);
        assert_eq!(all.of("gpt-5"), Some(1));
        assert_eq!(all.of("gpt-5-2026-02-01"), Some(1));
        assert_eq!(all.of("gpt-5-mini-2026"), Some(2));
        assert_eq!(all.of("gpt-6-latest"), Some(3));
        for other in [
            "gpt-4o",
            "gpt-5-pro",
            "gpt-5.1",
            "gpt-5-",
            "gpt-5-4o",
            "gp",
            "",
        ] {
            assert_eq!(all.of(other), None, "{other}");
        }
    }

    #[test]
    fn what_has_no_name_has_what_the_longest_beginning_has() {
        let all = numbered(&["gpt-5", "gpt-*", "gpt-5-*", "*"]);
        assert_eq!(all.of("gpt-5-2026-02-01"), Some(1));
        assert_eq!(all.of("gpt-5-mini"), Some(3));
        assert_eq!(all.of("gpt-4o"), Some(2));
        assert_eq!(all.of("claude"), Some(4));
    }
}
