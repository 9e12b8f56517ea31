//! `tidegate replay` as a user runs it: on the real trace, twice, and judged by
//! a script that shares no code with the engine.

use crate::common::{Folder, SERVICE, judge, judged, policy, replay, replayed, trace};

/// The number in the first line of a table that begins with `name`.
fn count(table: &str, name: &str) -> u64 {
    let line = table
        .lines()
        .find(|line| line.trim_start().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    let number = line.trim_start()[name.len()..]
        .split_whitespace()
        .next()
        .expect("a number");
    number.replace(',', "").parse().expect("a number")
}

#[test]
fn the_same_trace_and_policy_give_the_same_bytes() {
    let folder = Folder::new();
    let once = |n: u8| {
        let options = format!(
            "--wait 10s --service {SERVICE} --reserve context+200 --text-plot --plot {} --decisions {}",
            folder.path("plot.svg").display(),
            folder.path("decisions.csv").display(),
        );
        let table = replayed(&trace(), &policy(), &options);
        assert!(table.contains("admitted at once"), "run {n}:\n{table}");
        (table, folder.read("plot.svg"), folder.read("decisions.csv"))
    };
    assert!(once(1) == once(2), "two runs differ");
}

#[test]
fn refusing_replay_obeys_every_limit() {
    let policy = policy();
    judged(
        &trace(),
        policy.to_str().unwrap(),
        &format!("--service {SERVICE}"),
        &format!("--service {SERVICE}"),
    );
}

#[test]
fn waiting_replay_obeys_every_limit_and_wastes_no_microsecond() {
    let options = format!("--service {SERVICE} --wait 10s");
    judged(&trace(), policy().to_str().unwrap(), &options, &options);
}

/// The decisions with the first row that `pick` picks replaced.
fn tampered(decisions: &str, pick: &str, replace: impl Fn(&[&str]) -> String) -> String {
    let line = decisions
        .lines()
        .find(|line| line.contains(pick))
        .expect("such a row");
    let row: Vec<&str> = line.split(',').collect();
    decisions.replace(&format!("{line}\n"), &format!("{}\n", replace(&row)))
}

#[test]
fn the_checker_notices_one_decision_that_is_wrong() {
    let folder = Folder::new();
    let limit = "x = { calls = 100, per = '1m' }";
    let policy = folder.write("p.toml", &format!("[policy.p.limits]\n{limit}\n"));
    let decisions = folder.path("d.csv");
    let check = |options: &str, pick: &str, replace: &dyn Fn(&[&str]) -> String, fault: &str| {
        replayed(
            &trace(),
            &policy,
            &format!("{options} --decisions {}", decisions.display()),
        );
        folder.write("d.csv", &tampered(&folder.read("d.csv"), pick, replace));
        let ran = judge(&trace(), policy.to_str().unwrap(), &decisions, options);
        if let Some(ran) = ran {
            assert_eq!(ran.code, 1, "{}{}", ran.out, ran.error);
            assert!(ran.out.contains(&format!("FAILED {fault}:")), "{}", ran.out);
        }
    };
    let admit = |row: &[&str]| format!("{},{},{2},{2},{2},admitted,,1,1", row[0], row[1], row[2]);
    check("", ",refused,", &admit, "x");
    let refuse = |row: &[&str]| format!("{},{},{},,,refused,x,,", row[0], row[1], row[2]);
    check("", ",admitted,", &refuse, "refused");
    let delay = |row: &[&str]| {
        let later = row[3].parse::<u64>().unwrap() + 1;
        format!(
            "{},{},{},{later},{later},waited,x,1,1",
            row[0], row[1], row[2]
        )
    };
    check("--wait 10s", ",waited,", &delay, "exact");
}

#[test]
fn replay_with_an_estimate_settles_with_the_truth() {
    for wait in ["", "--wait 10s"] {
        for reserve in ["context+200", "context+0", "4000"] {
            let options = format!("--service {SERVICE} --reserve {reserve} {wait}");
            judged(&trace(), policy().to_str().unwrap(), &options, &options);
        }
    }
}

#[test]
fn replay_without_service_holds_nothing_and_says_so() {
    judged(&trace(), policy().to_str().unwrap(), "", "");
    let note = replay(&trace(), &policy(), "").error;
    assert!(note.contains("`running` never fills"), "{note}");
}

#[test]
fn every_algorithm_obeys_its_law() {
    let folder = Folder::new();
    let limits = [
        r#"x = { rate = 300_000, per = "1m", algorithm = "gcra", burst = 100_000 }"#,
        r#"x = { rate = 300_000, per = "1m", algorithm = "leaky_bucket" }"#,
        r#"x = { rate = 300_000, per = "1m", algorithm = "fixed_window" }"#,
        r#"x = { rate = 300_000, per = "1m", algorithm = "first_use_window" }"#,
        r#"x = { rate = 300_000, per = "1m", algorithm = "sliding_window", sub_windows = 60 }"#,
        r#"x = { rate = 300_000, per = "1m", algorithm = "sliding_log" }"#,
        r#"x = { calls = 60, per = "7s" }"#,
        r#"x = { calls = 1000, per = "day", zone = "Asia/Kolkata" }"#,
        r#"x = { budget = 1_000_000, per = "5m" }"#,
        r#"x = { budget = 900_000, per = "5m", postpaid = true }"#,
        r#"x = { rate = 300_000, per = "1m", postpaid = true }"#,
        r#"x = { concurrency = 9 }"#,
    ];
    for limit in limits {
        let policy = folder.write("one.toml", &format!("[policy.one.limits]\n{limit}\n"));
        for options in ["", " --reserve context+50 --wait 5s"] {
            eprintln!("{limit}{options}");
            let options = format!("--service {SERVICE}{options}");
            judged(&trace(), policy.to_str().unwrap(), &options, &options);
        }
    }
}

#[test]
fn the_example_policy_bites_with_all_its_limits() {
    let table = replayed(&trace(), &policy(), &format!("--service {SERVICE}"));
    assert_eq!(count(&table, "requests"), 8_819);
    let refused = count(&table, "refused");
    let by = ["by rpm", "by tpm", "by daily", "by running"].map(|name| count(&table, name));
    assert_eq!(by.iter().sum::<u64>(), refused, "{table}");
    assert!(by.iter().all(|count| *count > 0), "{table}");
    assert_eq!(count(&table, "admitted at once") + refused, 8_819);

    let waiting = replayed(
        &trace(),
        &policy(),
        &format!("--service {SERVICE} --wait 10s"),
    );
    assert!(count(&waiting, "waited") > 500, "{waiting}");
    assert!(count(&waiting, "refused") < refused, "{waiting}");
}

#[test]
fn a_slot_is_held_as_long_as_it_is_served_however_short_its_lease() {
    let folder = Folder::new();
    let limit = "running = { concurrency = 3, ttl = '1s' }";
    let policy = folder.write("p.toml", &format!("[policy.p.limits]\n{limit}\n"));
    for options in ["--service 20s", "--service 20s --wait 30s"] {
        judged(&trace(), policy.to_str().unwrap(), options, options);
    }
}

#[test]
fn who_finds_the_queue_full_is_refused_at_once() {
    let folder = Folder::new();
    let trace = folder.write("t.jsonl", &"{\"ts\": 1}\n".repeat(4));
    let policy = folder.write(
        "p.toml",
        "[policy.p]\nmax_waiting = 1\nlimits.one = { concurrency = 1 }\n",
    );
    let options = format!(
        "--service 1s --wait 9s --decisions {}",
        folder.path("d.csv").display()
    );
    replayed(&trace, &policy, &options);
    let rows: Vec<String> = folder
        .read("d.csv")
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect();
    assert_eq!(
        rows,
        [
            "0,all,0,0,1000000,admitted,,1,1",
            "1,all,0,1000000,2000000,waited,one,1,1",
            "2,all,0,,,refused,one,,",
            "3,all,0,,,refused,one,,",
        ]
    );
}

#[test]
fn what_ends_at_a_deadline_still_helps_who_waits() {
    let folder = Folder::new();
    let trace = folder.write("t.jsonl", "{\"ts\": 1}\n{\"ts\": 2}\n{\"ts\": 3}\n");
    let policy = folder.write("p.toml", "[policy.p.limits]\none = { concurrency = 1 }\n");
    let options = format!(
        "--service 3s --wait 2s --decisions {}",
        folder.path("d.csv").display()
    );
    replayed(&trace, &policy, &options);
    let rows: Vec<String> = folder
        .read("d.csv")
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect();
    assert_eq!(
        rows,
        [
            "0,all,0,0,3000000,admitted,,1,1",
            "1,all,1000000,3000000,6000000,waited,one,1,1",
            "2,all,2000000,,,refused,one,,",
        ]
    );
}

#[test]
fn a_trace_may_come_by_standard_input() {
    use std::process::{Command, Stdio};
    let binary = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", "-", "--policy"])
        .arg(policy())
        .stdin(Stdio::from(std::fs::File::open(trace()).unwrap()))
        .output()
        .unwrap();
    let out = String::from_utf8(binary.stdout).unwrap();
    assert!(
        out.starts_with("standard input through llm-gateway.toml: 57 min 16 s, 1 key"),
        "{out}"
    );
}

/// A cost of 1 was one cent, and of all ten requests none was refused: a server admits two.
#[test]
fn a_policy_whose_amounts_a_trace_does_not_count_is_refused() {
    let folder = Folder::new();
    let trace = folder.write("t.jsonl", &"{\"ts\": 0, \"usd\": 1}\n".repeat(10));
    let limits = |unit: &str| {
        let usd = format!("usd = {{ budget = 2, per = '1h'{unit} }}");
        folder.write("p.toml", &format!("[policy.p.limits]\n{usd}\n"))
    };
    let ran = replay(&trace, &limits(", unit = '0.01'"), "--cost-field usd");
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.error.contains("`usd` counts in steps of 0.01"),
        "{}",
        ran.error
    );
    let table = replayed(&trace, &limits(""), "--cost-field usd");
    assert_eq!(count(&table, "refused"), 8, "{table}");
}

