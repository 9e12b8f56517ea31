//! Every example of docs/reference/policies.md is a file that is read.
#![cfg(feature = "yaml")]

use tidegate_policy::{Config, parse_config};

const MANUAL: &str = include_str!("../../docs/reference/policies.md");

/// The fenced blocks in a language, each with the line it begins on.
fn blocks() -> Vec<(usize, &'static str, String)> {
    let mut blocks: Vec<(usize, &str, String)> = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    for (number, line) in MANUAL.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((number + 1, language, String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((.., text))) => text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks.retain(|(_, language, _)| matches!(*language, "toml" | "yaml"));
    blocks
}

fn read(line: usize, language: &str, text: &str) -> Config {
    let name = format!("block-of-line-{line}.{language}");
    parse_config(&name, text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_is_sound() {
    let blocks = blocks();
    assert!(blocks.len() > 8);
    for (line, language, text) in &blocks {
        read(*line, language, text);
    }
}

#[test]
fn an_example_in_yaml_says_what_the_one_in_toml_before_it_says() {
    let blocks = blocks();
    let mut pairs = 0;
    for pair in blocks.windows(2) {
        let [(at, "toml", toml), (below, "yaml", yaml)] = pair else {
            continue;
        };
        let (toml, yaml) = (read(*at, "toml", toml), read(*below, "yaml", yaml));
        assert_eq!(toml.policies, yaml.policies, "line {below}");
        assert_eq!(toml.credentials, yaml.credentials, "line {below}");
        assert_eq!(toml.server, yaml.server, "line {below}");
        pairs += 1;
    }
    assert_eq!(pairs, 3);
}

/// Whatever a file may say is in the manual, by the words that faults name.
#[test]
fn every_setting_is_in_the_manual() {
    let known = |text: &str| {
        let errors = parse_config("t.toml", text).unwrap_err();
        let help = &errors.faults()[0].help;
        let words = help.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let limit = "[policy.p.limits]\nx = { calls = 1, per = '1s', qqqqqq = 1 }\n";
    let policy = "[policy.p]\nqqqqqq = 1\nlimits.x = { concurrency = 1 }\n";
    let member = "[policy.p.member.m]\nqqqqqq = 1\nlimits.x = { concurrency = 1 }\n";
    for text in [limit, policy, member] {
        let words = known(text);
        assert!(words.len() > 3, "{words:?}");
        for word in words {
            assert!(MANUAL.contains(&format!("`{word}`")), "{word}");
        }
    }
}
