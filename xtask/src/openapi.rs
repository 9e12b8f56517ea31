//! The document of the HTTP API: `protocols/http/openapi.json`, written anew.

use crate::command::{self, cargo};

/// By the test that otherwise compares the file with what the types say.
const TEST: &str = "openapi::document::tests::the_file_is_the_document_of_the_types";

/// `cargo xtask openapi`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("cargo xtask openapi takes no arguments".to_owned());
    }
    let mut command = cargo(["test", "-p", "tidegate-http", "--lib", "--", TEST]);
    command::run(command.env("TIDEGATE_WRITE_OPENAPI", "1"))
}
