//! The server's file, or the example.

use std::path::Path;

use tidegate_policy::{Config, PolicyErrors, parse_config_for};

use crate::store;
use crate::trouble::{Outcome, Trouble};

/// What is served without a file.
pub const EXAMPLE: &str = include_str!("example.toml");

/// What a gateway goes by without one.
pub const GATEWAY: &str = include_str!("gateway.example.toml");

/// Reads the file, as a whole, or the `example`.
pub fn read(path: Option<&Path>, example: &str) -> Outcome<Config> {
    let (name, text) = match path {
        None => ("the built-in example".to_owned(), example.to_owned()),
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Trouble::file("read", path, error))?;
            (path.to_string_lossy().into_owned(), text)
        }
    };
    parse(&name, &text).map_err(Trouble::failure)
}

/// Reads a server's file from its text, for this program's stores.
pub fn parse(name: &str, text: &str) -> Result<Config, PolicyErrors> {
    parse_config_for(name, text, &store::fault)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_examples_are_sound() {
        for (example, name) in [(super::EXAMPLE, "example"), (super::GATEWAY, "llm")] {
            let config = super::read(None, example).unwrap();
            assert_eq!(config.policies.policies[0].name, name);
            assert!(config.credentials.is_empty());
        }
    }
}
