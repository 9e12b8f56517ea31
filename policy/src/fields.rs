//! Typed look-ups in a table. What is never looked up is unknown, and said so.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use tidegate::{AmountError, MAX_AMOUNT, Unit};

use super::fault::Faults;
use super::span::parse_duration;
use super::suggest::write_instead;
use super::tree::{Entry, Node, Value};

/// An amount of any unit.
const EXAMPLE: &str = "1";

/// A table on its way through its reader.
pub(super) struct Fields<'a> {
    rest: Vec<Field<'a>>,
}

/// One entry: where its key stands, where its value stands, and the value.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) key_span: Range<usize>,
    pub(super) span: Range<usize>,
    node: &'a Node,
}

impl<'a> Fields<'a> {
    /// The entries in the order of the file.
    pub(super) fn of(entries: &'a [Entry]) -> Self {
        Self {
            rest: entries.iter().map(Field::of).collect(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes an entry out by its name.
    pub(super) fn take(&mut self, name: &str) -> Option<Field<'a>> {
        let at = self.rest.iter().position(|field| field.name == name)?;
        Some(self.rest.remove(at))
    }

    /// Takes out every entry that is itself a table.
    pub(super) fn take_tables(&mut self) -> Vec<Field<'a>> {
        let is_table = |field: &mut Field<'a>| matches!(field.node.value, Value::Table(_));
        self.rest.extract_if(.., is_table).collect()
    }

    /// All entries, for a table whose keys are names.
    pub(super) fn into_all(self) -> Vec<Field<'a>> {
        self.rest
    }

    /// Reports what of these names is there: settings of another sort of file.
    pub(super) fn elsewhere(
        &mut self,
        names: &[&str],
        what: &str,
        help: &str,
        faults: &mut Faults<'_>,
    ) {
        for name in names {
            if let Some(field) = self.take(name) {
                let message = format!("`{name}` is not a setting of {what}");
                faults.add(&field.key_span, message, help);
            }
        }
    }

    /// Reports what nobody took.
    pub(super) fn finish(self, what: &str, known: &[&str], faults: &mut Faults<'_>) {
        for field in self.rest {
            let message = format!("`{}` is not a setting of {what}", field.name);
            faults.add(&field.key_span, message, write_instead(field.name, known));
        }
    }
}