#[test]
fn a_shadow_limit_is_recorded_and_refuses_nobody() {
    let folder = Folder::new();
    let policy = folder.write(
        "p.toml",
        "[policy.p.limits]\nx = { calls = 1, per = '1h', shadow = true }\n",
    );
    let table = replayed(&trace(), &policy, "");
    assert_eq!(count(&table, "admitted at once"), 8_819, "{table}");
}

#[test]
fn a_settle_at_the_same_microsecond_as_an_arrival_comes_first() {
    let folder = Folder::new();
    let trace = folder.write(
        "t.jsonl",
        "{\"ts\": 100.0}\n{\"ts\": 101.0}\n{\"ts\": 101.999999}\n{\"ts\": 102.0}\n",
    );
    let policy = folder.write("p.toml", "[policy.p.limits]\none = { concurrency = 1 }\n");
    let options = format!(
        "--service 1s --decisions {}",
        folder.path("d.csv").display()
    );
    replayed(&trace, &policy, &options);
    let expected = "\
request,key,arrived_us,started_us,ended_us,outcome,binding_limit,reserved.one,used.one
0,all,0,0,1000000,admitted,,1,1
1,all,1000000,1000000,2000000,admitted,,1,1
2,all,1999999,,,refused,one,,
3,all,2000000,2000000,3000000,admitted,,1,1
";
    assert_eq!(folder.read("d.csv"), expected);
}

