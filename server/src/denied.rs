//! Who is refused most, as Prometheus reads it.
//!
//! Keys come and go, and a recorder keeps every label that it was ever given;
//! so these lines are written afresh each time, and bounded.

use std::fmt::Write;

use tidegate_service::Service;

/// How many keys are shown.
const MOST: usize = 20;

/// The keys refused most often, a line each.
pub fn exposition(service: &Service) -> String {
    let denied = service.most_denied(MOST);
    let mut text = String::new();
    if denied.is_empty() {
        return text;
    }
    text += "# HELP tidegate_denied_keys How often the keys refused most often were refused, at most\n\
             # TYPE tidegate_denied_keys gauge\n";
    let mut lines: Vec<(String, u64)> = Vec::new();
    for frequent in denied {
        let policy = label(&frequent.policy);
        let key = label(&String::from_utf8_lossy(&frequent.key));
        let labels = format!("policy=\"{policy}\",key=\"{key}\"");
        // Keys that are no text may look alike, and a series is there once.
        match lines.iter_mut().find(|(other, _)| *other == labels) {
            Some((_, count)) => *count += frequent.count,
            None => lines.push((labels, frequent.count)),
        }
    }
    for (labels, count) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "tidegate_denied_keys{{{labels}}} {count}");
    }
    text
}

/// A label's value, as the text format has it.
fn label(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', "\\\"");
    text.replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use tidegate_service::Scope;

    use super::*;

    #[test]
    fn a_key_of_any_content_is_one_label() {
        let policies = "[policy.p.limits]\nrpm = { calls = 1, per = '1h' }\n";
        let policies = tidegate_policy::parse("t", policies).unwrap();
        let service = Service::builder().build(&policies).unwrap();
        assert_eq!(exposition(&service), "");
        let caller = service.enter(None).unwrap();
        let policy = service.policy(&caller, Scope::Decide, "p").unwrap();
        for _ in 0..3 {
            policy.check("a\"b\\c\nd", ()).wait().unwrap();
        }
        let line = "tidegate_denied_keys{policy=\"p\",key=\"a\\\"b\\\\c\\nd\"} 2\n";
        assert!(exposition(&service).ends_with(line));
        for number in 0..100 {
            let key = number.to_string();
            (0..2).for_each(|_| _ = policy.check(key.as_str(), ()).wait().unwrap());
        }
        assert_eq!(exposition(&service).lines().count(), 2 + MOST);
        for key in [&b"\xff"[..], b"\xfe"] {
            (0..200).for_each(|_| _ = policy.check(key, ()).wait().unwrap());
        }
        let text = exposition(&service);
        let alike: Vec<_> = text
            .lines()
            .filter(|line| line.contains('\u{fffd}'))
            .collect();
        assert!(alike.len() == 1 && alike[0].ends_with(" 398"), "{alike:?}");
    }
}
