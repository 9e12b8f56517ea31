//! The pages of `docs/` as a book to read in a browser.

use crate::command::{self, output, program, target_directory};

/// `cargo xtask book`: by mdBook, which is no part of what the tests need.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("cargo xtask book takes no arguments".to_owned());
    }
    if output(program("mdbook").arg("--version")).is_none() {
        return Err(
            "mdbook is not installed: `cargo install mdbook --locked` takes some minutes; \
             a built one: https://github.com/rust-lang/mdBook/releases"
                .to_owned(),
        );
    }
    let book = target_directory().join("book");
    command::run(
        program("mdbook")
            .args(["build", "docs", "--dest-dir"])
            .arg(&book),
    )?;
    println!("{}", book.join("index.html").display());
    Ok(())
}
