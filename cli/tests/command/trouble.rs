//! What `tidegate replay` says when something is wrong, and how it exits.

use crate::common::{Folder, Ran, policy, replay, tidegate, trace};

#[track_caller]
fn says(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{ran:?}");
    for word in words {
        assert!(ran.error.contains(word), "no {word:?} in\n{}", ran.error);
    }
}

#[test]
fn help_names_every_option_with_examples_and_exit_codes() {
    let help = tidegate(&["replay", "--help"]);
    assert_eq!(help.code, 0);
    for word in [
        "--policy",
        "--wait",
        "--reserve",
        "--service",
        "--key",
        "--plot",
        "--decisions",
        "--format",
        "--json",
        "--no-progress",
        "Examples:",
        "Exit codes:",
        "binding_limit",
    ] {
        assert!(help.out.contains(word), "no {word}");
    }
    assert!(tidegate(&["--help"]).out.contains("replay"));
    assert!(tidegate(&["--version"]).out.starts_with("tidegate "));
}

#[test]
fn a_command_line_that_makes_no_sense_exits_with_2() {
    let (trace, policy) = (trace(), policy());
    says(&tidegate(&["replay"]), 2, &["TRACE"]);
    says(
        &replay(&trace, &policy, "--wait 10"),
        2,
        &["write a number with a unit"],
    );
    says(&replay(&trace, &policy, "--reserve context"), 0, &[]);
    says(
        &replay(&trace, &policy, "--reserve all"),
        2,
        &["total, context+N, or N"],
    );
    says(
        &replay(&trace, &policy, "--service ttft=1"),
        2,
        &["number with a unit"],
    );
    says(
        &replay(&trace, &policy, "--format xml"),
        2,
        &["azure, combined, jsonl"],
    );
    says(
        &replay(&trace, &policy, "--cost-field x=ContextTokens"),
        2,
        &["no rate or budget", "tpm, daily"],
    );
}

#[test]
fn a_missing_file_is_named() {
    let nowhere = std::path::Path::new("no/such/file");
    says(
        &replay(nowhere, &policy(), ""),
        1,
        &["cannot read no/such/file"],
    );
    says(
        &replay(&trace(), nowhere, ""),
        1,
        &["cannot read no/such/file"],
    );
    let options = "--service 1s --plot no/such/folder/out.svg";
    says(
        &replay(&trace(), &policy(), options),
        1,
        &["cannot write no/such/folder/out.svg"],
    );
    let options = "--service 1s --decisions no/such/folder/out.csv";
    says(
        &replay(&trace(), &policy(), options),
        1,
        &["cannot write no/such/folder/out.csv"],
    );
}

#[test]
fn a_faulty_policy_shows_every_fault_with_its_line() {
    let folder = Folder::new();
    let text = "[policy.chat.limits]\nrpm = { cals = 300, per = \"1m\" }\ntpm = { rate = 5, per = \"1 fortnight\" }\n";
    let ran = replay(&trace(), &folder.write("p.toml", text), "");
    says(
        &ran,
        1,
        &[
            "p.toml:2:9",
            "did you mean `calls`?",
            "p.toml:3:25",
            "not a length of time",
        ],
    );
}

#[test]
fn one_of_several_policies_is_chosen_by_name() {
    let folder = Folder::new();
    let text = "[policy.a.limits]\nx = { calls = 1, per = '1m' }\n[policy.b.limits]\nx = { calls = 9, per = '1m' }\n";
    let policy = folder.write("p.toml", text);
    says(
        &replay(&trace(), &policy, ""),
        2,
        &["several policies: a, b", "#NAME"],
    );
    let named = |name: &str| std::path::PathBuf::from(format!("{}#{name}", policy.display()));
    says(
        &replay(&trace(), &named("c"), ""),
        2,
        &["no policy `c`", "a, b"],
    );
    assert_eq!(replay(&trace(), &named("b"), "").code, 0);
}

#[test]
fn a_faulty_trace_is_named_by_file_and_line() {
    let folder = Folder::new();
    let policy = policy();
    for (name, text, words) in [
        (
            "a.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n",
            "a.csv:2: the line has 2 columns",
        ),
        (
            "b.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n",
            "b.csv:2: `noon` is not an instant",
        ),
        (
            "c.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,-2\n",
            "c.csv:2: `GeneratedTokens` is `-2`; write a whole number",
        ),
        (
            "d.log",
            "h - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1\nhello\n",
            "d.log:2: the line lacks",
        ),
        (
            "e.jsonl",
            "{\"ts\": 1, \"context\": 1}\n{\"ts\": 2\n",
            "e.jsonl:2: the line is not a JSON object",
        ),
        ("f.jsonl", "{\"when\": 1}\n", "--time-field"),
        ("g.csv", "a,b\n", "none of the formats known"),
        ("h.csv", "", "there is no request in it"),
        (
            "i.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n",
            "there is no request in it",
        ),
    ] {
        says(&replay(&folder.write(name, text), &policy, ""), 1, &[words]);
    }
}

#[test]
fn what_the_trace_does_not_say_must_be_named() {
    let folder = Folder::new();
    let trace = folder.write("t.jsonl", "{\"ts\": 1, \"size\": 7, \"who\": \"ann\"}\n");
    let rate = folder.write(
        "r.toml",
        "[policy.p.limits]\nx = { rate = 10, per = '1m' }\n",
    );
    says(&replay(&trace, &rate, ""), 2, &["--cost-field"]);
    says(&replay(&trace, &rate, "--cost-field size"), 0, &[]);
    says(
        &replay(&trace, &rate, "--cost-field size --reserve context+1"),
        2,
        &["--context-field"],
    );
    says(
        &replay(&trace, &rate, "--cost-field size --service per_token=1ms"),
        2,
        &["--generated-field"],
    );
    says(
        &replay(&trace, &rate, "--cost-field size --key user"),
        1,
        &["no field `user`", "who"],
    );
    let calls = folder.write(
        "c.toml",
        "[policy.p.limits]\nx = { calls = 10, per = '1m' }\n",
    );
    says(&replay(&trace, &calls, ""), 0, &[]);
}

#[test]
fn a_request_that_could_never_fit_is_refused_by_its_limit_and_the_rest_goes_on() {
    let folder = Folder::new();
    let trace = folder.write("t.jsonl", "{\"ts\": 1, \"n\": 70}\n{\"ts\": 2, \"n\": 7}\n");
    let policy = folder.write(
        "p.toml",
        "[policy.p.limits]\nx = { rate = 10, per = '1m' }\n",
    );
    for wait in ["", "--wait 1h"] {
        let options = format!(
            "--cost-field n {wait} --decisions {}",
            folder.path("d.csv").display()
        );
        says(&replay(&trace, &policy, &options), 0, &[]);
        let rows = folder.read("d.csv");
        assert!(
            rows.contains("0,all,0,,,refused,x,,\n1,all,1000000,1000000,1000000,admitted,,7,7"),
            "{rows}"
        );
    }
}
