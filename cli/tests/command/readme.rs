//! What the README shows is what its commands do.

use crate::common::{Folder, repository, tidegate_at};

/// The words of the README's first command, behind `tidegate-cli --`.
fn first_command() -> Vec<String> {
    let readme = std::fs::read_to_string(repository("README.md")).expect("a README");
    let block = readme.split("```sh\n").nth(1).expect("a block of commands");
    let line = block.replace("\\\n", " ");
    let line = line.lines().next().expect("a command");
    let (_, arguments) = line.split_once(" -- ").expect("cargo run ... -- ...");
    arguments.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_picture_in_docs_is_what_the_first_command_draws() {
    let folder = Folder::new();
    let drawn = folder.path("replay.svg").display().to_string();
    let mut arguments = first_command();
    let plot = arguments.iter().position(|word| word == "--plot");
    arguments[plot.expect("it draws") + 1] = drawn;
    let ran = tidegate_at(&repository(""), &arguments);
    assert_eq!(ran.code, 0, "{}", ran.error);
    let shown = std::fs::read_to_string(repository("docs/replay.svg")).expect("a picture");
    assert!(
        folder.read("replay.svg") == shown,
        "docs/replay.svg is not what the README's first command draws; \
         run that command with `--plot docs/replay.svg`"
    );
}
