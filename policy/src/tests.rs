//! What is read from a policy file, and what is said about a faulty one.

use std::time::Duration;

use super::{PolicyErrors, parse};

/// Sound limits.
pub(super) const LIMITS: &[&str] = &[
    r#"a = { calls = 300, per = "1m" }"#,
    r#"a = { calls = 300, per = "1m", burst = 3, algorithm = "gcra", shadow = true }"#,
    r#"a = { rate = 600_000, per = "1h 30m", burst = 900_000, algorithm = "leaky_bucket" }"#,
    r#"a = { rate = 5, per = "250ms", postpaid = true, on_failure = "refund" }"#,
    r#"a = { rate = 5, per = "1m", algorithm = "sliding_window", sub_windows = 12 }"#,
    r#"a = { calls = 5, per = "1m", algorithm = "sliding_log", max_entries = 9 }"#,
    r#"a = { calls = 5, per = "1m", algorithm = "first_use_window", level = "org" }"#,
    r#"a = { calls = 5, per = "day", zone = "UTC" }"#,
    r#"a = { budget = 5, per = "week", zone = "Asia/Kolkata" }"#,
    r#"a = { budget = "12.50", per = "day", zone = "UTC", unit = "0.01", level = "org" }"#,
    r#"a = { rate = "0.5", burst = 2, per = "1m", unit = "0.000000001", postpaid = true }"#,
    r#"a = { budget = 5, per = "month", zone = "UTC", algorithm = "fixed_window" }"#,
    r#"a = { budget = 0x10, per = "30d" }"#,
    r#"a = { concurrency = 24, ttl = "2m", level = "user", shadow = false }"#,
    r#"a = { rate = 5, per = "1m", learnt = true }"#,
    "a.calls = 300\na.per = '1m'",
];

/// Limits with something wrong in them.
pub(super) const FAULTY_LIMITS: &[&str] = &[
    r#"a = { cals = 300, per = "1m" }"#,
    r#"a = { calls = 0, per = "1m" }"#,
    r#"a = { calls = -1, per = "1m" }"#,
    r#"a = { calls = nan, per = "1m" }"#,
    r#"a = { calls = 3 }"#,
    r#"a = { calls = 3, per = "day" }"#,
    r#"a = { calls = 3, per = "hour" }"#,
    r#"a = { calls = 3, per = "401d" }"#,
    r#"a = { calls = 3, per = "day", zone = "Europe/Berln" }"#,
    r#"a = { calls = 3, per = "1m", algorithm = "sliding_windw" }"#,
    r#"a = { calls = 3, per = "1m", level = "team" }"#,
    r#"a = { concurrency = 3, per = "1m" }"#,
    r#"a = { calls = 3, rate = 4, per = "1m" }"#,
    r#"a = 300"#,
    r#"a = { calls = 3, per = "1m", unit = "0.1" }"#,
    r#"a = { budget = "3", per = "1m", unit = "0.05" }"#,
    r#"a = { budget = 2.5, per = "1m", unit = "0.1" }"#,
    r#"a = { budget = "2.55", per = "1m", unit = "0.1" }"#,
    r#"a = { budget = "0.0", per = "1m", unit = "0.1" }"#,
    r#"a = { budget = -1, per = "1m", unit = "0.1" }"#,
    r#"a = { rate = 9_007_200, per = "1m", unit = "0.000000001" }"#,
    r#"a = { rate = "2,5", burst = true, per = "1m", unit = "0.1" }"#,
    r#"a = { rate = 5, per = "1m", learnt = true, algorithm = "gcra" }"#,
];

/// Sound policies, with everything that a policy can say.
pub(super) const POLICIES: &[&str] = &[
    "[policy.p]\nkey = 'org/team/user'\nttl = '30s'\nshadow = true\nmax_keys = 10\n\
     jitter = '500ms'\nfailure_mode = 'admit'\nmetadata = { owner = 'ops' }\n\
     [policy.p.limits]\nrpm = { calls = 300, per = '1m', level = 'team' }\n",
    "[policy.chat]\nbalancer = 'weighted'\nkey = 'org/user'\npartial_keys = true\nmax_waiting = 5\n\
     metadata = { team = 'ml' }\n\
     [policy.chat.member.eu]\nmetadata = { region = 'eu-west' }\nweight = 2\ncool_down = '30s'\n\
     [policy.chat.member.eu.limits]\nrpm = { calls = 300, per = '1m' }\n\
     [policy.chat.member.us.limits]\nrpm = { calls = 300, per = '1m' }\nslots = { concurrency = 2 }\n",
];

