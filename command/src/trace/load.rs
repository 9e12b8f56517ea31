//! A whole trace in memory, in the order of arrival.

use std::collections::HashMap;
use std::path::Path;

use super::extract::{Extract, Meaning};
use super::open::{Format, Opened};
use super::record::Record;
use tidegate_server::trouble::{Outcome, Trouble};

/// One thing that was asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Microseconds since the trace's first request.
    pub arrived: u64,
    /// Who asked, as an index into the trace's keys.
    pub key: u32,
    /// How many segments the key has, as a path.
    pub depth: usize,
    /// Tokens known at the arrival.
    pub context: Option<u64>,
    /// Tokens known at the end.
    pub generated: Option<u64>,
    /// What a bare rate or budget is charged in the end.
    pub cost: Option<u64>,
    /// What the limits with a cost field of their own are charged.
    pub named: Box<[u64]>,
}

/// What was asked, and when.
#[derive(Debug)]
pub struct Trace {
    /// The format it was in.
    pub format: Format,
    /// What a cost counts: "tokens".
    pub unit: String,
    /// The first request's instant, in microseconds since the Unix epoch.
    pub start: i64,
    /// The requests in the order of arrival; at least one.
    pub requests: Vec<Request>,
    /// All keys, in the order of their first request.
    pub keys: Vec<String>,
}

impl Trace {
    /// When the last request arrived.
    pub fn length(&self) -> u64 {
        self.requests.last().map_or(0, |request| request.arrived)
    }
}

/// What a cost counts: what its field is called, if it was named.
fn unit(format: Format, meaning: &Meaning) -> String {
    let named = meaning.cost.iter().find(|cost| cost.limit.is_none());
    let unit = match (named, format) {
        (Some(cost), _) => cost.field.rsplit('.').next().unwrap_or("units"),
        (None, Format::Combined) => "bytes",
        (None, _) => "tokens",
    };
    unit.to_owned()
}

/// Reads all of a trace. Requests out of order are sorted by their arrival;
/// those of one microsecond keep the order of the file.
pub fn load(
    path: &Path,
    opened: Opened,
    meaning: &Meaning,
    mut tick: impl FnMut(),
) -> Outcome<Trace> {
    let mut keys = Keys::default();
    let mut requests: Vec<(i64, Request)> = Vec::new();
    for read in opened.records {
        tick();
        let at_fault = |line, message| trouble(path, line, message);
        let record: Record = read.map_err(|fault| at_fault(fault.line, fault.message))?;
        let extract = meaning.extract(opened.format, &record);
        let extract = extract.map_err(|message| at_fault(record.line, message))?;
        requests.push((record.at, request(extract, &mut keys)));
    }
    let Some(start) = requests.iter().map(|(at, _)| *at).min() else {
        return Err(Trouble::failure(format!(
            "{}: there is no request in it",
            path.display()
        )));
    };
    requests.sort_by_key(|(at, _)| *at);
    let requests = requests.into_iter().map(|(at, request)| Request {
        arrived: at.abs_diff(start),
        ..request
    });
    Ok(Trace {
        format: opened.format,
        unit: unit(opened.format, meaning),
        start,
        requests: requests.collect(),
        keys: keys.list,
    })
}

fn request(extract: Extract, keys: &mut Keys) -> Request {
    let Extract {
        key,
        context,
        generated,
        cost,
        named,
    } = extract;
    let path = key.strip_prefix('/').unwrap_or(&key);
    let depth = path.matches('/').count() + 1;
    Request {
        arrived: 0,
        key: keys.number(key),
        depth,
        context,
        generated,
        cost,
        named,
    }
}

fn trouble(path: &Path, line: u64, message: String) -> Trouble {
    let name = if path == Path::new("-") {
        "standard input".into()
    } else {
        path.to_string_lossy()
    };
    let subject = if message.starts_with('`') {
        ""
    } else {
        "the line "
    };
    Trouble::failure(format!("{name}:{line}: {subject}{message}"))
}

/// Gives each key a number, so that a million requests hold each key once.
#[derive(Default)]
struct Keys {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Keys {
    fn number(&mut self, key: String) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(key.clone());
        self.numbers.insert(key, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::open::{Format, from};
    use super::{Meaning, Trace, load};
    use tidegate_server::trouble::Outcome;

    fn read(text: &'static str) -> Outcome<Trace> {
        let path = Path::new("trace");
        let opened = from(path, Box::new(text.as_bytes()), None, None)?;
        load(path, opened, &Meaning::default(), || ())
    }

    #[test]
    fn requests_out_of_order_are_sorted_and_equal_instants_keep_their_order() {
        let trace = read(
            "{\"ts\": 20, \"context\": 1}\n\n{\"ts\": 10, \"context\": 2}\n{\"ts\": 20, \"context\": 3}\n",
        );
        let trace = trace.unwrap();
        let seen: Vec<_> = trace
            .requests
            .iter()
            .map(|r| (r.arrived, r.context.unwrap()))
            .collect();
        assert_eq!(seen, [(0, 2), (10_000_000, 1), (10_000_000, 3)]);
        assert_eq!((trace.start, trace.length()), (10_000_000, 10_000_000));
        assert_eq!(
            (trace.format, trace.keys),
            (Format::JsonLines, vec!["all".to_owned()])
        );
    }

    #[test]
    fn a_fault_names_the_file_and_the_line() {
        let fault = read("{\"ts\": 1}\n{\"ts\": \"noon\"}\n")
            .unwrap_err()
            .to_string();
        assert!(
            fault.starts_with("trace:2: `noon` is not an instant"),
            "{fault}"
        );
        let empty = read("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            .unwrap_err()
            .to_string();
        assert_eq!(empty, "trace: there is no request in it");
        let unknown = read("a,b\n").unwrap_err().to_string();
        assert!(
            unknown.contains("none of the formats") && unknown.contains("--format"),
            "{unknown}"
        );
    }
}
