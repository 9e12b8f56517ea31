//! Answers that somebody has published, as they stood: `recorded/*.txt`.
//!
//! A file is lines with headers, an empty line, and a body. Lines that begin with `#` say what is
//! to be read:
//!
//! | line | says |
//! |---|---|
//! | `# source:` | where it was published; of names and texts only what means something is kept |
//! | `# provider:`, `# status:` | whose answer it is |
//! | `# at:` | when it came, where no `date` says so |
//! | `# reads:` | a limit: its name, how much there is, how much is left, milliseconds until it is full |
//! | `# means:` | a refusal: its kind, milliseconds to wait, whether to ask again |
//! | `# uses:` | tokens of the prompt, out of a cache, into one, of the answer |
//! | `# ignored:` | how many values were none; without it 0 |
//!
//! `-` is what is not said.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use http::HeaderMap;
use tidegate_core::Timestamp;
use tidegate_llm::{Kind, Observation, Provider, Received, Refusal, Signals, Usage};

use super::headers;

/// An answer, and what it is to say.
struct Recorded<'t> {
    facts: Vec<(&'t str, &'t str)>,
    headers: HeaderMap,
    body: &'t str,
}

impl<'t> Recorded<'t> {
    fn of(text: &'t str) -> Self {
        // An empty line may come first: an answer whose headers nobody has published.
        let (head, body) = text.split_once("\n\n").expect("an empty line");
        let (facts, lines): (Vec<_>, Vec<_>) = head.lines().partition(|line| line.starts_with('#'));
        let pair = |line: &'t str| line.split_once(": ").expect("a name and a value");
        let facts = facts.into_iter().map(|line| pair(&line[2..]));
        let lines: Vec<_> = lines.into_iter().map(pair).collect();
        Self {
            facts: facts.collect(),
            headers: headers(&lines),
            body: body.trim_end(),
        }
    }

    fn all(&self, name: &str) -> Vec<&'t str> {
        let named = self.facts.iter().filter(|(fact, _)| *fact == name);
        named.map(|(_, value)| *value).collect()
    }

    fn one(&self, name: &str) -> Option<&'t str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} is said twice");
        all.first().copied()
    }

    fn received(&self) -> Received {
        // Where there is a `date`, the answer's instants are by that, whatever our clock says.
        let at = self.one("at").unwrap_or("2001-01-01T00:00:00Z");
        assert!(self.one("at").is_some() || self.headers.contains_key("date"));
        let at: jiff::Timestamp = at.parse().expect("an instant");
        Received::new(Timestamp::from_micros(at.as_microsecond()), &self.headers)
    }
}

fn said(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn limit(seen: &Observation, received: Received) -> String {
    let reset = seen
        .reset_at
        .map(|at| at.since(received.at()).as_micros() / 1_000);
    let (limit, left) = (said(seen.limit), said(seen.remaining));
    format!("{} {limit} {left} {}", seen.name, said(reset))
}

fn refusal(refusal: Refusal) -> String {
    let kind = match refusal.kind {
        Kind::Rate => "rate",
        Kind::Quota => "quota",
        Kind::Spend => "spend",
        Kind::Overloaded => "overloaded",
        _ => "failed",
    };
    let after = refusal.retry_after.map(|after| after.as_micros() / 1_000);
    let again = refusal.may_retry.then_some("retry");
    format!("{kind} {} {}", said(after), said(again))
}

fn usage(usage: Usage) -> String {
    let parts = [
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
    ];
    parts.map(said).join(" ")
}

#[test]
fn every_recorded_answer_says_what_it_said() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headers/recorded");
    let mut providers = BTreeSet::new();
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("the folder") {
        let path = file.expect("a file").path();
        let name = path.display();
        let text = std::fs::read_to_string(&path).expect("text");
        let recorded = Recorded::of(&text);
        let source = recorded.one("source").expect("a source");
        assert!(source.starts_with("https://"), "{name}: {source}");
        let provider: Provider = recorded
            .one("provider")
            .expect("whose")
            .parse()
            .expect("one");
        let status = recorded
            .one("status")
            .and_then(|status| status.parse().ok());
        let (received, headers) = (recorded.received(), &recorded.headers);
        let signals = Signals::read(provider, headers, received);
        let reads: Vec<_> = signals
            .observations
            .iter()
            .map(|seen| limit(seen, received))
            .collect();
        assert_eq!(reads, recorded.all("reads"), "{name}");
        let ignored = recorded.one("ignored").unwrap_or("0");
        assert_eq!(signals.ignored.to_string(), ignored, "{name}");
        let body = recorded.body.as_bytes();
        let status = status.expect("a status");
        let refused = Refusal::of(provider, status, headers, &signals, body, received);
        assert_eq!(
            refused.map(refusal).as_deref(),
            recorded.one("means"),
            "{name}"
        );
        let used = Usage::of_headers(headers).then(Usage::of_body(body));
        let uses = used.is_known().then(|| usage(used));
        assert_eq!(uses.as_deref(), recorded.one("uses"), "{name}");
        providers.insert(provider.name());
        files += 1;
    }
    assert!(files >= 30, "{files}");
    assert_eq!(providers.len(), Provider::all().count(), "{providers:?}");
}
