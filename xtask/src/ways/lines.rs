//! How much code that is not a test.

use std::fs;
use std::path::Path;

/// What is shipped and holds what the first rooms held, by the names that its folders have, or had.
const FIRST: [&str; 12] = [
    "core",
    "store",
    "stores",
    "engine",
    "tidegate",
    "policy",
    "service",
    "doors",
    "protocols",
    "cli",
    "command",
    "server",
];

/// What came beside them.
const LATER: [&str; 4] = ["client", "llm", "gateway", "python"];

/// Folders of a crate that are no part of it.
const ASIDE: [&str; 4] = ["tests", "examples", "benches", "target"];

/// Lines that are neither blank, a comment nor a test, of every part; 0 if it is not there.
pub fn of(root: &Path) -> Result<Vec<(&'static str, usize)>, String> {
    let part = |part| {
        let folder = root.join(part);
        let lines = match folder.exists() {
            true => in_folder(&folder)?,
            false => 0,
        };
        Ok((part, lines))
    };
    FIRST.into_iter().chain(LATER).map(part).collect()
}

/// Whether a part holds what the first rooms held, and not what came beside them.
pub fn is_of_the_first(part: &str) -> bool {
    FIRST.contains(&part)
}

fn in_folder(folder: &Path) -> Result<usize, String> {
    let wrong = |error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    let tests = test_modules(&paths);
    let is_test = |path: &Path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        ASIDE.contains(&&*name) || tests.iter().any(|test| *test == *name)
    };
    let counted = paths.iter().filter(|path| !is_test(path));
    counted.map(|path| one(path)).sum()
}

fn one(path: &Path) -> Result<usize, String> {
    if path.is_dir() {
        return in_folder(path);
    }
    let comment = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => "//",
        Some("lua" | "sql") => "--",
        _ => return Ok(0),
    };
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(in_text(&text, comment))
}

/// The modules that the files of a folder declare for tests alone.
fn test_modules(files: &[std::path::PathBuf]) -> Vec<String> {
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts.flat_map(|text| declared_for_tests(&text)).collect()
}

fn declared_for_tests(text: &str) -> Vec<String> {
    let lines = text.lines().zip(text.lines().skip(1));
    let declared = lines.filter_map(|(attribute, module)| {
        let name = module.trim().strip_prefix("mod ")?.strip_suffix(';')?;
        is_for_tests(attribute).then(|| name.to_owned())
    });
    declared.collect()
}

fn is_for_tests(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("#[cfg(test)") || line.starts_with("#[cfg(all(test")
}

/// Code, without what stands under `#[cfg(test)]`: to its closing brace, in the column
/// where it began, or to the end of its line.
fn in_text(text: &str, comment: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if is_for_tests(line) {
            let column = line.len() - line.trim_start().len();
            let end = format!("{}}}", &line[..column]);
            let is_over = |line: &str| line.starts_with(&end) || line.ends_with(';');
            let mut head = lines.find(|line| !line.trim_start().starts_with("#["));
            while let Some(line) = head.filter(|line| !is_over(line)) {
                head = match line.ends_with('{') {
                    true => lines.find(|line| line.starts_with(&end)),
                    false => lines.next(),
                };
            }
            continue;
        }
        let line = line.trim();
        count += usize::from(!line.is_empty() && !line.starts_with(comment));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_room_that_is_shipped_is_counted() {
        let parts = of(&crate::command::root()).expect("the parts");
        let counted = |room: &str| {
            parts
                .iter()
                .any(|(part, lines)| *part == room && *lines > 0)
        };
        let members = crate::manifest::members().expect("the workspace");
        for member in members {
            let room = member.folder.split('/').next().unwrap_or_default();
            let is_shipped = !["proof", "xtask", "examples"].contains(&room);
            assert_eq!(counted(room), is_shipped, "{room}");
        }
        assert!(counted("python"));
    }

    #[test]
    fn tests_comments_and_blank_lines_are_no_code() {
        let text = "//! Head.\n\nuse a::b;\n\n/// Docs.\nfn one() {\n    two(); // said\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    #[test]\n    fn it() {}\n}\n\
                    #[cfg(test)]\nmod apart;\nconst LAST: u8 = 1;\n";
        assert_eq!(in_text(text, "//"), 5);
        assert_eq!(declared_for_tests(text), ["apart"]);
    }
}
