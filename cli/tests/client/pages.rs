//! What pages of the book type is typed, fence by fence, at a server as it comes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::server::{Said, tidegate};

/// A server as it comes, with the protocols that the pages use.
struct AsItComes {
    process: Child,
    http: String,
    resp: String,
    folder: tempfile::TempDir,
}

impl AsItComes {
    fn start() -> Self {
        Self::start_with(&[], None)
    }

    /// The same with more of its options, and with the file `limits.toml` beside it.
    fn start_with(options: &[&str], limits: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(limits) = limits {
            std::fs::write(folder.path().join("limits.toml"), limits).expect("a file");
        }
        let serve = ["serve", "--http", "127.0.0.1:0", "--grpc", "off"];
        let mut process = tidegate()
            .args(serve)
            .args(["--resp", "127.0.0.1:0", "--store", "memory:"])
            .args(options)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        let mut address = |protocol: &str| {
            let line = lines.find(|line| line.trim_start().starts_with(protocol));
            let line = line.expect("the address is announced");
            let address = line.split_whitespace().nth(1).expect("an address");
            address
                .rsplit_once('/')
                .map_or(address, |(_, at)| at)
                .to_owned()
        };
        let http = address("HTTP");
        Self {
            http,
            resp: address("RESP"),
            process,
            folder,
        }
    }

    /// Types a fence of a page; what was printed.
    fn types(&self, script: &str) -> Said {
        let (_, port) = self.resp.rsplit_once(':').expect("a port");
        let script = script.replace("127.0.0.1:7400", &self.http);
        let script = script.replace("-p 7402", &format!("-p {port}"));
        let mut path = vec![
            Path::new(env!("CARGO_BIN_EXE_tidegate"))
                .parent()
                .unwrap()
                .into(),
        ];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut bash = Command::new("bash");
        let bash = bash
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.folder.path())
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("TIDEGATE_SERVER", format!("http://{}", self.http))
            .env_remove("TIDEGATE_TOKEN");
        Said::from(bash.output().expect("bash runs"))
    }
}

impl Drop for AsItComes {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a program that nobody here wrote is there.
fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    let required = std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some();
    assert!(found || !required, "{program} is needed");
    found
}

/// The fences of a page in a language.
fn fences<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let begin = format!("```{language}\n");
    let fences = page.split(begin.as_str()).skip(1);
    let fences = fences.map(|rest| rest.split("```").next().expect("a text"));
    fences.collect()
}

/// What is typed into a shell; not what builds or starts a server, and not what needs
/// a program that is not there.
fn scripts(page: &str) -> Vec<&str> {
    let can_be_typed = |script: &&str| {
        let programs = script.lines().filter_map(|line| line.split(' ').next());
        let mut others = programs.filter(|program| ["curl", "redis-cli"].contains(program));
        !script.contains("tidegate serve") && !script.starts_with("cargo") && others.all(there)
    };
    let mut scripts = fences(page, "sh");
    scripts.retain(can_be_typed);
    scripts
}

/// Types what a page types, one fence after the other.
fn typed(page: &str) -> AsItComes {
    let server = AsItComes::start();
    let scripts = scripts(page);
    for script in &scripts {
        let said = server.types(script);
        assert_eq!(said.code, 0, "{script}: {said:?}");
        let wrong = ["\"code\":", "ERR ", "NOPERM"];
        assert!(
            wrong.iter().all(|word| !said.out.contains(word)),
            "{script}: {said:?}"
        );
    }
    assert!(scripts.len() >= 3);
    server
}

#[test]
fn what_the_page_of_entities_types_works() {
    let server = typed(include_str!("../../../docs/entities.md"));
    let left = server.types("tidegate entity list").out;
    let left: Vec<_> = left.lines().map(|line| line.split(' ').next()).collect();
    assert_eq!(left, [Some("acme"), Some("ads"), Some("search")]);
}

#[test]
fn what_the_page_of_namespaces_types_works() {
    let page = include_str!("../../../docs/namespaces.md");
    let server = AsItComes::start();
    let [script] = scripts(page)[..] else {
        panic!("one fence");
    };
    let said = server.types(script);
    assert_eq!(said.code, 0, "{said:?}");
    let left = server.types("tidegate namespaces list").out;
    assert!(left.starts_with("acme "), "{left}");
}

