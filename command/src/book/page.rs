//! The pages, their fences and links.

use std::path::{Path, PathBuf};

/// A page, by its path in the repository.
pub struct Page {
    pub path: String,
    pub text: String,
}

/// A fenced block, and the line that it begins on.
pub struct Fence {
    pub line: usize,
    pub language: String,
    pub text: String,
}

/// The pages beside the book.
const BESIDE: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

/// The book's pages, and those beside it.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<_> = BESIDE.iter().map(|path| (*path).to_owned()).collect();
    collect("docs", &mut paths);
    let page = |path: String| Page {
        text: repository(&path),
        path,
    };
    paths.into_iter().map(page).collect()
}

fn collect(folder: &str, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name of text");
        let path = format!("{folder}/{name}");
        if entry.file_type().expect("a type").is_dir() {
            collect(&path, paths);
        } else if name.ends_with(".md") {
            paths.push(path);
        }
    }
}

/// Where the repository is.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file of the repository.
pub fn repository(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

impl Page {
    /// Its fenced blocks.
    pub fn fences(&self) -> Vec<Fence> {
        let mut fences = Vec::new();
        let mut open: Option<Fence> = None;
        for (number, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Fence {
                        line: number + 1,
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => fences.extend(open.take()),
                (None, Some(fence)) => fence.text.extend([line, "\n"]),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a fence is not closed", self.path);
        fences
    }

    /// Its lines outside of fences.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_fenced = false;
        self.text.lines().filter(move |line| {
            let is_edge = line.trim_start().starts_with("```");
            is_fenced ^= is_edge;
            !is_fenced && !is_edge
        })
    }

    /// Where its links lead, but for other sites.
    pub fn links(&self) -> Vec<String> {
        let targets = self.prose().flat_map(|line| line.split("](").skip(1));
        let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
        targets.filter(|target| !target.contains("://")).collect()
    }

    /// What is wrong with one of them.
    pub fn fault_of_link(&self, link: &str, pages: &[Page]) -> Option<String> {
        let (target, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = match target.is_empty() {
            true => self.path.clone(),
            false => self.beside(target),
        };
        let is_of_book = |path: &str| path.starts_with("docs/");
        if is_of_book(&self.path) && !is_of_book(&path) {
            return Some("a link of the book leads out of it".to_owned());
        }
        if !root().join(&path).exists() {
            return Some(format!("there is no {path}"));
        }
        let page = pages.iter().find(|page| page.path == path);
        let is_missing =
            |page: &Page| !heading.is_empty() && !page.headings().contains(&heading.to_owned());
        page.is_some_and(is_missing)
            .then(|| format!("{path} has no such heading"))
    }

    /// The path of `target`, as seen from this page.
    fn beside(&self, target: &str) -> String {
        let mut parts: Vec<_> = self.path.split('/').collect();
        parts.pop();
        for part in target.split('/') {
            match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    /// Its headings, as links name them.
    fn headings(&self) -> Vec<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        let named = |line: &str| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        };
        headings.map(named).collect()
    }
}
