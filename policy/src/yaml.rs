//! YAML as a tree.
//!
//! Read are mappings, lists, texts, whole numbers, `true` and `false`, as YAML
//! 1.2 has them in its core schema; numbers may have underscores, as in TOML.
//! Anchors, aliases, tags and further documents are refused: a policy says what
//! it means where it stands, and a small file cannot become a large tree.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::fault::Faults;
use super::tree::{Entry, Node, Value};

/// How deep collections may lie in each other: a policy needs six.
const DEEPEST: usize = 32;

/// The whole text; nothing if it is no YAML that is read here, and why.
pub(super) fn read(text: &str, faults: &mut Faults<'_>) -> Option<Node> {
    let mut builder = Builder::new(text);
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.add(event, &span),
            Err(error) => Err(not_yaml(&error, text)),
        };
        if let Err(fault) = step {
            fault.tell(faults);
            return None;
        }
    }
    let sound = builder.faults.is_empty();
    builder
        .faults
        .into_iter()
        .for_each(|fault| fault.tell(faults));
    let empty = || Node {
        span: 0..0,
        value: Value::Table(Vec::new()),
    };
    // A file without a document is an empty one.
    sound.then(|| builder.root.unwrap_or_else(empty))
}

/// What is wrong with the text, where, and what to do.
struct Wrong(Range<usize>, String, &'static str);

impl Wrong {
    fn tell(self, faults: &mut Faults<'_>) {
        faults.add(&self.0, self.1, self.2);
    }
}

fn not_yaml(error: &ScanError, text: &str) -> Wrong {
    let marker = error.marker();
    // The scanner counts characters where it cannot count bytes.
    let characters = || text.char_indices().nth(marker.index()).map(|(at, _)| at);
    let at = marker
        .byte_offset()
        .or_else(characters)
        .unwrap_or(text.len());
    let help = "a limit is written `name = { calls = 300, per = \"1m\" }`, indented by spaces";
    Wrong(at..at, format!("this is not YAML: {}", error.info()), help)
}

/// A collection whose end is still to come.
enum Open {
    List(usize, Vec<Node>),
    Table(usize, Table),
}

/// A table, its names, and the name whose value is to come.
#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    names: HashSet<String>,
    name: Option<(String, Range<usize>)>,
}

struct Builder<'t> {
    text: &'t str,
    open: Vec<Open>,
    root: Option<Node>,
    faults: Vec<Wrong>,
}

impl<'t> Builder<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            open: Vec::new(),
            root: None,
            faults: Vec::new(),
        }
    }

    /// Takes the next event; an error ends the reading.
    fn add(&mut self, event: Event<'_>, span: &Span) -> Result<(), Wrong> {
        let place = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.plain(&place, anchor, tag.is_some())?;
                self.scalar(text, style, place)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.plain(&place, anchor, tag.is_some())?;
                self.open(Open::List(place.start, Vec::new()), &place)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.plain(&place, anchor, tag.is_some())?;
                self.open(Open::Table(place.start, Table::default()), &place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place.end),
            Event::DocumentStart(..) if self.root.is_some() => Err(Wrong(
                place,
                "a second document begins here".to_owned(),
                "write all policies in one document: remove the `---`",
            )),
            Event::Alias(..) | Event::UnresolvedAlias(..) => Err(reference(place)),
            _ => Ok(()),
        }
    }

    fn place(&self, span: &Span) -> Range<usize> {
        let end = self.text.len();
        span.byte_range().map_or(end..end, |range| {
            // The end of a block reaches into the lines after it.
            let written = self
                .text
                .get(range.clone())
                .map_or(0, |t| t.trim_end().len());
            range.start..range.start + written
        })
    }

    /// Refuses what stands for something that is written elsewhere.
    fn plain(&self, place: &Range<usize>, anchor: usize, tagged: bool) -> Result<(), Wrong> {
        if anchor != 0 {
            return Err(reference(place.clone()));
        }
        match tagged {
            true => Err(Wrong(
                place.clone(),
                "a tag stands before this value".to_owned(),
                "remove it; a string that looks like a number is written in quotes",
            )),
            false => Ok(()),
        }
    }

    fn open(&mut self, collection: Open, place: &Range<usize>) -> Result<(), Wrong> {
        if let Some(Open::Table(_, Table { name: None, .. })) = self.open.last() {
            return Err(no_name(place.clone()));
        }
        if self.open.len() >= DEEPEST {
            let message = format!("this lies deeper than {DEEPEST} collections");
            return Err(Wrong(
                place.clone(),
                message,
                "a policy needs no more than six",
            ));
        }
        self.open.push(collection);
        Ok(())
    }

    fn close(&mut self, end: usize) -> Result<(), Wrong> {
        let (start, value) = match self.open.pop() {
            Some(Open::List(start, items)) => (start, Value::List(items)),
            Some(Open::Table(start, table)) => (start, Value::Table(table.entries)),
            None => return Ok(()),
        };
        let span = start..end.max(start);
        self.put(Node { span, value })
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        place: Range<usize>,
    ) -> Result<(), Wrong> {
        if let Some(Open::Table(_, table)) = self.open.last_mut()
            && table.name.is_none()
        {
            if !table.names.insert(text.to_string()) {
                let message = format!("`{text}` stands here twice");
                let help = "two of one name: rename one, or remove it";
                self.faults.push(Wrong(place.clone(), message, help));
            }
            table.name = Some((text.into_owned(), place));
            return Ok(());
        }
        let value = match style {
            ScalarStyle::Plain => resolve(&text),
            _ => Value::Text(text.into_owned()),
        };
        self.put(Node { span: place, value })
    }

    /// Puts a whole value where it belongs.
    fn put(&mut self, node: Node) -> Result<(), Wrong> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Table(_, table)) => {
                let (name, key_span) = table
                    .name
                    .take()
                    .ok_or_else(|| no_name(node.span.clone()))?;
                table.entries.push(Entry {
                    name,
                    key_span,
                    node,
                });
            }
        }
        Ok(())
    }
}