impl<'a> Field<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            name: &entry.name,
            key_span: entry.key_span.clone(),
            span: entry.node.span.clone(),
            node: &entry.node,
        }
    }

    /// Its value, as it stands in the file.
    pub(super) const fn node(&self) -> &'a Node {
        self.node
    }

    /// A whole number within `range`.
    pub(super) fn integer(
        &self,
        range: RangeInclusive<u64>,
        faults: &mut Faults<'_>,
    ) -> Option<u64> {
        let Value::Integer { number, written } = &self.node.value else {
            let help = format!("write a whole number, such as `{} = 100`", self.name);
            return self.mistyped("a whole number", &help, faults);
        };
        let fits = u64::try_from(*number)
            .ok()
            .filter(|number| range.contains(number));
        if fits.is_none() {
            let message = format!("`{}` is {written}, which is out of range", self.name);
            let help = format!("write {} to {}", range.start(), range.end());
            faults.add(&self.span, message, help);
        }
        fits
    }

    /// An amount in that unit, at least `least`: a whole number, or a decimal in quotes.
    pub(super) fn decimal(&self, unit: Unit, least: u64, faults: &mut Faults<'_>) -> Option<u64> {
        let read = match &self.node.value {
            Value::Integer { number, .. } => {
                let number =
                    u64::try_from(*number).map_err(|_| AmountError::Negative(number.to_string()));
                number.and_then(|number| unit.ones(number))
            }
            Value::Float(written) => {
                let message = format!("`{}` is a fraction that is not in quotes", self.name);
                faults.add(&self.span, message, self.in_quotes(written, unit));
                return None;
            }
            _ => unit.parse(self.text(EXAMPLE, faults)?),
        };
        let wrong = match read {
            Ok(amount) if amount >= least => return Some(amount),
            Ok(_) => "the amount is 0".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("`{}`: {wrong}", self.name);
        let (least, most) = (unit.show(least), unit.show(MAX_AMOUNT));
        let help = format!("write a multiple of {unit}, {least} to {most}");
        faults.add(&self.span, message, help);
        None
    }

    /// What to write in place of a fraction without quotes: the same with them.
    fn in_quotes(&self, written: &str, unit: Unit) -> String {
        let name = self.name;
        let places = written
            .split_once('.')
            .and_then(|(_, digits)| u8::try_from(digits.len()).ok())
            .filter(|places| (1..=9).contains(places));
        match (unit.parse(written), places) {
            (Ok(_), _) => format!("write it in quotes: `{name} = \"{written}\"`"),
            (Err(AmountError::NotAMultiple { .. }), Some(places)) => {
                let unit = Unit::decimal(places);
                format!(
                    "write it in quotes, and a unit as fine: `{name} = \"{written}\", unit = \"{unit}\"`"
                )
            }
            _ => format!("write a decimal in quotes, such as `{name} = \"{EXAMPLE}\"`"),
        }
    }

    /// Whether it is a fraction without quotes.
    pub(super) const fn is_fraction(&self) -> bool {
        matches!(self.node.value, Value::Float(_))
    }

    /// A decimal as it is written, in quotes or not.
    pub(super) fn written(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) | Value::Float(text) => Some(text),
            _ => None,
        }
    }

    /// A text.
    pub(super) fn text(&self, example: &str, faults: &mut Faults<'_>) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                let help = format!(
                    "write a string in quotes, such as `{} = \"{example}\"`",
                    self.name
                );
                self.mistyped("a string", &help, faults)
            }
        }
    }

    /// A date as it is written, without quotes.
    pub(super) fn date(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Date(text) => Some(text),
            _ => None,
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)], faults: &mut Faults<'_>) -> Option<T> {
        let text = self.text(words[0].0, faults)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("`{}` cannot be `{text}`", self.name);
            faults.add(&self.span, message, write_instead(text, &known));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, faults: &mut Faults<'_>) -> Option<bool> {
        match &self.node.value {
            Value::Flag(flag) => Some(*flag),
            _ => {
                let help = format!("write `{} = true` or leave it out", self.name);
                self.mistyped("true or false", &help, faults)
            }
        }
    }

    /// A length of time within `range`.
    pub(super) fn duration(
        &self,
        range: RangeInclusive<Duration>,
        faults: &mut Faults<'_>,
    ) -> Option<Duration> {
        let text = self.text("1m", faults)?;
        let length = match parse_duration(text) {
            Ok(length) => length,
            Err(error) => {
                faults.add(
                    &self.span,
                    format!("`{text}` is not a length of time"),
                    error.to_string(),
                );
                return None;
            }
        };
        if !range.contains(&length) {
            let message = format!("`{}` is {text}, which is out of range", self.name);
            let (shortest, longest) = (range.start(), range.end());
            let help = match longest.as_secs() / 86_400 {
                0 => format!("write {shortest:?} to {longest:?}"),
                days => format!("write {shortest:?} to {days} days"),
            };
            faults.add(&self.span, message, help);
            return None;
        }
        Some(length)
    }

    /// A list of texts, each with its place.
    pub(super) fn texts(&self, faults: &mut Faults<'_>) -> Vec<(&'a str, Range<usize>)> {
        let help = format!(
            "write strings in brackets, such as `{} = [\"org\", \"user\"]`",
            self.name
        );
        let Value::List(items) = &self.node.value else {
            self.mistyped::<()>("a list", &help, faults);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push((text.as_str(), item.span.clone())),
                other => faults.add(
                    &item.span,
                    format!("this is {}, not a string", other.kind()),
                    &*help,
                ),
            }
        }
        texts
    }

    /// A table inside this one.
    pub(super) fn table(&self, example: &str, faults: &mut Faults<'_>) -> Option<Fields<'a>> {
        match &self.node.value {
            Value::Table(entries) => Some(Fields::of(entries)),
            _ => self.mistyped("a table", &format!("write {example}"), faults),
        }
    }

    /// A list of tables, each with its place.
    pub(super) fn tables(
        &self,
        example: &str,
        faults: &mut Faults<'_>,
    ) -> Vec<(Range<usize>, Fields<'a>)> {
        let Value::List(items) = &self.node.value else {
            self.mistyped::<()>("a list of tables", &format!("write {example}"), faults);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match &item.value {
                Value::Table(entries) => tables.push((item.span.clone(), Fields::of(entries))),
                other => faults.add(
                    &item.span,
                    format!("this is {}, not a table", other.kind()),
                    format!("write {example}"),
                ),
            }
        }
        tables
    }

    fn mistyped<T>(&self, wanted: &str, help: &str, faults: &mut Faults<'_>) -> Option<T> {
        let message = format!(
            "`{}` is {}; it must be {wanted}",
            self.name,
            self.node.value.kind()
        );
        faults.add(&self.span, message, help);
        None
    }
}
