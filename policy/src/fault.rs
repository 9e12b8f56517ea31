//! What is wrong with a policy file.

use std::fmt;
use std::ops::Range;

use super::source::{Place, Source};

/// One thing that is wrong, where, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    width: usize,
    excerpt: String,
}

/// Everything that is wrong with a policy file, in the order of its lines.
///
/// It displays as a person wants to read it: each fault with its place, the
/// line and what to write. Each but the first begins with `error: `.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyErrors {
    source: String,
    faults: Vec<Fault>,
}

impl PolicyErrors {
    /// The name that the text was given.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.source
    }

    /// The faults, at least one.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            // Whoever shows them begins with `error: `, and so does each.
            if i > 0 {
                f.write_str("\n\nerror: ")?;
            }
            fault.write(f, &self.source)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

impl Fault {
    /// The compiler's form of an error, which everyone has learnt to read.
    fn write(&self, f: &mut fmt::Formatter<'_>, source: &str) -> fmt::Result {
        let Self {
            line,
            column,
            message,
            help,
            width,
            excerpt,
        } = self;
        let gutter = line.to_string().len();
        writeln!(f, "{message}")?;
        writeln!(f, "{:gutter$}--> {source}:{line}:{column}", "")?;
        writeln!(f, "{:gutter$} |", "")?;
        writeln!(f, "{line} | {excerpt}")?;
        let indent = column - 1;
        writeln!(f, "{:gutter$} | {:indent$}{:^<width$}", "", "", "")?;
        write!(f, "{:gutter$} = {help}", "")
    }
}

/// How many faults of one file are told: each takes a look through its text.
const MOST: usize = 1_000;

/// Collects faults while a file is read.
pub(super) struct Faults<'t> {
    source: &'t Source<'t>,
    list: Vec<Fault>,
}

impl<'t> Faults<'t> {
    pub(super) const fn new(source: &'t Source<'t>) -> Self {
        Self {
            source,
            list: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.list.len() < MOST {
            self.tell(span, message, help);
        } else if self.list.len() == MOST {
            let message = format!("there are more than {MOST} faults");
            self.tell(span, message, "correct these first");
        }
    }

    fn tell(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        let Place {
            line,
            column,
            width,
            excerpt,
        } = self.source.place(span);
        let (message, help) = (message.into(), self.source.language.rewrite(help.into()));
        self.list.push(Fault {
            line,
            column,
            message,
            help,
            width,
            excerpt,
        });
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_errors(mut self) -> PolicyErrors {
        self.list.sort_by_key(|fault| (fault.line, fault.column));
        self.list.dedup();
        PolicyErrors {
            source: self.source.name.to_owned(),
            faults: self.list,
        }
    }
}
