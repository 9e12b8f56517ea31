//! What a shell and `man` want to know of the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{Exit, Outcome, Stop};
use super::print;

/// Completions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bash:  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  zsh:   tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  fish:  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Manual pages.
#[derive(Debug, Args)]
pub struct Man {
    /// Write a page for each command into this folder, made if it is not there;
    /// without it, the first page is printed
    folder: Option<PathBuf>,
}

impl Completions {
    /// Prints them.
    pub fn perform(&self, mut whole: Command) -> Outcome<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "tidegate", &mut script);
        print(&script)
    }
}

impl Man {
    /// Prints or writes them.
    pub fn perform(&self, whole: Command) -> Outcome<Exit> {
        let Some(folder) = &self.folder else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(whole).render(&mut page);
            rendered.map_err(Stop::failed)?;
            return print(&page);
        };
        write_all(whole, folder).map_err(|error| {
            let folder = folder.display();
            Stop::failed(format!("cannot write manual pages to {folder}: {error}"))
        })?;
        Ok(Exit::Done)
    }
}

fn write_all(whole: Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(whole, folder)
}

fn print(text: &[u8]) -> Outcome<Exit> {
    print::print(&String::from_utf8_lossy(text))?;
    Ok(Exit::Done)
}
