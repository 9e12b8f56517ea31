//! `tidegate dynamodb`, typed at an emulator; and what its templates are to those who read them.

#[path = "../../protocols/http/tests/http/tools.rs"]
mod tools;

use std::process::{Command, Output};

use serde_json::Value;
use tidegate_conformance::dynamodb_server::DynamodbServer;

fn tidegate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("dynamodb").args(words);
    for name in [
        "TIDEGATE_STORE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ] {
        command.env_remove(name);
    }
    command.output().expect("the program is built")
}

/// The exit code, and what was printed to both.
fn run(words: &[&str]) -> (i32, String, String) {
    let output = tidegate(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("it ends by itself");
    (code, text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_table_is_made_looked_at_upgraded_and_deleted_by_its_name() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let url = &*server.url();
    let (code, _, errors) = run(&["status", url]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("is not there; make it with"), "{errors}");
    let (code, said, errors) = run(&["create", url, "--protect"]);
    assert_eq!(code, 0, "{errors}");
    assert_eq!(
        said,
        "the table is made\nwhat is spent expires\nthe layout is of this version\n"
    );
    let (code, said, _) = run(&["create", url]);
    assert_eq!(code, 0);
    assert_eq!(said, "nothing to do: the table is there and up to date\n");
    let (code, said, _) = run(&["status", url, "--json"]);
    assert_eq!(code, 0);
    let status: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status["state"], "ACTIVE");
    assert_eq!(status["protected"], true);
    assert_eq!(status["current"], true);
    let (code, said, _) = run(&["status", url]);
    assert_eq!(code, 0);
    assert!(said.contains("protected  yes\n"), "{said}");
    // The wrong name, and a table that is protected.
    let (code, _, errors) = run(&["delete", url, "--confirm", "other"]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("nothing was deleted"), "{errors}");
    let (code, _, errors) = run(&["delete", url, "--confirm", "tidegate"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("is protected, and stays"), "{errors}");
    let (code, said, _) = run(&["upgrade", url, "--protect", "off"]);
    assert_eq!((code, &*said), (0, "the table is protected no longer\n"));
    let (code, said, _) = run(&["delete", url, "--confirm", "tidegate"]);
    assert_eq!((code, &*said), (0, "deleted\n"));
    assert_eq!(run(&["status", url]).0, 1);
}

#[test]
fn what_is_no_table_is_told_with_what_to_write() {
    for url in ["redis://127.0.0.1", "tidegate", "dynamodb://a b"] {
        let (code, _, errors) = run(&["status", url]);
        assert_eq!(code, 2, "{url}: {errors}");
        assert!(errors.contains("dynamodb://"), "{url}: {errors}");
    }
}

#[test]
fn a_policy_is_json_with_the_actions_of_whom_it_is_for() {
    for (who, has) in [
        ("decide", "dynamodb:Query"),
        ("administer", "dynamodb:DeleteTable"),
    ] {
        let (code, said, _) = run(&["template", "policy", "--table", "mine", "--rights", who]);
        assert_eq!(code, 0);
        let policy: Value = serde_json::from_str(&said).expect("JSON");
        let statement = &policy["Statement"][0];
        let actions = statement["Action"].as_array().expect("actions");
        assert!(actions.iter().any(|action| action == has), "{said}");
        assert_eq!(statement["Resource"][0], "arn:aws:dynamodb:*:*:table/mine");
    }
}

/// Prints a template into a file of this name, and has a reader of PyPI's look at it.
fn judged(kind: &str, file: &str, judge: &mut Command) {
    let (code, text, errors) = run(&["template", kind]);
    assert_eq!(code, 0, "{errors}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    std::fs::write(&path, &text).expect("it is written");
    let judged = judge.arg(&path).output().expect("it runs");
    assert!(judged.status.success(), "{}\n{text}", tools::said(&judged));
}

#[test]
fn the_template_of_cloudformation_has_no_fault_that_cfn_lint_finds() {
    let Some(lint) = tools::python("cfn-lint==1.58.0", "cfn-lint") else {
        return;
    };
    judged("cloudformation", "tidegate.yaml", &mut Command::new(lint));
}

/// Terraform itself is in no package index that these tests may use: its language is read by a
/// parser, and not its provider's schema.
#[test]
fn the_template_of_terraform_is_read_by_a_parser_of_its_language() {
    let Some(python) = tools::python_with(&["python-hcl2==8.1.4"], "hcl2") else {
        return;
    };
    let script = "import hcl2, sys; read = hcl2.load(open(sys.argv[1])); \
                  assert 'aws_dynamodb_table' in str(read['resource']), read";
    judged(
        "terraform",
        "tidegate.tf",
        Command::new(python).args(["-c", script]),
    );
}