/// Policies with something wrong in them.
pub(super) const FAULTY_POLICIES: &[&str] = &[
    "",
    "[polcy.a]",
    "[policy]",
    "[policy.a]",
    "policy = 3",
    "[policy.a.limits]",
    "[policy.a]\nlimts = { x = { concurrency = 1 } }",
    "[policy.a]\nx = { concurrency = 1 }",
    "[policy.a]\nmax_key = 1\n[policy.a.limits]\nx = { calls = 0, per = '1x', brust = 1 }\n[policy.b]\n",
    "[policy.a]\nbalancer = 'random'\nlimits.x = { concurrency = 1 }",
    "[policy.a]\nbalancer = 'best'\nmember.b.limits.x = { concurrency = 1 }",
    "[policy.a]\nlimits.x = { concurrency = 1 }\nmember.b.limits.x = { concurrency = 1 }",
    "[policy.a.member]\n",
    "[policy.a.member.b]\nweight = 0\ncool_down = 'soon'\nlimit = 3\n",
    "[policy.a.member.'b/c'.limits]\nx = { concurrency = 1, levl = 'o' }\n",
    "[policy.a]\nkey = 'org//user'\nlimits.x = { concurrency = 1 }",
    "[policy.a]\nkey = 3\nttl = '0s'\njitter = '2h'\nshadow = 'yes'\nlimits.x = { concurrency = 1 }",
    "[policy.a]\nmetadata = { n = 3 }\nlimits.x = { concurrency = 1 }",
];

/// The faults of a limit, as "column: message = help".
fn faults_of_limit(limit: &str) -> Vec<String> {
    let text = format!("[policy.p]\nkey = \"org/user\"\n[policy.p.limits]\n{limit}\n");
    let Err(errors) = parse("p.toml", &text) else {
        return Vec::new();
    };
    assert!(
        errors.faults().iter().all(|fault| fault.line == 4),
        "{errors}"
    );
    lines(&errors)
}

fn lines(errors: &PolicyErrors) -> Vec<String> {
    let line =
        |fault: &super::Fault| format!("{}: {} = {}", fault.column, fault.message, fault.help);
    errors.faults().iter().map(line).collect()
}

#[test]
fn every_kind_and_every_setting_is_read() {
    for limit in LIMITS {
        assert_eq!(faults_of_limit(limit), Vec::<String>::new(), "{limit}");
    }
}

