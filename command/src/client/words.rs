//! Answers, for people.

use std::fmt::Write;

use serde_json::{Map, Value};
use tidegate_client::Verb;

/// The answer as JSON, on one line; one that says nothing is an empty object.
pub fn json(body: &Value) -> String {
    match body {
        Value::Null => "{}".to_owned(),
        body => body.to_string(),
    }
}

/// The answer to `verb` in a few lines.
pub fn answer(verb: Verb, body: &Value) -> String {
    match verb {
        Verb::Check | Verb::Acquire | Verb::Grant | Verb::Adjust | Verb::Debit | Verb::Peek => {
            decision(verb, body)
        }
        Verb::Settle | Verb::Release | Verb::Cancel | Verb::Return => ended(body),
        Verb::Renew => format!("renewed until {}", text(body, "expires_at")),
        Verb::Forecast => forecast(body),
        Verb::Reset => "forgotten".to_owned(),
    }
}

fn decision(verb: Verb, body: &Value) -> String {
    let mut words = verdict(verb, body);
    if body["degraded"] == true {
        words += " (the store is unavailable: decided by the policy's failure_mode)";
    }
    if body["shadowed"] == true {
        words += "; a shadow limit would have refused";
    }
    words.push('\n');
    if let Some(lease) = body["lease"].as_object() {
        words += &granted(lease);
    }
    if let Some(grant) = body["grant"].as_object() {
        words += &units(grant);
    }
    if let Some(member) = body["member"].as_str() {
        let _ = writeln!(words, "  member {member}");
    }
    words += &metadata(&body["lease"]["metadata"]);
    table(&mut words, &body["limits"], standing);
    words + &overridden(body)
}

/// The limits whose numbers are an override's, where a peek tells it.
fn overridden(body: &Value) -> String {
    let limits = body["overrides"].as_object().into_iter().flatten();
    let limits = limits.map(|(name, level)| {
        let level = match level.as_str() {
            Some("key_and_policy") => "this key in this policy",
            Some("key") => "this key",
            Some("policy") => "this policy",
            _ => "every policy",
        };
        format!("  {name} by an override for {level}\n")
    });
    limits.collect()
}

fn verdict(verb: Verb, body: &Value) -> String {
    let admitted = body["admitted"] == true;
    let (yes, no) = match verb {
        Verb::Debit => ("charged", "charged; the next request is refused"),
        Verb::Adjust => ("adjusted", "not adjusted: refused"),
        Verb::Peek => ("would be admitted", "would be refused"),
        _ => ("admitted", "refused"),
    };
    if admitted {
        return yes.to_owned();
    }
    let mut words = no.to_owned();
    if let Some(limit) = body["binding"].as_str() {
        let _ = write!(words, " by {limit}");
    }
    if let Some(until) = body["not_until"].as_str() {
        let ms = body["retry_after_ms"].as_u64().unwrap_or(0);
        let _ = write!(words, "; retry after {}, at {until}", length(ms));
    }
    words
}

fn granted(lease: &Map<String, Value>) -> String {
    let word = |name: &str| lease.get(name).and_then(Value::as_str).unwrap_or("?");
    let (id, since, until) = (word("id"), word("granted_at"), word("expires_at"));
    let mut words = format!("  lease {id}, since {since}, until {until}");
    if let Some(fence) = lease.get("fence").and_then(Value::as_u64)
        && fence > 0
    {
        let _ = write!(words, ", fence {fence}");
    }
    if lease.get("repeated") == Some(&Value::Bool(true)) {
        words += " (given before)";
    }
    words + "\n"
}

/// What may be spent without asking, and for how long.
fn units(grant: &Map<String, Value>) -> String {
    let word = |name: &str| grant.get(name).and_then(Value::as_str).unwrap_or("?");
    let good_for = grant.get("good_for_ms").and_then(Value::as_u64);
    let good_for = length(good_for.unwrap_or(0));
    let (id, until) = (word("id"), word("good_until"));
    let mut words = format!("  grant {id}, good for {good_for}, until {until}\n");
    let none = Value::Null;
    let amounts = grant.get("amounts").unwrap_or(&none);
    table(&mut words, amounts, |granted| {
        format!("{} granted", amount(granted))
    });
    words
}

/// The words that come with a lease, if there are any.
fn metadata(metadata: &Value) -> String {
    let entries = metadata.as_object().into_iter().flatten();
    let entries = entries.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap_or("?")));
    let entries: String = entries.collect();
    match entries.is_empty() {
        true => entries,
        false => format!("  metadata{entries}\n"),
    }
}