#[test]
fn what_the_page_of_replays_types_prints_what_it_says() {
    let page = include_str!("../../../docs/replay.md");
    let server = AsItComes::start();
    let [lines, printed] = fences(page, "text")[..] else {
        panic!("the trace, and what is printed");
    };
    for (name, text) in [
        ("calls.jsonl", lines),
        ("chat.toml", fences(page, "toml")[0]),
    ] {
        std::fs::write(server.folder.path().join(name), text).expect("written");
    }
    let scripts = scripts(page);
    assert_eq!(scripts.len(), 2);
    for script in &scripts {
        let said = server.types(script);
        assert_eq!(said.code, 0, "{script}: {said:?}");
    }
    assert_eq!(server.types(scripts[0]).out, printed);
    let written = std::fs::read_to_string(server.folder.path().join("out.csv"));
    assert_eq!(written.expect("decisions").lines().count(), 5);
}

#[test]
fn what_the_page_of_overrides_types_works() {
    let page = include_str!("../../../docs/reference/overrides.md");
    let server = typed(page);
    let peek = || {
        let peek = "tidegate peek -p example -k someone --json";
        server.types(peek).json()
    };
    // Nothing is left that the next page would meet: its 60 calls were 40.
    let after = peek();
    assert_eq!(after["overrides"], serde_json::Value::Null);
    assert_eq!(after["limits"]["calls"]["limit"], 60);
    let levels = scripts(page);
    let levels = levels.iter().find(|script| script.contains("--everywhere"));
    let levels = levels.expect("the levels").lines();
    let set: Vec<_> = levels.filter(|line| line.contains(" set ")).collect();
    assert_eq!(server.types(&set.join("\n")).code, 0);
    assert_eq!(peek()["overrides"]["calls"], "policy");
    assert_eq!(peek()["limits"]["calls"]["limit"], 40);
}

#[test]
fn what_a_newcomer_types_works() {
    let page = include_str!("../../../docs/start/server.md");
    let (example, own) = page.split_once("## Your own policy").expect("both parts");
    let limits = fences(own, "toml")[0];
    let servers = [
        (example, AsItComes::start()),
        (
            own,
            AsItComes::start_with(&["--config", "limits.toml"], Some(limits)),
        ),
    ];
    let mut typed = 0;
    for (part, server) in servers {
        for script in scripts(part) {
            let said = server.types(script);
            assert_eq!(said.code, 0, "{script}: {said:?}");
            typed += 1;
        }
    }
    assert!(typed >= 5, "{typed}");
}

/// A script of `examples/axes`, at a server of its own with the policies beside it.
fn axis(script: &str, promised: &[&str]) {
    if !there("curl") {
        return;
    }
    let limits = include_str!("../../../examples/axes/limits.toml");
    let server = AsItComes::start_with(&["--config", "limits.toml"], Some(limits));
    let said = server.types(script);
    assert_eq!(said.code, 0, "{said:?}");
    let mut rest = said.out.as_str();
    for said in promised {
        let at = rest.find(said);
        rest = &rest[at.unwrap_or_else(|| panic!("{said} is not in {rest}"))..][said.len()..];
    }
}

#[test]
fn the_axes_of_the_examples_answer_what_they_promise() {
    let (yes, no) = (r#""admitted":true"#, r#""admitted":false"#);
    let calls = r#""binding":"calls""#;
    axis(
        include_str!("../../../examples/axes/rate.sh"),
        &[yes, yes, yes, no, calls],
    );
    axis(
        include_str!("../../../examples/axes/cost.sh"),
        &[r#""used":1000"#, r#""used":12000"#, no],
    );
    axis(
        include_str!("../../../examples/axes/concurrency.sh"),
        &[yes, no, yes],
    );
    let (tokens, slots) = (r#""binding":"tokens""#, r#""binding":"slots""#);
    axis(
        include_str!("../../../examples/axes/all_at_once.sh"),
        &[yes, no, tokens, yes, no, slots],
    );
    axis(
        include_str!("../../../examples/axes/forecast.sh"),
        &[r#""spendable":5"#],
    );
    axis(include_str!("../../../examples/axes/debit.sh"), &[yes, no]);
    axis(
        include_str!("../../../examples/axes/many.sh"),
        &[yes, yes, no],
    );
}
