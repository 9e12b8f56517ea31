//! The combined log of Apache and nginx, and the common log, which is the same
//! without referer and agent:
//!
//! ```text
//! 203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326 "-" "curl/8"
//! ```
//!
//! Instants are whole seconds with an offset: what the log says of one second
//! arrives together, in the order of the lines.

use std::borrow::Cow;
use std::io::BufRead;

use jiff::fmt::strtime;

use super::record::{Lines, Read, Record};

/// Reads the lines of such a log.
pub struct Combined<R> {
    lines: Lines<R>,
}

impl<R: BufRead> Combined<R> {
    pub const fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input),
        }
    }
}

impl<R: BufRead> Iterator for Combined<R> {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        self.lines.read(parse)
    }
}

/// Whether a line looks like one of such a log.
pub fn looks_like(line: &str) -> bool {
    parse(1, line).is_ok()
}

fn parse(line: u64, text: &str) -> Result<Record, String> {
    let mut rest = Cursor(text);
    let ip = rest.word()?;
    let _identity = rest.word()?;
    let user = rest.until(" [", "the time in brackets")?;
    let time = rest.until("]", "the end of the time")?;
    let request = rest.quoted("the request in quotes")?;
    let status = rest.word()?;
    let bytes = rest.word()?;
    let bytes = if bytes == "-" { "0" } else { bytes };
    let referer = rest.quoted("").unwrap_or_default();
    let agent = rest.quoted("").unwrap_or_default();
    let (method, path) = method_and_path(&request);
    let fields = [
        ("ip", ip),
        ("user", user.trim()),
        ("method", method),
        ("path", path),
        ("status", status),
        ("bytes", bytes),
        ("referer", &referer),
        ("agent", &agent),
    ];
    let fields = fields
        .map(|(name, value)| (Cow::Borrowed(name), value.to_owned()))
        .to_vec();
    Ok(Record {
        line,
        at: at(time)?,
        fields,
    })
}

fn at(time: &str) -> Result<i64, String> {
    let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).and_then(|time| time.to_timestamp());
    let help = || format!("`{time}` is not an instant; write it as 10/Oct/2000:13:55:36 -0700");
    Ok(parsed.map_err(|_| help())?.as_microsecond())
}

/// `GET /a?b HTTP/1.1`; a request that was no HTTP is all path.
fn method_and_path(request: &str) -> (&str, &str) {
    let mut words = request.split(' ');
    match (words.next(), words.next()) {
        (Some(method), Some(path)) => (method, path),
        _ => ("", request),
    }
}

/// What is left of a line.
struct Cursor<'t>(&'t str);

impl<'t> Cursor<'t> {
    fn word(&mut self) -> Result<&'t str, String> {
        let text = self.0.trim_start();
        if text.is_empty() {
            return Err(shape("more"));
        }
        let end = text.find(' ').unwrap_or(text.len());
        self.0 = &text[end..];
        Ok(&text[..end])
    }

    fn until(&mut self, mark: &str, what: &str) -> Result<&'t str, String> {
        let (before, after) = self.0.split_once(mark).ok_or_else(|| shape(what))?;
        self.0 = after;
        Ok(before)
    }

    /// A text in quotes, in which a backslash quotes the next character.
    fn quoted(&mut self, what: &str) -> Result<Cow<'t, str>, String> {
        let text = self
            .0
            .trim_start()
            .strip_prefix('"')
            .ok_or_else(|| shape(what))?;
        let mut escaped = false;
        let end = text.char_indices().find(|&(_, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (end, _) = end.ok_or_else(|| shape("a closing quote"))?;
        self.0 = &text[end + 1..];
        Ok(unescape(&text[..end]))
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let quoted = rest.next_if(|&next| c == '\\' && matches!(next, '"' | '\\'));
        out.push(quoted.unwrap_or(c));
    }
    Cow::Owned(out)
}

fn shape(missing: &str) -> String {
    format!(
        "lacks {missing}; a line of the combined log is \
         `IP - USER [10/Oct/2000:13:55:36 -0700] \"GET /path HTTP/1.1\" STATUS BYTES \"REFERER\" \"AGENT\"`"
    )
}

#[cfg(test)]
mod tests {
    use super::{looks_like, parse};

    const LINE: &str = r#"203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 2326 "https://example.org/" "Mozilla/5.0 (\"x\")""#;

    #[test]
    fn a_combined_line_gives_its_fields_and_its_offset_counts() {
        let record = parse(7, LINE).unwrap();
        assert_eq!((record.line, record.at), (7, 971_211_336_000_000));
        for (name, value) in [
            ("ip", "203.0.113.7"),
            ("user", "alice"),
            ("method", "GET"),
            ("path", "/a?b=1"),
            ("status", "200"),
            ("bytes", "2326"),
            ("agent", r#"Mozilla/5.0 ("x")"#),
        ] {
            assert_eq!(record.field(name), Some(value), "{name}");
        }
    }

    #[test]
    fn no_bytes_are_zero_and_the_common_log_is_read_too() {
        let record = parse(1, r#"::1 - - [10/Oct/2000:13:55:36 +0000] "-" 408 -"#).unwrap();
        assert_eq!(record.field("bytes"), Some("0"));
        assert_eq!(
            (record.field("user"), record.field("path")),
            (Some("-"), Some("-"))
        );
    }

    #[test]
    fn a_user_with_a_space_and_a_broken_request_are_survived() {
        let record = parse(
            1,
            r#"h - a b [10/Oct/2000:13:55:36 +0000] "\x16\x03 \"" 400 0 "-" "-""#,
        )
        .unwrap();
        assert_eq!(record.field("user"), Some("a b"));
        assert_eq!(record.field("status"), Some("400"));
    }

    #[test]
    fn what_is_no_such_line_says_what_one_looks_like() {
        for text in [
            "",
            "hello",
            "a b c [x] \"r\" 1 2",
            "a - - [10/Oct/2000:13:55:36 +0000] \"GET",
        ] {
            assert!(!looks_like(text), "{text}");
        }
        let message = parse(1, "a - - [noon] \"r\" 200 1").unwrap_err();
        assert!(message.starts_with("`noon` is not an instant"));
    }
}
