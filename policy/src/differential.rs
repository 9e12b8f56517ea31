//! The same file in TOML and in YAML: the same policies, the same faults on the
//! same lines, the same words for what to write (in each one's language).
//!
//! A file is translated so that every name keeps its line: YAML's flow style
//! can break a line anywhere.

use super::fault::Faults;
use super::language::Language;
use super::source::Source;
use super::tree::{Entry, Node, Value};
use super::{Fault, PolicyErrors, parse, toml};

/// TOML as YAML, each name on the line that it had; nothing if it is no TOML.
fn translated(text: &str) -> Option<String> {
    let source = Source {
        name: "p.toml",
        text,
        language: Language::Toml,
    };
    let mut faults = Faults::new(&source);
    let tree = toml::read(text, &mut faults)?;
    let mut yaml = Translation {
        toml: text,
        yaml: String::new(),
        in_order: true,
    };
    yaml.node(&tree);
    yaml.in_order.then_some(yaml.yaml)
}

struct Translation<'t> {
    toml: &'t str,
    yaml: String,
    /// Tables may stand apart in TOML, and not in YAML.
    in_order: bool,
}

impl Translation<'_> {
    fn go_to(&mut self, at: usize) {
        let line = self.toml[..at].matches('\n').count();
        let here = self.yaml.matches('\n').count();
        self.in_order &= line >= here;
        for _ in here..line {
            self.yaml.push('\n');
        }
    }

    fn node(&mut self, node: &Node) {
        match &node.value {
            Value::Nothing => self.yaml.push('~'),
            Value::Text(text) => self.text(text),
            Value::Integer { written, .. } => self.yaml.push_str(written),
            // YAML writes those that are no numbers otherwise.
            Value::Float(written) => match written.contains(|c: char| c.is_ascii_digit()) {
                true => self.yaml.push_str(written),
                false => self.yaml.push_str(".nan"),
            },
            Value::Flag(flag) => self.yaml.push_str(&flag.to_string()),
            Value::Date(_) => self.yaml.push_str("1979-05-27"),
            Value::List(items) => {
                self.yaml.push('[');
                for item in items {
                    if !matches!(item.value, Value::Table(_)) {
                        self.go_to(item.span.start);
                    }
                    self.node(item);
                    self.yaml.push_str(", ");
                }
                self.yaml.push(']');
            }
            Value::Table(entries) => {
                self.yaml.push('{');
                entries.iter().for_each(|entry| self.entry(entry));
                self.yaml.push('}');
            }
        }
    }

    fn entry(&mut self, entry: &Entry) {
        self.go_to(entry.key_span.start);
        self.text(&entry.name);
        self.yaml.push_str(": ");
        self.node(&entry.node);
        self.yaml.push_str(", ");
    }

    fn text(&mut self, text: &str) {
        self.yaml
            .push_str(&format!("'{}'", text.replace('\'', "''")));
    }
}

fn told(errors: &PolicyErrors, language: Language) -> Vec<(usize, String, String)> {
    let one = |fault: &Fault| {
        let help = language.rewrite(fault.help.clone());
        (fault.line, fault.message.clone(), help)
    };
    let mut told: Vec<_> = errors.faults().iter().map(one).collect();
    told.sort();
    told
}

/// Whether it could be compared.
fn same(text: &str) -> bool {
    let Some(yaml) = translated(text) else {
        return false;
    };
    match (parse("p.toml", text), parse("p.yaml", &yaml)) {
        (Ok(toml), Ok(yaml)) => assert_eq!(toml, yaml, "{text}"),
        (Err(toml), Err(said)) => {
            // Help is thought of in TOML, and rewritten once for YAML.
            let expected = told(&toml, Language::Yaml);
            assert_eq!(told(&said, Language::Toml), expected, "{text}\n{yaml}");
        }
        (toml, said) => panic!("{text}\n{toml:?}\n{yaml}\n{said:?}"),
    }
    true
}

#[test]
fn every_example_says_the_same_in_yaml() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = std::fs::read_dir(folder).unwrap();
    let toml = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let texts: Vec<String> = toml
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(!texts.is_empty());
    assert!(texts.iter().all(|text| same(text)));
}

#[test]
fn every_limit_says_the_same_in_yaml_and_so_do_its_faults() {
    let fixtures = super::tests::LIMITS
        .iter()
        .chain(super::tests::FAULTY_LIMITS);
    for limit in fixtures {
        let text = format!("[policy.p]\nkey = \"org/user\"\n[policy.p.limits]\n{limit}\n");
        assert!(same(&text), "{limit}");
    }
}

#[test]
fn every_policy_says_the_same_in_yaml_and_so_do_its_faults() {
    let fixtures = super::tests::POLICIES
        .iter()
        .chain(super::tests::FAULTY_POLICIES);
    for text in fixtures {
        assert!(same(text), "{text}");
    }
}

/// A letter changed anywhere: what is still TOML says the same in YAML.
#[test]
fn a_file_with_a_slip_anywhere_says_the_same_in_yaml() {
    let mut compared = 0;
    for text in super::tests::POLICIES {
        for (at, found) in text.char_indices() {
            for other in ["", "x", "0", "\"", "\n"] {
                let slip = format!("{}{other}{}", &text[..at], &text[at + found.len_utf8()..]);
                compared += usize::from(same(&slip));
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// Bounded in depth, whatever the reader below it allows.
#[test]
fn no_yaml_makes_it_panic() {
    let good = "policy:\n  p:\n    key: 'org/ü'\n    limits:\n\
        \x20     a: { calls: 300, per: \"1m\", burst: 3, level: org }\n      r:\n        concurrency: 2\n";
    assert!(parse("p.yaml", good).is_ok());
    for (at, found) in good.char_indices() {
        for other in [
            "\"", "'", ":", "{", "}", "[", "\n", "\t", "-", "&a ", "*a", "!!x ", "---\n", "|",
            "\0", "é", "",
        ] {
            let text = format!("{}{other}{}", &good[..at], &good[at + found.len_utf8()..]);
            if let Err(errors) = parse("p.yaml", &text) {
                assert!(!errors.faults().is_empty() && !errors.to_string().is_empty());
            }
        }
    }
    for deep in ["[", "{a: ", "- ", "? ", "{", "a:\n "] {
        assert!(parse("p.yaml", &deep.repeat(20_000)).is_err(), "{deep}");
    }
}

#[test]
fn what_is_yaml_and_no_policy_is_told_in_its_place() {
    for (text, line, message) in [
        (
            "policy:\n  a: &b\n    limits: 3\n",
            3,
            "anchors and aliases",
        ),
        ("policy: *b\n", 1, ""),
        ("policy:\n  a: !!str x\n", 2, "a tag stands"),
        (
            "policy:\n  a: {}\n---\npolicy: {}\n",
            3,
            "a second document",
        ),
        ("policy:\n  a:\n  a:\n", 3, "`a` stands here twice"),
        ("policy:\n  a:\n", 2, "`a` is empty"),
        ("- policy\n", 1, "the file is a list"),
        ("policy: [\n", 1, "this is not YAML"),
        ("", 1, "the file has no policy"),
    ] {
        let errors = parse("p.yaml", text).unwrap_err();
        let mut faults = errors.faults().iter();
        let found = faults.any(|f| f.line == line && f.message.contains(message));
        assert!(found, "{text}\n{errors}");
    }
}