#[test]
fn who_waits_is_served_in_order_and_refused_at_the_deadline() {
    let folder = Folder::new();
    let lines =
        [(0, 5), (1, 10), (2, 1), (3, 1)].map(|(at, n)| format!("{{\"ts\": {at}, \"n\": {n}}}\n"));
    let trace = folder.write("t.jsonl", &lines.concat());
    // One unit a second, ten at most: the second asks for all ten.
    let policy = folder.write(
        "p.toml",
        "[policy.p.limits]\nx = { rate = 60, per = '1m', burst = 10 }\n",
    );
    let decisions = folder.path("d.csv");
    let replayed_with = |wait: &str| {
        let options = format!(
            "--cost-field n --wait {wait} --decisions {}",
            decisions.display()
        );
        replayed(&trace, &policy, &options);
        folder
            .read("d.csv")
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // The bucket is full again after five seconds; the small ones stay behind
    // the large one that came before them.
    assert_eq!(
        replayed_with("30s"),
        [
            "0,all,0,0,0,admitted,,5,5",
            "1,all,1000000,5000000,5000000,waited,x,10,10",
            "2,all,2000000,6000000,6000000,waited,x,1,1",
            "3,all,3000000,7000000,7000000,waited,x,1,1",
        ]
    );
    // Once the large one gives up, what is behind it goes at that instant.
    assert_eq!(
        replayed_with("3s"),
        [
            "0,all,0,0,0,admitted,,5,5",
            "1,all,1000000,,,refused,x,,",
            "2,all,2000000,4000000,4000000,waited,x,1,1",
            "3,all,3000000,4000000,4000000,waited,x,1,1",
        ]
    );
}

#[test]
fn a_web_log_is_limited_by_address_and_by_bytes() {
    let folder = Folder::new();
    let line = |ip: &str, second: u8, bytes: &str| {
        format!(
            "{ip} - - [10/Oct/2000:13:55:{second:02} -0700] \"GET /a HTTP/1.1\" 200 {bytes} \"-\" \"x\"\n"
        )
    };
    let lines = [
        line("::1", 0, "600"),
        line("::2", 0, "600"),
        line("::1", 1, "600"),
        line("::2", 1, "-"),
    ];
    let trace = folder.write("access.log", &lines.concat());
    let policy = folder.write(
        "p.toml",
        "[policy.p.limits]\nbytes = { rate = 1_000, per = '1h' }\n",
    );
    let options = format!("--decisions {}", folder.path("d.csv").display());
    replayed(&trace, &policy, &options);
    let outcomes: Vec<String> = folder
        .read("d.csv")
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect();
    assert_eq!(
        outcomes,
        [
            "0,::1,0,0,0,admitted,,600,600",
            "1,::2,0,0,0,admitted,,600,600",
            "2,::1,1000000,,,refused,bytes,,",
            "3,::2,1000000,1000000,1000000,admitted,,0,0",
        ]
    );
    judged(&trace, policy.to_str().unwrap(), "--key =all", "--key =all");
    judged(
        &trace,
        policy.to_str().unwrap(),
        "--key ip --wait 30m",
        "--key ip --wait 30m",
    );
}

#[test]
fn levels_limit_the_ancestors_of_a_key() {
    let folder = Folder::new();
    let lines = ["acme,ann", "acme,bob", "acme,cyd", "zeta,ann"].map(|who| {
        let (org, user) = who.split_once(',').unwrap();
        format!("{{\"ts\": 1, \"org\": \"{org}\", \"user\": \"{user}\", \"tokens\": 4}}\n")
    });
    let trace = folder.write("t.jsonl", &lines.concat());
    let policy = folder.write(
        "p.toml",
        "[policy.p]\nkey = 'org/user'\n[policy.p.limits]\n\
         org_calls = { calls = 2, per = '1m', level = 'org' }\nuser_tokens = { rate = 5, per = '1m' }\n",
    );
    let options = format!(
        "--key org,user --cost-field tokens --decisions {}",
        folder.path("d.csv").display()
    );
    replayed(&trace, &policy, &options);
    let rows: Vec<String> = folder
        .read("d.csv")
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect();
    assert_eq!(rows[2], "2,acme/cyd,0,,,refused,org_calls,,,,");
    assert_eq!(rows[3], "3,zeta/ann,0,0,0,admitted,,1,1,4,4");
}

#[test]
fn the_picture_has_a_panel_for_each_limit_and_is_well_formed() {
    let folder = Folder::new();
    let options = format!(
        "--service {SERVICE} --plot {}",
        folder.path("p.svg").display()
    );
    replayed(&trace(), &policy(), &options);
    let svg = folder.read("p.svg");
    for word in [
        "<svg",
        "rpm",
        "tpm",
        "daily",
        "running",
        "minutes since 2023-11-16 18:17:03 UTC",
        "demand",
    ] {
        assert!(svg.contains(word), "no {word}");
    }
    assert!(
        !svg.contains("NaN") && !svg.contains("inf"),
        "a number is none"
    );
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn json_is_for_programs() {
    let text = replayed(&trace(), &policy(), &format!("--service {SERVICE} --json"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&value["requests"], &value["format"]),
        (&8_819.into(), &"azure".into())
    );
    assert_eq!(value["limits"]["running"]["peak_use"], 28);
    assert!(value["limits"]["tpm"]["mean_use"].as_f64().unwrap() > 0.0);
}
