//! What the pages show is what there is: every fence of the book and of the pages beside it
//! is read by whatever reads it in use, and every link leads somewhere.
//!
//! | file | holds |
//! |---|---|
//! | [`facts`] | lists of pages beside those of the programs |
//! | [`messages`] | what logs and errors say, as the page of messages quotes it |
//! | [`page`] | the pages, their fences and links |
//! | [`shell`] | lines of a shell, as words |
//! | [`typed`] | commands, as their own program reads them |
//!
//! Deliberately absent: running them (`tests/client/pages.rs` does, where a server as it
//! comes is enough) and compiling Rust (`tidegate` and `tidegate-conformance` include the
//! pages as documentation; here it is checked that they do).

mod facts;
mod messages;
mod page;
mod shell;
mod typed;

use page::{Fence, Page, pages, repository};

#[test]
fn every_fence_is_what_it_says_it_is() {
    let (mut read, mut wrong) = (0, Vec::new());
    for page in pages() {
        for fence in page.fences() {
            let fault = fault(&page, &fence);
            wrong.extend(fault.map(|fault| format!("{}:{}: {fault}", page.path, fence.line)));
            read += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 60, "{read}");
}

/// What is wrong with it.
fn fault(page: &Page, fence: &Fence) -> Option<String> {
    match fence.language.as_str() {
        "sh" => typed::script(&fence.text).err(),
        "console" => typed::script(&prompted(&fence.text)).err(),
        "toml" | "yaml" => policies(fence).err(),
        "json" => json(&fence.text).err(),
        "rust" | "rust,no_run" => is_compiled(page).err(),
        "sql" | "lua" | "python" => is_executed(page).err(),
        // Answers and pictures.
        "text" | "mermaid" => None,
        other => Some(format!("nothing reads fences of `{other}`")),
    }
}

/// What somebody types behind a prompt; the rest is what is answered.
fn prompted(text: &str) -> String {
    let typed = text.lines().filter_map(|line| line.strip_prefix("$ "));
    typed.collect::<Vec<_>>().join("\n")
}

fn policies(fence: &Fence) -> Result<(), String> {
    let name = format!("line-{}.{}", fence.line, fence.language);
    if fence.text.contains("[entity.") || fence.text.contains("[[override]]") {
        let read = tidegate_policy::parse_desired(&name, &fence.text);
        return read.map(drop).map_err(|errors| errors.to_string());
    }
    let read = tidegate_server::configuration::parse(&name, &fence.text);
    read.map(drop).map_err(|errors| errors.to_string())
}

fn json(text: &str) -> Result<(), String> {
    let read = serde_json::from_str::<serde_json::Value>(text);
    read.map(drop).map_err(|error| error.to_string())
}

/// The crates whose documentation has the pages with Rust in them.
const COMPILED: [&str; 2] = ["tidegate/src/lib.rs", "proof/conformance/src/lib.rs"];

fn is_compiled(page: &Page) -> Result<(), String> {
    let included = format!("/{}\")]", page.path);
    let mut crates = COMPILED.iter().map(|path| repository(path));
    match crates.any(|text| text.contains(&included)) {
        true => Ok(()),
        false => Err(format!("no crate of {COMPILED:?} includes the page")),
    }
}

/// The tests that execute what pages show in other languages.
const EXECUTED: [(&str, &str); 8] = [
    ("README.md", "python/tests/test_pages.py"),
    ("docs/python.md", "python/tests/test_pages.py"),
    ("docs/python/client.md", "python/tests/test_pages.py"),
    ("docs/python/workers.md", "python/tests/test_pages.py"),
    ("docs/python/frameworks/*.md", "python/tests/test_pages.py"),
    (
        "docs/reference/locks.md",
        "proof/contention/tests/locks/page.rs",
    ),
    ("docs/stores/postgres.md", "stores/postgres/tests/schema.rs"),
    ("docs/stores/mariadb.md", "stores/mysql/tests/grants.rs"),
];

fn is_executed(page: &Page) -> Result<(), String> {
    let mut tests = EXECUTED
        .iter()
        .filter(|(path, _)| match path.strip_suffix("*.md") {
            Some(folder) => page.path.starts_with(folder),
            None => *path == page.path,
        });
    match tests.any(|(path, test)| repository(test).contains(path)) {
        true => Ok(()),
        false => Err("no test executes it".to_owned()),
    }
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let pages = pages();
    let (mut followed, mut wrong) = (0, Vec::new());
    for page in &pages {
        for link in page.links() {
            let fault = page.fault_of_link(&link, &pages);
            wrong.extend(fault.map(|fault| format!("{}: {link}: {fault}", page.path)));
            followed += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 60, "{followed}");
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md");
    let summary = summary.expect("a summary").text.clone();
    let chapters = pages
        .iter()
        .filter_map(|page| page.path.strip_prefix("docs/"));
    for chapter in chapters.filter(|chapter| *chapter != "SUMMARY.md") {
        assert!(summary.contains(&format!("]({chapter})")), "{chapter}");
    }
}