fn standing(stand: &Value) -> String {
    let (remaining, limit) = (amount(&stand["remaining"]), amount(&stand["limit"]));
    let mut words = format!("{remaining} of {limit} left");
    if let Some(debt) = owed(stand) {
        let _ = write!(words, ", {debt} owed");
    }
    words
}

/// An amount as it can be typed again.
pub fn amount(amount: &Value) -> String {
    match amount.as_str() {
        Some(decimal) => decimal.to_owned(),
        None => amount.as_u64().unwrap_or(0).to_string(),
    }
}

/// What was used beyond the limit, if anything was.
pub fn owed(stand: &Value) -> Option<String> {
    let debt = amount(&stand["debt"]);
    let is_some = debt.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    is_some.then_some(debt)
}

fn ended(body: &Value) -> String {
    let mut words = match (body["repeated"] == true, body["expired"] == true) {
        (true, _) => "ended before; this is the first answer\n".to_owned(),
        (false, true) => "ended, after it had expired\n".to_owned(),
        (false, false) => "ended\n".to_owned(),
    };
    if let Some(member) = body["member"].as_str() {
        let _ = write!(words, "  member {member}");
        if let Some(until) = body["cooling_until"].as_str() {
            let _ = write!(words, ", passed over until {until}");
        }
        words.push('\n');
    }
    table(&mut words, &body["limits"], |usage| {
        let (used, taken) = (amount(&usage["used"]), amount(&usage["taken"]));
        format!("{used} used of {taken} taken")
    });
    words
}

fn forecast(body: &Value) -> String {
    let mut words = String::new();
    what_fits(&mut words, body);
    for (member, body) in body["members"].as_object().into_iter().flatten() {
        // Writing to a string does not fail.
        let _ = writeln!(words, "member {member}");
        what_fits(&mut words, body);
    }
    words
}

fn what_fits(words: &mut String, body: &Value) {
    table(words, &body["limits"], |one| {
        let until = one["not_until"].as_str();
        let until = until.map_or(String::new(), |at| format!(", the next at {at}"));
        format!(
            "{} such requests fit{until}; {}",
            amount(&one["spendable"]),
            standing(one)
        )
    });
}

/// A line for each member of `limits`, with the names in a column.
fn table(words: &mut String, limits: &Value, line: impl Fn(&Value) -> String) {
    let Some(limits) = limits.as_object() else {
        return;
    };
    let width = limits.keys().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (name, limit) in limits {
        // Writing to a string does not fail.
        let _ = writeln!(words, "  {name:width$}  {}", line(limit));
    }
}

fn text<'b>(body: &'b Value, name: &str) -> &'b str {
    body[name].as_str().unwrap_or("?")
}

/// A length of time as people say it.
pub fn length(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        120_000..7_200_000 => format!("{} min", ms.div_ceil(60_000)),
        7_200_000..172_800_000 => format!("{} h", ms.div_ceil(3_600_000)),
        _ => format!("{} days", ms.div_ceil(86_400_000)),
    }
}

/// A row of CSV as RFC 4180 has it, without the end of its line.
pub fn csv_row(columns: &[String]) -> String {
    let mut row = csv::Writer::from_writer(Vec::new());
    let written = row.write_record(columns).map_err(drop);
    let row = written.and_then(|()| row.into_inner().map_err(drop));
    // What is written to memory is written.
    let row = String::from_utf8(row.unwrap_or_default()).unwrap_or_default();
    row.trim_end_matches('\n').to_owned()
}

/// The key of an item as a column; one that is no text in Base64 behind `base64:`.
pub fn csv_key(item: &Value) -> String {
    match (item["key"].as_str(), item["key_base64"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_says_by_what_and_until_when() {
        let body = json!({
            "admitted": false, "binding": "rpm", "not_until": "2026-01-01T00:00:06Z",
            "retry_after_ms": 6000, "degraded": false, "shadowed": false,
            "limits": {"rpm": {"limit": 10, "remaining": 0, "debt": 2}},
        });
        assert_eq!(
            answer(Verb::Check, &body),
            "refused by rpm; retry after 6.0 s, at 2026-01-01T00:00:06Z\n  \
             rpm  0 of 10 left, 2 owed\n"
        );
    }

    #[test]
    fn a_length_of_time_has_a_fitting_unit() {
        let said = [3, 1_500, 120_000, 7_200_000, 400_000_000].map(length);
        assert_eq!(said, ["3 ms", "1.5 s", "2 min", "2 h", "5 days"]);
    }
}