fn reference(place: Range<usize>) -> Wrong {
    let help = "write it out in each place";
    Wrong(place, "anchors and aliases are not read".to_owned(), help)
}

fn no_name(place: Range<usize>) -> Wrong {
    let help = "write a name, such as `chat`, before the colon";
    Wrong(place, "a collection cannot be a name".to_owned(), help)
}

/// What a plain scalar is (YAML 1.2.2, 10.3.2, the core schema).
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Nothing,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ => match integer(text) {
            Some(number) => Value::Integer {
                number,
                written: text.to_owned(),
            },
            None if is_float(text) => Value::Float(text.to_owned()),
            None => Value::Text(text.to_owned()),
        },
    }
}

/// A whole number; one that is too large for any use is the largest there is.
fn integer(text: &str) -> Option<i128> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 16),
        (_, Some(digits)) => (digits, 8),
        _ => (text.strip_prefix(['+', '-']).unwrap_or(text), 10),
    };
    let mut parts = digits.split('_');
    let sound = parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_digit(radix)));
    let number = i128::from_str_radix(&digits.replace('_', ""), radix).unwrap_or(i128::MAX);
    sound.then_some(if text.starts_with('-') {
        -number
    } else {
        number
    })
}

fn is_float(text: &str) -> bool {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(bare, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
        || (bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && text.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Value, resolve};

    #[test]
    fn a_plain_scalar_is_what_the_core_schema_says() {
        let number = |text: &str| match resolve(text) {
            Value::Integer { number, .. } => number,
            other => panic!("{text} is {other:?}"),
        };
        assert_eq!(number("300"), 300);
        assert_eq!(number("-7"), -7);
        assert_eq!(number("0x10"), 16);
        assert_eq!(number("0o17"), 15);
        assert_eq!(number("600_000"), 600_000);
        assert_eq!(number(&"9".repeat(60)), i128::MAX);
        for text in [
            "1m",
            "1_",
            "_1",
            "yes",
            "0x",
            "1h 30m",
            "-",
            "10.0.0.1:7400",
            "off",
        ] {
            assert!(matches!(resolve(text), Value::Text(_)), "{text}");
        }
        for text in ["1.5", "1e3", ".nan", "-.inf", ".5"] {
            assert!(matches!(resolve(text), Value::Float(_)), "{text}");
        }
        assert!(matches!(resolve("~"), Value::Nothing));
        assert!(matches!(resolve("false"), Value::Flag(false)));
    }
}
