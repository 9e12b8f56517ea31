//! What the README shows is what its commands do.

use crate::common::{Folder, repository, tidegate_at};

/// The words of the README's replay, behind `tidegate-cli --`.
fn replay_command() -> Vec<String> {
    let readme = std::fs::read_to_string(repository("README.md")).expect("a README");
    let joined = readme.replace("\\\n", " ");
    let mut lines = joined.lines();
    let line = lines.find(|line| line.contains(" -- replay "));
    let (_, arguments) = line
        .and_then(|line| line.split_once(" -- "))
        .expect("a replay");
    arguments.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_picture_in_docs_is_what_the_replay_draws() {
    let folder = Folder::new();
    let drawn = folder.path("replay.svg").display().to_string();
    let mut arguments = replay_command();
    let plot = arguments.iter().position(|word| word == "--plot");
    arguments[plot.expect("it draws") + 1] = drawn;
    let ran = tidegate_at(&repository(""), &arguments);
    assert_eq!(ran.code, 0, "{}", ran.error);
    let shown = std::fs::read_to_string(repository("docs/replay.svg")).expect("a picture");
    assert!(
        folder.read("replay.svg") == shown,
        "docs/replay.svg is not what the README's replay draws; \
         run that command with `--plot docs/replay.svg`"
    );
}
