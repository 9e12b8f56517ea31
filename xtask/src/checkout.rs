//! A commit, in a folder of its own while it is built and counted.

use std::path::{Path, PathBuf};

use crate::command::{self, output, program, target_directory};

/// A git worktree, removed when this is dropped.
pub struct Checkout {
    name: String,
    folder: PathBuf,
}

impl Checkout {
    /// `commit` as git knows it.
    pub fn of(commit: &str) -> Result<Self, String> {
        let short = output(program("git").args(["rev-parse", "--short", "--verify", commit]));
        let name = short.ok_or_else(|| format!("git knows no commit {commit:?}"))?;
        let name = name.trim().to_owned();
        let folder = build_directory().join(format!("at-{name}-{}", std::process::id()));
        let mut add = program("git");
        add.args(["worktree", "add", "--quiet", "--detach"]);
        command::run(add.arg(&folder).arg(&name))?;
        Ok(Self { name, folder })
    }

    /// The commit, in short.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let mut remove = program("git");
        remove.args(["worktree", "remove", "--force"]);
        if output(remove.arg(&self.folder)).is_none() {
            eprintln!("cannot remove the worktree {}", self.folder.display());
        }
    }
}

/// Where all is built, for every commit.
pub fn build_directory() -> PathBuf {
    target_directory().join("ways")
}
