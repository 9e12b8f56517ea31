//! Text said to be a policy file, in TOML and in YAML: it is read or refused, and every fault points
//! into the text.
//!
//! The bytes are the text; a broken byte becomes a replacement character. The
//! seeds are whole files, so that most mutations break one thing in one of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::LimitSet;
use tidegate_policy::{Fault, Policy, parse};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    read("fuzz.toml", &text);
    read("fuzz.yaml", &text);
});

fn read(name: &str, text: &str) {
    match parse(name, text) {
        Ok(file) => file.policies.iter().for_each(can_be_built),
        Err(errors) => {
            assert!(!errors.faults().is_empty(), "refused without a reason");
            errors.faults().iter().for_each(|fault| points(fault, text));
            assert!(errors.to_string().contains(&format!("{name}:")));
        }
    }
}

/// What was read makes a set, or one for each member: nothing is found wrong
/// only later.
fn can_be_built(policy: &Policy) {
    let members = policy.members.iter().map(|member| &member.limits);
    let own = (!policy.is_pool()).then_some(&policy.limits);
    for limits in members.chain(own) {
        let set = LimitSet::builder()
            .limits(limits.iter().cloned())
            .levels(policy.levels.iter().cloned());
        if let Err(error) = set.build() {
            panic!("{}: {error}", policy.name);
        }
    }
}

/// At a character of a line that there is, or right behind its last.
fn points(fault: &Fault, text: &str) {
    let line = text.split('\n').nth(fault.line - 1);
    let line = line.unwrap_or_else(|| panic!("line {} is beyond the text", fault.line));
    assert!((1..=line.chars().count() + 1).contains(&fault.column));
    assert!(!fault.message.is_empty() && !fault.help.is_empty());
}