#[test]
fn amounts_with_a_unit_are_exact_multiples_of_it() {
    let read = |limit: &str| {
        let text = format!("[policy.p.limits]\na = {{ {limit}, per = '1m' }}");
        let file = parse("p.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let limit = &file.policies[0].limits[0];
        let unit = limit.amounts().to_string();
        (limit.capacity(), limit.at_most(), unit)
    };
    let cents = |amount, burst| (amount, burst, "0.01".to_owned());
    assert_eq!(read("budget = '12.5', unit = '0.01'"), cents(1_250, 1_250));
    assert_eq!(read("rate = 12, unit = '0.01'"), cents(1_200, 1_200));
    let burst = "unit = '0.01', rate = '0.10', burst = '0.29'";
    assert_eq!(read(burst), cents(10, 29));
    assert_eq!(read("rate = 5, unit = '1'"), (5, 5, "1".to_owned()));
    let most = "rate = '9007199.254740991', unit = '0.000000001'";
    assert_eq!(read(most).0, tidegate_core::MAX_AMOUNT);
}

#[test]
fn what_is_wrong_with_a_unit_is_told_in_its_place() {
    for (limit, expected) in [
        (
            "a = { calls = 3, per = '1m', unit = '0.1' }",
            "7: `unit` does not fit here: `calls` counts whole ones = remove it; only a `rate` or a `budget` has parts",
        ),
        (
            "a = { budget = 3, per = '1m', unit = '0.05' }",
            "38: `0.05` is no unit = write a power of ten from \"1\" to \"0.000000001\", such as \"0.01\"",
        ),
        (
            "a = { budget = 2.5, per = '1m', unit = '0.1' }",
            "16: `budget` is a fraction that is not in quotes = write it in quotes: `budget = \"2.5\"`",
        ),
        (
            "a = { budget = 0.01, per = '1m' }",
            "16: `budget` is a fraction that is not in quotes = write it in quotes, and a unit as fine: `budget = \"0.01\", unit = \"0.01\"`",
        ),
        (
            "a = { budget = '2.55', per = '1m', unit = '0.1' }",
            "16: `budget`: 2.55 is finer than the limit's unit, 0.1 = write a multiple of 0.1, 0.1 to 900719925474099.1",
        ),
        (
            "a = { rate = '0.0', per = '1m', unit = '0.1' }",
            "14: `rate`: the amount is 0 = write a multiple of 0.1, 0.1 to 900719925474099.1",
        ),
    ] {
        assert_eq!(faults_of_limit(limit), [expected], "{limit}");
    }
    let pool = "[policy.p.member.a.limits]\nusd = { rate = 1, per = '1m', unit = '0.01' }\n\
                [policy.p.member.b.limits]\nusd = { rate = 1, per = '1m', unit = '0.1' }\n";
    let errors = parse("p.toml", pool).expect_err("two units");
    let told = lines(&errors);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("`usd` has the unit 0.1 at `b` and 0.01 at `a` = write the same `unit`"),
        "{told:?}"
    );
}

