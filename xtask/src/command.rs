//! Running programs from the repository's root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root, wherever the command was typed.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where build products go.
pub fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// The same cargo that runs us, at the root.
pub fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(arguments);
    command
}

/// Any program, at the root.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Runs it with our output; an error is a sentence.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command
        .status()
        .map_err(|error| format!("cannot run {shown}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("failed ({status}): {shown}"))
    }
}

/// What it prints, or nothing if it fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Whether a program that was built is newer than each file of the repository that is compiled.
pub fn is_current(built: &Path) -> bool {
    let made = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (Some(at), Some(tracked)) = (
        made(built),
        output(program("git").args(["ls-files", ":!docs", ":!*.md", ":!*.py"])),
    ) else {
        return false;
    };
    let files = tracked.lines().map(|file| root().join(file));
    files.filter_map(|file| made(&file)).all(|made| made <= at)
}

/// As one would type it, with the variables that it sets.
pub fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!(
            "{}={:?}",
            name.to_string_lossy(),
            value?.to_string_lossy()
        ))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    variables.chain(words).collect::<Vec<_>>().join(" ")
}
