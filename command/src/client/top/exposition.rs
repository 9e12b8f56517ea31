//! Prometheus's text format, as far as a server writes it.

use std::collections::BTreeMap;

/// One line: a name, labels, a number.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What is measured.
    pub name: String,
    /// Of what.
    pub labels: BTreeMap<String, String>,
    /// How much.
    pub value: f64,
}

/// Every line that is one; comments and what cannot be read are left out.
pub fn lines(text: &str) -> impl Iterator<Item = Line> + '_ {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read)
}

fn read(line: &str) -> Option<Line> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    // A time may follow the number.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    let name = name.to_owned();
    Some(Line {
        name,
        labels,
        value,
    })
}

/// The labels up to the closing brace, and what follows.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = unquote(quoted)?;
        labels.insert(name.to_owned(), value);
        rest = after;
    }
}

/// A text up to its closing quote, with its escapes resolved.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_labels_and_a_number() {
        let text =
            "# HELP x y\nplain 3\n\nbad\nlabelled{a=\"x\\\"}\\n\\\\\",le=\"+Inf\"} 1.5e3 17\n";
        let read: Vec<_> = lines(text).collect();
        assert_eq!((read[0].name.as_str(), read[0].value), ("plain", 3.0));
        assert_eq!(
            (read[1].labels["a"].as_str(), read[1].value),
            ("x\"}\n\\", 1_500.0)
        );
        assert_eq!((read[1].labels["le"].as_str(), read.len()), ("+Inf", 2));
    }

    #[test]
    fn what_breaks_off_is_left_out() {
        for text in [
            "a{",
            "a{b",
            "a{b=\"",
            "a{b=\"c\\",
            "a{b=\"c\"",
            "a{b=\"c\"}",
            "a{} x",
        ] {
            assert_eq!(lines(text).count(), 0, "{text}");
        }
    }
}
