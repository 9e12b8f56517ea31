//! Which server, and who asks: the same words in every command.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Outcome, Stop};
use super::server::Client;
use super::tls::ClientTls;

/// Where a server is if nobody says otherwise.
pub const USUAL: &str = "http://127.0.0.1:7400";

/// Which server, and who asks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The server")]
pub struct Options {
    /// Its address, over HTTP
    #[arg(long, value_name = "URL", env = "TIDEGATE_SERVER", default_value = USUAL)]
    pub server: String,

    #[command(flatten)]
    pub token: Credential,

    /// The namespace to ask in; a token for one is in that one anyway
    #[arg(long, value_name = "NAME", env = "TIDEGATE_NAMESPACE")]
    pub namespace: Option<String>,

    #[command(flatten)]
    pub tls: ClientTls,
}

/// Who asks.
#[derive(Clone, Debug, Args)]
pub struct Credential {
    /// The token to authenticate with
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,

    /// A file whose first line is the token; takes precedence over --token
    /// and over the environment
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Options {
    /// The server, to be asked once: whoever types a command is told at once, and types it again.
    pub fn connect(&self) -> Outcome<Client> {
        self.connect_with(0)
    }

    /// The server, asked again so many times while it cannot be reached.
    pub fn connect_with(&self, retries: u32) -> Outcome<Client> {
        let namespace = self.namespace.as_deref().filter(|name| !name.is_empty());
        let who = (self.token.read()?, namespace);
        Client::new(&self.server, who, &self.tls, retries)
    }
}

impl Credential {
    /// The token, if one is said.
    ///
    /// # Errors
    /// A file that cannot be read, or has none.
    pub fn read(&self) -> Outcome<Option<String>> {
        match &self.token_file {
            Some(path) => first_line(path).map(Some),
            None => Ok(self.token.clone().filter(|token| !token.is_empty())),
        }
    }
}

fn first_line(path: &Path) -> Outcome<String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Stop::usage(format!("--token-file {shown}: cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default().trim();
    match line.is_empty() {
        true => Err(Stop::usage(format!(
            "--token-file {shown}: its first line holds no token; `tidegate token NAME` makes one"
        ))),
        false => Ok(line.to_owned()),
    }
}
