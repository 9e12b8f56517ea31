//! The project's own commands, in plain `std` so that they build in a second.
//!
//! | command | does |
//! |---|---|
//! | `cargo xtask test` | everything that must be green; what `.ci/run` calls; `--fast` without servers |
//! | `cargo xtask demo` | a server, an hour of real traffic through it, and a kill |
//! | `cargo xtask bench` | Tidegate beside its peers |
//! | `cargo xtask bench server` | the server beside its peers, over real sockets |
//! | `cargo xtask bench gateway` | the gateway beside proxies: what each adds to a call |
//! | `cargo xtask bench dynamodb` | a decision on DynamoDB beside zae-limiter and the bare update |
//! | `cargo xtask bench python` | the Python package beside its peers |
//! | `cargo xtask fuzz` | the fuzz targets, a minute each or as long as asked |
//! | `cargo xtask differential` | random commands on a store and on a reference |
//! | `cargo xtask contention` | eight processes at one hot key of each store, for a minute |
//! | `cargo xtask fleet` | real servers, two at a time on one store; the table of what holds |
//! | `cargo xtask paused` | a store that stands still under 64 clients: who waits how long |
//! | `cargo xtask race` | four gateways spend one budget, while processes and stores are killed |
//! | `cargo xtask model` | every history of a few nodes that spend what a store granted them |
//! | `cargo xtask mixed` | ten thousand calls of the SDKs through gateways: what was charged, and what was billed |
//! | `cargo xtask tiers` | fleets that decide by grants, in virtual time: what they admit beside the bound |
//! | `cargo xtask trace` | an hour of real calls before a provider that enforces its limit, by client: a table |
//! | `cargo xtask postgres` | the store's tests on every version of PostgreSQL |
//! | `cargo xtask proofs` | laws, interleavings and fuzzing for hours |
//! | `cargo xtask soak` | a paced load on every kind of policy: who is refused, late, what grows |
//! | `cargo xtask features` | each feature of each crate by itself compiles |
//! | `cargo xtask deny` | licences, advisories, who may depend on what |
//! | `cargo xtask package` | what would be published, packed, installed and run |
//! | `cargo xtask wheels` | wheels of the Python package, installed and run |
//! | `cargo xtask book` | the pages of `docs/` as a book |
//! | `cargo xtask openapi` | the document of the HTTP API, written anew |
//! | `cargo xtask house` | the crates, their sizes, and which files import each other |
//! | `cargo xtask ways` | how many functions, files and ways a decision has, at any commit |

mod bench;
mod book;
mod checkout;
mod command;
mod contention;
mod demo;
mod deny;
mod differential;
mod features;
mod fleet;
mod fuzz;
mod house;
mod layers;
mod manifest;
mod model;
mod needs;
mod openapi;
mod package;
mod plan;
mod postgres;
mod progress;
mod proofs;
mod python;
mod race;
mod server;
mod soak;
mod steps;
mod suites;
mod test;
mod tiers;
mod trace;
mod versions;
mod ways;
mod wheels;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test [--fast] [--from STEP] [--only STEP] [--list]
                                                        what .ci/run calls; --fast: no servers,
                                                        under five minutes once all is built
cargo xtask demo                                        a server, real traffic, a kill
cargo xtask bench [ARGUMENTS]                           see cargo xtask bench --help
cargo xtask bench server [ARGUMENTS]                    the server beside its peers; see --help
cargo xtask bench gateway [ARGUMENTS]                   what a gateway adds to a call; see --help
cargo xtask bench dynamodb [ARGUMENTS]                  beside zae-limiter and the bare update; see --help
cargo xtask bench stores [ARGUMENTS]                    Redis, PostgreSQL, MariaDB; see --help
cargo xtask bench tiers [ARGUMENTS]                     grants beside strict; see bench stores --help
cargo xtask bench entities [ARGUMENTS]                  one of a million, found by its id; see --help
cargo xtask bench python [ARGUMENTS]                    the Python package beside its peers; see --help
cargo xtask fuzz [--seconds N] [--target NAME]          60 seconds for each target
cargo xtask differential [--commands N] [--seed N] [--store NAME] [--clients 2]
                                                        a million commands; by two clients in turn
cargo xtask contention [--seconds N]                         eight processes at one hot key, 60 s a store
cargo xtask fleet [--program PATH] [--beside COMMIT]    two servers on one store: proof/fleet/TABLE.md;
                                                        --beside: the second is of another commit,
                                                        as during a deployment
cargo xtask paused [--seconds N] [--clients N] [--slack MS] [--program PATH]
                                                        a store stands still: who waits how long;
                                                        1: longer than they may, and the slack
cargo xtask race [--store NAME | --peer litellm] [--round NAME] [--calls N]
                                                        four gateways spend 10 dollars: the provider's
                                                        ledger beside the store; 1: they differ
                                                        --peer: four proxies of LiteLLM on Redis
cargo xtask model [--only PART] [--threads N] [--how]
                                                        every history of a few nodes on one store:
                                                        states, the most admitted, the bound; ten minutes
cargo xtask mixed [--requests N] [--seed N]             10,000 calls of the SDKs of OpenAI and
                                                        Anthropic, of all kinds: what was charged
                                                        beside what was billed; 1: they differ
