//! The Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`.
//!
//! Instants are UTC, with 7 digits or with an offset; columns are found by
//! their names, so that later editions with more of them are read too.

use std::borrow::Cow;
use std::io::Read as Input;

use csv::StringRecord;

use super::instant::written;
use super::record::{Fault, Read, Record};

/// Reads the lines of such a file.
pub struct Azure<R> {
    reader: csv::Reader<R>,
    header: Option<Vec<Cow<'static, str>>>,
    row: StringRecord,
}

impl<R: Input> Azure<R> {
    pub fn new(input: R) -> Self {
        // Ended by the line feed alone (trimming takes the return before it):
        // with both as one end, the crate counts lines one behind.
        let reader = csv::ReaderBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .trim(csv::Trim::All)
            .flexible(true)
            .from_reader(input);
        Self {
            reader,
            header: None,
            row: StringRecord::new(),
        }
    }

    fn header(&mut self) -> Result<(), Fault> {
        if self.header.is_none() {
            let header = self.reader.headers().map_err(|error| fault(&error))?;
            self.header = Some(
                header
                    .iter()
                    .map(|name| Cow::Owned(name.to_owned()))
                    .collect(),
            );
        }
        Ok(())
    }

    /// To the next row that is not blank.
    fn advance(&mut self) -> Result<bool, Fault> {
        loop {
            let more = self
                .reader
                .read_record(&mut self.row)
                .map_err(|error| fault(&error))?;
            if !more || self.row.len() > 1 || !self.row[0].is_empty() {
                return Ok(more);
            }
        }
    }

    fn row(&mut self) -> Result<Option<Record>, Fault> {
        self.header()?;
        if !self.advance()? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        let (len, expected) = (self.row.len(), self.header.iter().flatten().count());
        if len != expected {
            let message = format!("has {len} columns; write {expected}, as the first line does");
            return Err(Fault { line, message });
        }
        let names = self.header.iter().flatten().cloned();
        let fields: Vec<_> = names.zip(self.row.iter().map(str::to_owned)).collect();
        let mut record = Record {
            line,
            at: 0,
            fields,
        };
        record.at = at(&record).map_err(|message| Fault { line, message })?;
        Ok(Some(record))
    }
}

impl<R: Input> Iterator for Azure<R> {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        self.row().transpose()
    }
}

fn at(record: &Record) -> Result<i64, String> {
    let text = record.field("TIMESTAMP").unwrap_or_default();
    written(text).ok_or_else(|| {
        format!("`{text}` is not an instant; write it as 2023-11-16 18:17:03.9799600")
    })
}

fn fault(error: &csv::Error) -> Fault {
    let line = error.position().map_or(1, csv::Position::line);
    let message = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8 text".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    Fault { line, message }
}

#[cfg(test)]
mod tests {
    use super::Azure;

    #[test]
    fn rows_have_the_columns_of_the_header() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2024-05-10 00:00:00.009930+00:00,3,4";
        let rows: Vec<_> = Azure::new(text.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(rows[0].at, 1_700_158_623_979_960);
        assert_eq!(rows[0].field("ContextTokens"), Some("4808"));
        assert_eq!((rows[1].line, rows[1].at), (3, 1_715_299_200_009_930));
        assert_eq!(rows[1].field("GeneratedTokens"), Some("4"));
    }

    #[test]
    fn a_faulty_row_is_named_by_its_line() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,1\n";
        let fault = Azure::new(text.as_bytes()).next().unwrap().unwrap_err();
        assert_eq!(
            (fault.line, &*fault.message),
            (2, "has 2 columns; write 3, as the first line does")
        );
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n";
        let fault = Azure::new(text.as_bytes()).next().unwrap().unwrap_err();
        assert!(fault.line == 2 && fault.message.starts_with("`noon` is not an instant"));
    }
}