#[test]
fn a_pool_is_read_with_its_members_and_their_words() {
    let file = parse("p.toml", POLICIES[1]).unwrap_or_else(|e| panic!("{e}"));
    let chat = &file.policies[0];
    assert!(chat.is_pool() && chat.limits.is_empty());
    assert_eq!(chat.balance, tidegate::Balance::Weighted);
    let unsaid = |weight: u32| {
        let text = format!(
            "[policy.p.member.a]\nlimits.r = {{ calls = 1, per = '1s' }}\nweight = {weight}\n\
             [policy.p.member.b.limits]\nr = {{ calls = 1, per = '1s' }}\n"
        );
        let file = parse("p.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        file.policies[0].balance
    };
    assert_eq!(unsaid(2), tidegate::Balance::Weighted);
    assert_eq!(unsaid(1), tidegate::Balance::RoundRobin);
    let eu = chat.member("eu").unwrap();
    assert_eq!(
        (eu.weight, eu.cool_down),
        (2, Some(Duration::from_secs(30)))
    );
    assert_eq!(eu.metadata["region"], "eu-west");
    assert_eq!(eu.metadata["team"], "ml");
    let us = chat.member("us").unwrap();
    assert_eq!((us.weight, us.cool_down, us.limits.len()), (1, None, 2));
    assert!(!us.metadata.contains_key("region"));
}

#[test]
fn a_key_names_its_levels_and_a_policy_in_shadow_records_only() {
    let file = parse("p.toml", POLICIES[0]).unwrap_or_else(|e| panic!("{e}"));
    let policy = &file.policies[0];
    assert_eq!(policy.levels, ["org", "team", "user"]);
    assert_eq!(policy.ttl, Some(Duration::from_secs(30)));
    assert!(policy.shadow && policy.written.iter().all(|limit| limit.shadow));
}

#[test]
fn a_learnt_limit_counts_by_a_window_and_is_adaptive() {
    use tidegate::internal::LimitInternals;
    use tidegate::{Algorithm, Limit};
    let text = "[policy.p.limits]\nrpm = { calls = 3, per = '1m', learnt = true }\n\
                rpd = { budget = 3, per = 'day', zone = 'UTC', learnt = true }\n\
                tpm = { rate = 3, per = '1m', learnt = false }\n\
                running = { concurrency = 3, ttl = '1m', learnt = true }";
    let limits = &parse("p.toml", text).unwrap().policies[0].limits;
    let minute = Duration::from_secs(60);
    let sliding = Limit::calls("rpm", 3, minute).algorithm(Algorithm::SlidingWindow);
    assert_eq!(limits[0], sliding.adaptive());
    assert!(limits[1].is_adaptive() && !limits[2].is_adaptive());
    assert_eq!(limits[2], Limit::rate("tpm", 3, minute));
    let running = Limit::concurrency("running", 3).ttl(minute);
    assert_eq!(limits[3], running.adaptive(), "it counts what is held");
    for (limit, message) in [
        (
            "rate = 3, per = '1m', algorithm = 'gcra'",
            "gcra is not learnt: its rate stays",
        ),
        (
            "rate = 3, per = '1m', burst = 9",
            "sliding_window has no burst",
        ),
    ] {
        let text = format!("policy.p.limits.a = {{ {limit}, learnt = true }}");
        let error = parse("p.toml", &text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_pool_is_told_in_its_place() {
    for (text, place, help) in [
        (
            FAULTY_POLICIES[9],
            (2, 1),
            "remove it, or write `[policy.a.member.NAME.limits]`",
        ),
        (
            FAULTY_POLICIES[10],
            (2, 12),
            "write `round_robin`, `random`",
        ),
        (
            FAULTY_POLICIES[11],
            (2, 1),
            "write them under `[policy.a.member.NAME.limits]`",
        ),
        (
            FAULTY_POLICIES[12],
            (1, 11),
            "write `[policy.a.member.NAME.limits]`",
        ),
        (FAULTY_POLICIES[13], (2, 10), "write 1 to 4294967295"),
        (FAULTY_POLICIES[13], (4, 1), "did you mean `limits`?"),
        (FAULTY_POLICIES[14], (1, 18), "rename it"),
        (FAULTY_POLICIES[15], (2, 7), "rename it"),
        (FAULTY_POLICIES[17], (2, 18), "write a string in quotes"),
    ] {
        let errors = parse("p.toml", text).unwrap_err();
        let mut faults = errors.faults().iter();
        let found = faults.any(|f| (f.line, f.column) == place && f.help.starts_with(help));
        assert!(found, "{text}\n{errors}");
    }
}

#[test]
fn policies_and_limits_keep_the_order_of_the_file() {
    let text = "[policy.z.limits]\nb = { concurrency = 1 }\na = { concurrency = 2 }\n[policy.a.limits]\nx = { concurrency = 3 }";
    let file = parse("p.toml", text).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["z", "a"]);
    let limits = &file.get("z").unwrap().limits;
    assert_eq!(
        limits.iter().map(|limit| limit.name()).collect::<Vec<_>>(),
        ["b", "a"]
    );
    assert!(file.get("nobody").is_none());
}

#[test]
fn a_policys_own_settings_are_read() {
    let text = "[policy.p]\nkey = 'org/user'\npartial_keys = true\nmax_keys = 10\nmax_waiting = 5\nmax_waiting_per_root = 2\nlimits.a = { concurrency = 1 }";
    let file = parse("p.toml", text).unwrap();
    let policy = &file.policies[0];
    assert_eq!(policy.levels, ["org", "user"]);
    assert!(policy.partial_keys);
    assert_eq!((policy.max_keys, policy.max_waiting), (Some(10), Some(5)));
    assert_eq!(policy.max_waiting_per_root, Some(2));
}

/// The engine would refuse the set later, where no line can be pointed at.
#[test]
fn one_level_too_many_is_a_fault_of_its_own() {
    let text = "[policy.p]\nkey = 'a/b/c/d/e/f/g/h/i'\n\
        limits.x = { concurrency = 1, level = 'i' }";
    let errors = parse("p.toml", text).unwrap_err();
    let fault = "7: the level `i` is one too many = keep at most 8 levels";
    assert_eq!(lines(&errors), [fault]);
    assert!(
        parse(
            "p.toml",
            &text.replace("/h/i'", "/h'").replace("= 'i'", "= 'h'")
        )
        .is_ok()
    );
}

#[test]
fn each_fault_says_where_it_is_and_what_to_write() {
    for (limit, fault) in [
        (
            r#"a = { cals = 300, per = "1m" }"#,
            "7: `cals` is not a setting of a limit = did you mean `calls`?",
        ),
        (
            r#"a = { calls = 0, per = "1m" }"#,
            "15: `calls` is 0, which is out of range = write 1 to 9007199254740991",
        ),
        (
            r#"a = { calls = 3, per = "1m", algorithm = "sliding_log", max_entries = 1 }"#,
            "71: `max_entries` is 1, which is out of range = write 2 to 1048576",
        ),
        (
            r#"a = { calls = 3, per = "1m", algorithm = "sliding_window", sub_windows = 0 }"#,
            "74: `sub_windows` is 0, which is out of range = write 1 to 10000",
        ),
        (
            r#"a = { calls = -1, per = "1m" }"#,
            "15: `calls` is -1, which is out of range = write 1 to 9007199254740991",
        ),
        (
            r#"a = { calls = nan, per = "1m" }"#,
            "15: `calls` is a number with a point; it must be a whole number = write a whole number, such as `calls = 100`",
        ),
        (
            r#"a = { calls = 3 }"#,
            "1: `a` does not say in how much time = write `per = \"1m\"`, or `per = \"day\"` with a `zone`",
        ),
        (
            r#"a = { calls = 3, per = "day" }"#,
            "24: `per = \"day\"` needs a `zone` = add `zone = \"UTC\"`, or a place such as \"Europe/Berlin\"",
        ),
        (
            r#"a = { calls = 3, per = "hour" }"#,
            "24: `hour` is not a length of time = write `per = \"1h\"`",
        ),
        (
            r#"a = { calls = 3, per = "401d" }"#,
            "24: `per` is 401d, which is out of range = write 1ms to 400 days",
        ),
        (
            r#"a = { calls = 3, per = "day", zone = "Europe/Berln" }"#,
            "38: there is no time zone `Europe/Berln` = did you mean \"Europe/Berlin\"?",
        ),
        (
            r#"a = { calls = 3, per = "1m", algorithm = "sliding_windw" }"#,
            "42: `algorithm` cannot be `sliding_windw` = did you mean `sliding_window`?",
        ),
        (
            r#"a = { calls = 3, per = "1m", level = "team" }"#,
            "38: the policy has no level `team` = write `org` or `user`",
        ),
        (
            r#"a = { concurrency = 3, per = "1m" }"#,
            "24: `per` does not fit here: a concurrency limit counts what is held, at any time = remove it; to count starts, make another limit with `calls` and `per`",
        ),
        (
            r#"a = { calls = 3, rate = 4, per = "1m" }"#,
            "18: `a` is both `calls` and `rate` = make it two limits, each with its own name",
        ),
        (
            r#"a = 300"#,
            "5: `a` is a whole number; it must be a table = write `a = { calls = 300, per = \"1m\" }`",
        ),
    ] {
        let faults = faults_of_limit(limit);
        assert!(
            faults.iter().any(|found| found == fault),
            "{limit}\n{faults:#?}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_limit_is_never_passed_over() {
    for limit in FAULTY_LIMITS {
        assert!(!faults_of_limit(limit).is_empty(), "{limit}");
    }
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_lines() {
    let text = "[policy.a]\nmax_key = 1\n[policy.a.limits]\nx = { calls = 0, per = '1x', brust = 1 }\n[policy.b]\n";
    let errors = parse("p.toml", text).unwrap_err();
    let lines: Vec<usize> = errors.faults().iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 4, 4, 4, 5]);
    assert_eq!(errors.source_name(), "p.toml");
}

#[test]
fn a_fault_is_shown_with_its_line_and_a_marker() {
    let text = "[policy.a.limits]\nrpm = { calls = 300, per = \"1m\", brust = 9 }\n";
    let shown = parse("llm.toml", text).unwrap_err().to_string();
    let expected = "\
`brust` is not a setting of a limit
 --> llm.toml:2:34
  |
2 | rpm = { calls = 300, per = \"1m\", brust = 9 }
  |                                  ^^^^^
  = did you mean `burst`?";
    assert_eq!(shown, expected);
}

#[test]
fn text_that_is_not_toml_is_told_where_it_breaks() {
    let errors = parse(
        "p.toml",
        "[policy.a.limits]\nrpm = { calls = 300, per = 1m }\n",
    )
    .unwrap_err();
    let fault = &errors.faults()[0];
    assert_eq!((fault.line, fault.column), (2, 28));
    assert!(fault.message.starts_with("this is not TOML"), "{errors}");
}

/// Each line behind it was a fault, and none was where it is.
#[test]
fn a_bracket_that_is_not_closed_is_the_only_fault() {
    let rest = "running = { concurrency = 2 }\n[[token]]\nname = 'a'\n[[token]]\nname = 'b'\n";
    let open = format!("[policy.a.limits]\nrpm = {{ calls = 8, per = '1m'\n{rest}");
    let errors = parse("p.toml", &open).unwrap_err();
    let faults = errors.faults();
    assert_eq!(faults.len(), 1, "{errors}");
    assert_eq!((faults[0].line, faults[0].column), (2, 7), "{errors}");
    assert_eq!(faults[0].message, "this is not TOML: `{` is not closed");
}

#[test]
fn misplaced_and_misnamed_limits_are_recognised() {
    for (text, help) in [
        ("", "begin with `[policy.NAME.limits]`"),
        ("[polcy.a]", "did you mean `policy`?"),
        ("[policy]", "begin with `[policy.NAME.limits]`"),
        (
            "[policy.a]",
            "write `[policy.a.limits]` and a limit on the next line",
        ),
        (
            "[policy.a]\nlimts = { x = { concurrency = 1 } }",
            "rename `limts` to `limits`",
        ),
        (
            "[policy.a]\nx = { concurrency = 1 }",
            "write them under `[policy.a.limits]`",
        ),
        ("[policy.a.limits]", "write one, such as"),
        ("policy = 3", "write `[policy.NAME]`"),
    ] {
        let errors = parse("p.toml", text).unwrap_err();
        let helps: Vec<&str> = errors
            .faults()
            .iter()
            .map(|fault| fault.help.as_str())
            .collect();
        assert!(
            helps.iter().any(|found| found.starts_with(help)),
            "{text}\n{errors}"
        );
    }
}

#[test]
fn no_text_makes_it_panic() {
    let good = "[policy.p]\nkey = 'org/ü'\n[policy.p.limits]\n\
        a = { calls = 300, per = \"1m\", burst = 3, level = 'org' }\n\
        d = { budget = 5, per = \"day\", zone = \"UTC\" }\nr = { concurrency = 2, ttl = '2m' }\n";
    assert!(parse("p.toml", good).is_ok());
    let ends = good.char_indices().map(|(at, _)| at);
    for end in ends.clone() {
        let _ = parse("p.toml", &good[..end]);
        for other in ["\"", "=", "{", "}", "[", "\n", "9", "-", "é", "\0", ""] {
            let next = good[end..].chars().next().map_or(0, char::len_utf8);
            let text = format!("{}{other}{}", &good[..end], &good[end + next..]);
            if let Err(errors) = parse("p.toml", &text) {
                assert!(!errors.faults().is_empty() && !errors.to_string().is_empty());
            }
        }
    }
}

/// The one is what RESP calls the rates that come with the call; both were served.
#[test]
fn a_policy_without_a_name_or_with_a_reserved_one_is_a_fault() {
    for name in ["throttle", "''"] {
        let text = format!("[policy.{name}.limits]\nrpm = {{ calls = 3, per = '1m' }}\n");
        let errors = parse("t.toml", &text).unwrap_err();
        let lines: Vec<usize> = errors.faults().iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1], "{errors}");
    }
}

#[test]
fn a_tier_is_read_and_each_fault_of_it_says_its_line_and_what_to_write() {
    let read = |tier: &str, limit: &str| {
        let text = format!("[policy.p]\ntier = {tier}\n[policy.p.limits]\n{limit}\n");
        parse("p.toml", &text).map(|file| file.policies[0].tier.clone())
    };
    let calls = "rpm = { calls = 10, per = '1m' }";
    let tier = read(
        "{ mode = 'leased', batch = { rpm = 5 }, hold = '2s', low_water = 0, idle = '50ms' }",
        calls,
    );
    let expected = tidegate::Tier::leased(1)
        .batch_of("rpm", 5)
        .hold(std::time::Duration::from_secs(2))
        .low_water(0)
        .idle(std::time::Duration::from_millis(50));
    assert_eq!(tier.expect("it is sound"), Some(expected));
    let exact = read(
        "{ mode = 'leased', batch = 2, outstanding = 4, exact = true }",
        calls,
    );
    let expected = tidegate::Tier::leased(2).outstanding(4).exact();
    assert_eq!(exact.expect("it is sound"), Some(expected));
    let few = read(
        "{ mode = 'leased', batch = 2, outstanding = { rpm = 4 }, exact = false }",
        calls,
    );
    let expected = tidegate::Tier::leased(2).outstanding_of("rpm", 4);
    assert_eq!(few.expect("it is sound"), Some(expected));
    let many = "slots = { concurrency = 8 }";
    let tier = read("{ mode = 'leased', batch = { slots = 4 } }", many);
    let expected = tidegate::Tier::leased(1).batch_of("slots", 4);
    assert_eq!(tier.expect("it is sound"), Some(expected));
    let slots = "slots = { concurrency = 1 }";
    let refusals = tidegate::Tier::refusals().idle(std::time::Duration::from_millis(50));
    let tier = read("{ mode = 'refusals', idle = '50ms' }", slots);
    assert_eq!(tier.expect("it is sound"), Some(refusals));
    for (tier, limit, fault) in [
        ("{ batch = 5 }", calls, "`mode` is missing"),
        ("{ mode = 'leased' }", calls, "`batch` is missing"),
        (
            "{ mode = 'lent', batch = 5 }",
            calls,
            "`mode` cannot be `lent`",
        ),
        ("{ mode = 'leased', batch = 0 }", calls, "`batch` is 0"),
        (
            "{ mode = 'leased', batch = { rps = 5 } }",
            calls,
            "there is no limit `rps`",
        ),
        (
            "{ mode = 'leased', batch = 5, hold = '2m' }",
            calls,
            "`hold` is 2m",
        ),
        (
            "{ mode = 'refusals', batch = 5 }",
            calls,
            "`batch` is for a tier whose `mode` is `leased`",
        ),
        ("{ mode = 'refusals', idle = '2m' }", calls, "`idle` is 2m"),
        (
            "{ mode = 'leased', batch = 5, low_water = 101 }",
            calls,
            "`low_water` is 101",
        ),
        (
            "{ mode = 'leased', batch = 5, outstanding = 0 }",
            calls,
            "`outstanding` is 0",
        ),
        (
            "{ mode = 'leased', batch = 5, outstanding = { rps = 5 } }",
            calls,
            "there is no limit `rps`",
        ),
        (
            "{ mode = 'leased', batch = 5, exact = 1 }",
            calls,
            "it must be true or false",
        ),
        (
            "{ mode = 'leased', batch = 5, exact = true, outstanding = 10, hold = '60s' }",
            calls,
            "`exact` leaves `rpm` nothing: its burst is 10, of which 10 may be out",
        ),
        (
            "{ mode = 'refusals', exact = true }",
            calls,
            "`exact` is for a tier whose `mode` is `leased`",
        ),
        (
            "{ mode = 'leased', batch = 5, most = 9 }",
            calls,
            "`most` is not a setting",
        ),
        ("5", calls, "it must be a table"),
        (
            "{ mode = 'leased', batch = 5 }",
            slots,
            "a tier cannot lease `slots`, which is a mutex: its holder needs a fence",
        ),
    ] {
        let errors = read(tier, limit).expect_err(fault);
        let found = errors
            .faults()
            .iter()
            .any(|one| one.line == 2 && one.message.contains(fault));
        assert!(found, "{tier}: {errors}");
    }
}
