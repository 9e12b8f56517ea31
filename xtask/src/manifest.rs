//! The workspace's manifests, read by hand: this program has no dependencies.

use std::fs;

use crate::command::root;

/// One crate of the workspace.
pub struct Manifest {
    pub folder: String,
    pub name: String,
    text: String,
}

/// What a published crate says of itself.
#[cfg(test)]
const REQUIRED: &[&str] = &[
    "description",
    "documentation",
    "keywords",
    "categories",
    "readme",
    "rust-version",
    "license",
];

/// All crates of the workspace, as its manifest lists them.
pub fn members() -> Result<Vec<Manifest>, String> {
    let workspace = read("Cargo.toml")?;
    let list = section(&workspace, "workspace");
    let list = list.skip_while(|line| !line.starts_with("members"));
    let folders = list
        .skip(1)
        .map_while(|line| line.trim().strip_prefix('"'))
        .filter_map(|line| line.split('"').next());
    folders.map(Manifest::of).collect()
}

/// Those that are meant for crates.io.
pub fn published() -> Result<Vec<Manifest>, String> {
    let members = members()?.into_iter();
    Ok(members.filter(Manifest::is_published).collect())
}

impl Manifest {
    fn of(folder: &str) -> Result<Manifest, String> {
        let text = read(&format!("{folder}/Cargo.toml"))?;
        let folder = folder.to_owned();
        let name = value(&text, "package", "name").ok_or(format!("{folder} has no name"))?;
        Ok(Manifest { folder, name, text })
    }

    /// What `[package]` says of a name; `workspace` if it refers to the workspace's.
    pub fn package(&self, name: &str) -> Option<String> {
        value(&self.text, "package", &format!("{name}.workspace"))
            .map(|_| "workspace".to_owned())
            .or_else(|| value(&self.text, "package", name))
    }

    pub fn is_published(&self) -> bool {
        self.package("publish").as_deref() != Some("false")
    }

    /// A crate that only holds a program is no library.
    pub fn is_library(&self) -> bool {
        root().join(&self.folder).join("src/lib.rs").is_file()
    }

    /// The names in `[features]`.
    pub fn features(&self) -> Vec<String> {
        let names =
            section(&self.text, "features").filter(|line| !line.starts_with([' ', '#', ']']));
        let names = names.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()));
        names.collect()
    }
}

/// A file of the repository.
pub fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// What a name stands for in a section of a manifest, without its quotes.
pub fn value(text: &str, of: &str, name: &str) -> Option<String> {
    let mut pairs = section(text, of).filter_map(|line| line.split_once('='));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// The lines from `[name]` to the next section.
fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("[{name}]");
    let lines = text.lines().skip_while(move |line| *line != head);
    lines.skip(1).take_while(|line| !line.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::{REQUIRED, members, published};

    #[test]
    fn every_published_crate_says_what_crates_io_shows() {
        let published = published().expect("manifests");
        assert!(published.len() > 10);
        for manifest in published {
            let lacks = REQUIRED.iter().filter(|name| {
                let value = manifest.package(name);
                value.is_none_or(|value| value.is_empty() || value == "[]")
            });
            let lacks: Vec<_> = lacks.collect();
            assert!(lacks.is_empty(), "{} lacks {lacks:?}", manifest.name);
        }
    }

    #[test]
    fn a_published_crate_imports_others_by_a_version() {
        let workspace = super::read("Cargo.toml").expect("it is there");
        for manifest in published().expect("manifests") {
            let by_path = |line: &&str| line.starts_with("tidegate") && line.contains("path");
            let by_path: Vec<_> = manifest.text.lines().filter(by_path).collect();
            assert!(by_path.is_empty(), "{}: {by_path:?}", manifest.folder);
            let line = format!("{} = {{ path", manifest.name);
            let line = workspace.lines().find(|l| l.starts_with(&line));
            assert!(line.is_none_or(|line| line.contains("version")), "{line:?}");
        }
    }

    #[test]
    fn a_crate_that_is_not_published_is_imported_without_a_version() {
        // Cargo leaves such a dev-dependency out of what it packs.
        let workspace = super::read("Cargo.toml").expect("it is there");
        for manifest in members().expect("manifests") {
            let line = format!("{} = {{ path", manifest.name);
            let line = workspace.lines().find(|l| l.starts_with(&line));
            let has_version = line.is_some_and(|line| line.contains("version"));
            assert!(!has_version || manifest.is_published(), "{line:?}");
        }
    }

    #[test]
    fn features_are_read_without_their_comments() {
        let members = members().expect("manifests");
        let of = |name| {
            members
                .iter()
                .find(|m| m.name == name)
                .expect("it is there")
        };
        assert_eq!(
            of("tidegate").features(),
            ["default", "memory", "tokio", "tower"]
        );
        assert!(of("tidegate-cli").features().contains(&"otlp".to_owned()));
        assert!(!of("tidegate-cli").is_library());
        assert!(!of("xtask").is_published());
    }
}