cargo xtask tiers [--histories N] [--nodes N,N] [--kinds N] [--svg PATH]
                                                        fleets that decide by grants, in virtual
                                                        time: 100,000 histories, 2 to 5,000 nodes
cargo xtask trace [--svg PATH] [--windows] [--seed N]
                                                        an hour of real calls before a provider that
                                                        enforces its limit: learnt limits beside others
cargo xtask postgres [VERSION ...]                      the store's tests on 13, 14, 16, 17, 18
cargo xtask proofs [--minutes N]                        the same proofs, for longer
cargo xtask soak [--seconds N] [--store memory:|file:PATH] [--rate N] [--picture PATH]
                                                        a paced load on every kind of policy, ten
                                                        minutes a store; 2: the machine is too slow
cargo xtask features [CRATE]...                         each feature by itself compiles: a table
cargo xtask deny [--offline]                            licences, advisories, who may depend on
                                                        what, by cargo-deny; --offline: no advisories
cargo xtask package                                     what would be published, installed and run
cargo xtask wheels                                      the Python package as wheels, each installed
                                                        in a clean environment and tested there
cargo xtask book                                        docs/ as a book, by mdbook
cargo xtask openapi                                     protocols/http/openapi.json, written anew
cargo xtask house [CRATE]... [--why] [--check] [--svg FILE] [--api FILE]
                                                        the crates, and files that import each other;
                                                        --api: what a crate offers
cargo xtask ways [--at COMMIT]... [--names]             the ways of a decision, counted; see --help
";

/// What is printed where help is wanted, by this program alone: nothing is built for it.
fn help(command: &str, rest: &[String]) -> Option<String> {
    let is_wanted = |words: &[String]| words.iter().any(|word| word == "--help" || word == "-h");
    let command = match command {
        "--help" | "-h" | "help" => return Some(HELP.to_owned()),
        _ if !is_wanted(rest) => return None,
        command => command,
    };
    match (command, rest[0].as_str()) {
        ("ways", _) => Some(ways::HELP.to_owned()),
        ("bench", "server") => Some(server::HELP.to_owned()),
        ("bench", "gateway") => Some(server::gateway::HELP.to_owned()),
        ("bench", "dynamodb") => Some(server::dynamodb::HELP.to_owned()),
        ("bench", "stores" | "tiers") => Some(bench::STORES_HELP.to_owned()),
        ("bench", "entities") => Some(bench::ENTITIES_HELP.to_owned()),
        ("bench", "python") => Some(bench::PYTHON_HELP.to_owned()),
        ("bench", _) => Some(bench::HELP.to_owned()),
        _ => Some(lines_of(command)).filter(|lines| !lines.is_empty()),
    }
}

fn unknown(command: &str) -> String {
    match command {
        "" => HELP.to_owned(),
        command => format!("there is no `cargo xtask {command}`\n\n{HELP}"),
    }
}

/// What [`HELP`] says of one command.
fn lines_of(command: &str) -> String {
    let mut is_its = false;
    let lines = HELP.lines().filter(|line| {
        if let Some(rest) = line.strip_prefix("cargo xtask ") {
            is_its = rest.split(' ').next() == Some(command);
        }
        is_its
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    if let Some(help) = help(&command, &rest) {
        println!("{}", help.trim_end());
        return ExitCode::SUCCESS;
    }
    if command == "soak" {
        return soak::run(&rest);
    }
    let outcome = match command.as_str() {
        "test" => test::run(&rest),
        "demo" => demo::run(&rest),
        "bench" => bench::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "differential" => differential::run(&rest),
        "contention" => contention::run(&rest),
        "fleet" => fleet::run(&rest),
        "paused" => fleet::paused(&rest),
        "race" => race::run(&rest),
        "model" => model::run(&rest),
        "mixed" => python::mixed(&rest),
        "tiers" => tiers::run(&rest),
        "trace" => trace::run(&rest),
        "postgres" => postgres::run(&rest),
        "proofs" => proofs::run(&rest),
        "house" => house::run(&rest),
        "ways" => ways::run(&rest),
        "features" => features::run(&rest),
        "deny" => deny::run(&rest),
        "package" => package::run(&rest),
        "wheels" => wheels::run(&rest),
        "book" => book::run(&rest),
        "openapi" => openapi::run(&rest),
        command => Err(unknown(command)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HELP, help};

    /// `bench --help` built the peers first; others took it for an argument.
    #[test]
    fn every_command_prints_its_help_and_builds_nothing() {
        let commands = HELP
            .lines()
            .filter_map(|line| line.strip_prefix("cargo xtask "));
        let commands: Vec<_> = commands.filter_map(|line| line.split(' ').next()).collect();
        assert!(commands.len() > 10);
        for command in commands {
            let said = help(command, &["--help".to_owned()]).expect(command);
            assert!(said.contains(command) || command == "bench", "{said}");
        }
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            help("bench", &words).unwrap_or_default()
        };
        assert!(of(&["--help"]).contains("--rounds N"));
        assert!(of(&["server", "--help"]).contains("cargo xtask bench server"));
        assert!(of(&["stores", "--only", "redis", "-h"]).contains("cargo xtask bench stores"));
        assert_eq!(help("bench", &["server".to_owned()]), None);
        assert_eq!(help("nothing", &["--help".to_owned()]), None);
    }
}
