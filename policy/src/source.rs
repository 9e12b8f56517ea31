//! A text with a name, and where in it something stands.

use std::ops::Range;

use super::language::Language;

/// A policy's text; finds lines and columns for byte offsets.
pub(super) struct Source<'t> {
    pub(super) name: &'t str,
    pub(super) text: &'t str,
    pub(super) language: Language,
}

/// A place as an editor shows it, with the line it is on.
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
    pub(super) excerpt: String,
}

impl Source<'_> {
    /// The place of a byte range; a range over several lines is cut at the end
    /// of its first.
    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        let start = self.boundary(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |at| start + at);
        let end = self.boundary(span.end).clamp(start, line_end);
        Place {
            line: self.text[..line_start].matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            width: self.text[start..end].chars().count().max(1),
            excerpt: printable(&self.text[line_start..line_end]),
        }
    }

    /// The nearest character boundary at or before a byte offset.
    fn boundary(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at)
            .rev()
            .find(|&i| self.text.is_char_boundary(i))
            .unwrap_or(0)
    }
}

/// A line as it can be printed under a number: every character one column, so
/// that the marker below it stands where it should.
fn printable(line: &str) -> String {
    let line = line.trim_end();
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Language, Source};

    #[test]
    fn a_place_counts_characters_not_bytes() {
        let source = Source {
            name: "p",
            text: "a = 1\nä = \"ö\" # x\n",
            language: Language::Toml,
        };
        let place = source.place(&(11..15));
        assert_eq!((place.line, place.column, place.width), (2, 5, 3));
        assert_eq!(place.excerpt, "ä = \"ö\" # x");
    }

    #[test]
    fn a_place_beyond_the_text_is_its_end() {
        let source = Source {
            name: "p",
            text: "a = ",
            language: Language::Toml,
        };
        let place = source.place(&(90..99));
        assert_eq!((place.line, place.column, place.width), (1, 5, 1));
    }
}
