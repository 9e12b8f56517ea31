//! What a shell and `man` are told.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::server::{Said, tidegate};

fn said(arguments: &[&str]) -> Said {
    Said::from(tidegate().args(arguments).output().unwrap()).ends(0)
}

#[test]
fn a_shell_completes_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]).out;
        assert!(
            script.contains("check-many") && script.contains("on-lost"),
            "{shell}"
        );
    }
}

#[test]
fn bash_takes_its_completions_and_finishes_a_word() {
    let mut bash = Command::new("bash");
    let bash = bash
        .arg("--norc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut bash = bash.spawn().expect("bash runs");
    let request = "COMP_WORDS=(tidegate acq); COMP_CWORD=1; _tidegate tidegate acq tidegate; \
               echo \"${COMPREPLY[@]}\"\n";
    let script = said(&["completions", "bash"]).out + "\n" + request;
    bash.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let out = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "acquire\n");
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let first = said(&["man"]).out;
    assert!(first.contains(".TH tidegate 1") && first.contains("tidegate\\-acquire"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man/man1");
    said(&["man", path.to_str().unwrap()]);
    let page = std::fs::read_to_string(path.join("tidegate-run.1")).unwrap();
    assert!(page.contains("on\\-lost") && page.contains("121"));
}

/// Every command listed the codes of all, and a page had backslashes of Rust.
#[test]
fn help_lists_what_the_command_itself_can_say() {
    let help = |words: &[&str]| said(&[words, &["--help"]].concat()).out;
    for lists in [
        &["top"][..],
        &["keys"],
        &["usage", "list"],
        &["entity", "list"],
    ] {
        let codes = help(lists);
        let codes = codes.split("Exit codes:").nth(1).expect("codes");
        assert!(
            codes.contains("0  done") && codes.contains("5  failed"),
            "{codes}"
        );
        assert!(!codes.contains("1  ") && !codes.contains("7  "), "{codes}");
    }
    let acquire = help(&["acquire"]);
    assert!(acquire.contains("0  admitted\n  1  refused"), "{acquire}");
    assert!(help(&["override", "set"]).contains("7  conflict"));
    assert!(help(&["namespaces"]).contains("(`namespace = \"*\"`)"));
    assert!(help(&["token"]).contains("[default: decide,observe]"));
    // A line of an example that is too long is broken.
    let example = help(&["override"]);
    assert!(
        example.contains("rpm=90 --for 7d --reason trial\n"),
        "{example}"
    );
}
