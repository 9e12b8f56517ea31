//! A store beside a plain reference, random command by command.

use crate::command::{self, cargo};

/// The store whose test is an example of its own crate.
const DYNAMODB: &str = "dynamodb";

/// `cargo xtask differential [--commands N] [--seed N] [--store NAME] [--clients N]`: the
/// arguments are the example's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (package, example, arguments) = match of_dynamodb(arguments) {
        Some(others) => ("tidegate-dynamodb", "dynamodb_differential", others),
        None => ("tidegate-conformance", "differential", arguments.to_vec()),
    };
    let mut run = cargo(["run", "--quiet", "--release"]);
    run.args(["--package", package, "--example", example, "--"]);
    command::run(run.args(arguments))
}

/// The arguments beside `--store dynamodb`, if it is among them.
fn of_dynamodb(arguments: &[String]) -> Option<Vec<String>> {
    let said = |pair: &[String]| pair[0] == "--store" && pair[1] == DYNAMODB;
    let at = arguments.windows(2).position(said)?;
    Some([&arguments[..at], &arguments[at + 2..]].concat())
}

#[cfg(test)]
mod tests {
    use super::of_dynamodb;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_asked_of_dynamodb_goes_to_its_own_example() {
        let of = |line| of_dynamodb(&words(line));
        assert_eq!(of("--store redis --seed 3"), None);
        let others = Some(words("--seed 3 --commands 9"));
        assert_eq!(of("--seed 3 --store dynamodb --commands 9"), others);
        assert_eq!(of("--store"), None);
    }
}
