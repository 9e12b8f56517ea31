//! Policy files, found sound or told what is wrong with them.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tidegate_policy::{
    Config, Credential, DEFAULT_NAMESPACE, PolicyErrors, PolicyFile, RESERVED, ServerSettings,
    parse,
};

use crate::output;
use crate::shape::json_of;
use tidegate_server::trouble::{Outcome, Trouble};
use tidegate_server::{Terms, configuration};

/// A file that was looked at.
pub struct Read {
    path: PathBuf,
    found: Found,
}

enum Found {
    /// What it says, and what a server here would still miss.
    Sound(Box<Config>, Option<String>),
    Faulty(PolicyErrors),
    Unreadable(String),
    /// No gateway can go by it.
    Unservable(String),
}

impl Read {
    /// Whether nothing is wrong with it.
    pub const fn is_sound(&self) -> bool {
        matches!(self.found, Found::Sound(..))
    }

    /// The same; sound only if a gateway could go by its `policy`.
    pub fn for_gateway(self, policy: &str, terms: &Terms) -> Self {
        let Found::Sound(config, _) = &self.found else {
            return self;
        };
        match terms.check(config, policy) {
            Ok(()) => self,
            Err(why) => Self {
                found: Found::Unservable(format!(
                    "{}: no gateway can go by it: {why}",
                    self.path.display()
                )),
                path: self.path,
            },
        }
    }
}

/// Reads a file: a server's own, or one that has policies alone.
pub fn read(path: &Path) -> Read {
    let found = match text(path) {
        Err(trouble) => Found::Unreadable(trouble.to_string()),
        Ok(text) => match configuration::parse(&path.to_string_lossy(), &text) {
            Ok(config) => {
                let note = note(&config);
                Found::Sound(Box::new(config), note)
            }
            Err(errors) => Found::Faulty(errors),
        },
    };
    Read {
        path: path.to_owned(),
        found,
    }
}

/// What a file says that is to be sound.
pub fn sound(path: &Path) -> Outcome<Config> {
    match read(path).found {
        Found::Sound(config, _) => Ok(*config),
        Found::Faulty(errors) => Err(Trouble::failure(errors)),
        Found::Unreadable(message) | Found::Unservable(message) => Err(Trouble::failure(message)),
    }
}

/// Policies as they are sent to a server.
pub struct Sent {
    /// What its language goes by.
    pub name: String,
    /// The file as it is, or what it says of policies.
    pub text: String,
    /// What the file has beside, which is left out: each with why.
    pub left_out: Vec<String>,
}

/// The policies of a file that is to be sound, without a server's settings, tokens, prices and weights.
pub fn to_be_sent(path: &Path) -> Outcome<Sent> {
    let (name, text) = (path.to_string_lossy().into_owned(), text(path)?);
    if parse(&name, &text).is_ok() {
        return Ok(Sent {
            name,
            text,
            left_out: Vec::new(),
        });
    }
    let config = configuration::parse(&name, &text).map_err(Trouble::failure)?;
    let policies = config
        .policies
        .policies
        .iter()
        .map(|policy| (policy.name.clone(), json_of(&policy.shape)));
    let policies: Map<String, Value> = policies.collect();
    Ok(Sent {
        // JSON is YAML.
        name: "policies.json".to_owned(),
        text: json!({"policy": policies}).to_string(),
        left_out: left_out(&config),
    })
}

/// What a file has that is no policy, in words that say why it is not sent.
fn left_out(config: &Config) -> Vec<String> {
    let settings = [
        ("[server]", config.server != ServerSettings::default()),
        ("[[token]]", !config.credentials.is_empty()),
    ];
    let settings = settings.iter().filter(|(_, is_there)| *is_there);
    let settings: Vec<_> = settings.map(|(name, _)| *name).collect();
    let mut notes = Vec::new();
    if !settings.is_empty() {
        let are = if settings.len() > 1 { "are" } else { "is" };
        notes.push(format!(
            "{} {are} not sent: the server has its own, in its own file",
            settings.join(" and ")
        ));
    }
    notes.extend(costs_left_out(config));
    notes
}

/// Why prices and weights are no part of what is sent, if the file has some.
pub fn costs_left_out(config: &Config) -> Vec<String> {
    let notes = [
        (
            !config.prices.is_empty(),
            "[price] is not sent: the server goes by the prices of its own file",
        ),
        (
            !config.weights.is_empty(),
            "[token-weight] is not sent: the server goes by the weights of its own file",
        ),
    ];
    let notes = notes.iter().filter(|(is_there, _)| *is_there);
    notes.map(|(_, note)| (*note).to_owned()).collect()
}

/// What a file may mean, and probably does not.
fn note(config: &Config) -> Option<String> {
    let notes: Vec<_> = folder_away(&config.server)
        .into_iter()
        .chain(tokens_for_missing_policies(config))
        .collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Tokens for policies that the file does not have; they may be applied later.
fn tokens_for_missing_policies(config: &Config) -> impl Iterator<Item = String> {
    let is_there = |name: &str| name == RESERVED || config.policies.get(name).is_some();
    let of_no_namespace = |of: &&Credential| {
        of.namespace
            .as_deref()
            .is_none_or(|name| name == DEFAULT_NAMESPACE)
    };
    let tokens = config.credentials.iter().filter(of_no_namespace);
    tokens.flat_map(move |token| {
        let missing = token.whole_names().filter(move |name| !is_there(name));
        missing.map(|name| {
            format!(
                "token `{}` is for policy `{name}`, which is not in this file (it may be applied later)",
                token.name
            )
        })
    })
}

/// What is there where the file is served, perhaps, but not here.
fn folder_away(server: &ServerSettings) -> Option<String> {
    let audit = Path::new(server.audit.as_ref()?);
    let folder = audit.parent().filter(|folder| *folder != Path::new(""))?;
    (!folder.is_dir()).then(|| {
        let folder = folder.display();
        format!(
            "`audit`: the folder {folder} is not on this machine; a server needs it at its start"
        )
    })
}

fn text(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|error| Trouble::file("read", path, error))
}

/// Every fault on standard error; a line for each sound file on the output.
pub fn tell(files: &[Read]) -> Outcome<()> {
    let mut errors = std::io::stderr().lock();
    for Read { path, found } in files {
        let told = match found {
            Found::Sound(config, note) => {
                let of = |file: &PolicyFile| file.names().collect::<Vec<_>>().join(", ");
                let mut names = of(&config.policies);
                for (namespace, file) in &config.namespaces {
                    names += &format!("; namespace {namespace}: {}", of(file));
                }
                if let Some(note) = note {
                    writeln!(errors, "warning: {}: {note}", path.display())
                        .map_err(Trouble::failure)?;
                }
                let sound = format!("{}: sound ({})\n", path.display(), names);
                output::print(&sound).map(drop)
            }
            Found::Faulty(faults) => writeln!(errors, "error: {faults}\n"),
            Found::Unreadable(message) | Found::Unservable(message) => {
                writeln!(errors, "error: {message}\n")
            }
        };
        told.map_err(Trouble::failure)?;
    }
    Ok(())
}

/// The same for programs: `{"files": [{"file", "policies", "namespaces" | "faults" | "error", "warning"}]}`.
pub fn json(files: &[Read]) -> Value {
    let files = files.iter().map(|Read { path, found }| {
        let mut file = json!({"file": path.to_string_lossy(), "sound": false});
        match found {
            Found::Sound(config, note) => {
                if let Some(note) = note {
                    file["warning"] = note.as_str().into();
                }
                file["sound"] = true.into();
                file["policies"] = config.policies.names().collect();
                let of =
                    |(name, file): &(String, PolicyFile)| (name.clone(), file.names().collect());
                let namespaces: Map<String, Value> = config.namespaces.iter().map(of).collect();
                if !namespaces.is_empty() {
                    file["namespaces"] = namespaces.into();
                }
            }
            Found::Faulty(errors) => file["faults"] = errors.faults().iter().map(fault).collect(),
            Found::Unreadable(message) | Found::Unservable(message) => {
                file["error"] = message.as_str().into();
            }
        }
        file
    });
    json!({"files": files.collect::<Vec<_>>()})
}

fn fault(fault: &tidegate_policy::Fault) -> Value {
    json!({
        "line": fault.line,
        "column": fault.column,
        "message": fault.message,
        "help": fault.help,
    })
}

#[cfg(test)]
mod tests {
    use super::{configuration, left_out, note};

    const POLICY: &str = "[policy.p.limits]\nrpm = { calls = 1, per = '1s' }\n";
    const PRICE: &str = "[price]\na = { input = 1, output = 1 }\n";
    const WEIGHT: &str = "[token-weight]\na = { output = 5 }\n";
    const SERVER: &str = "[server]\nhttp = 'off'\n";

    fn notes(beside: &[&str]) -> Vec<String> {
        let text = [POLICY, &beside.concat()].concat();
        let config = configuration::parse("t.toml", &text);
        left_out(&config.unwrap_or_else(|errors| panic!("{errors}")))
    }

    #[test]
    fn a_token_for_a_policy_that_is_not_there_is_warned_of() {
        let token = |policies: &str| {
            let sha256 = "ab".repeat(32);
            format!("[[token]]\nname = 'a'\nsha256 = '{sha256}'\nscopes = ['decide']\n{policies}")
        };
        let of = |policies: &str| {
            let text = [POLICY, &token(policies)].concat();
            note(&configuration::parse("t.toml", &text).expect("a sound file"))
        };
        assert_eq!(of(""), None);
        assert_eq!(of("policies = ['p', 'q*', 'throttle']"), None);
        let told =
            "token `a` is for policy `r`, which is not in this file (it may be applied later)";
        assert_eq!(of("policies = ['p', 'r']").as_deref(), Some(told));
        assert_eq!(of("policies = ['r']\nnamespace = 'acme'"), None);
    }

    /// Prices were left out without a word, and what the file did not have was named.
    #[test]
    fn what_is_not_sent_is_named_and_nothing_else() {
        let token = format!(
            "[[token]]\nname = 'a'\nsha256 = '{}'\nscopes = ['decide']\n",
            "ab".repeat(32)
        );
        let price = "[price] is not sent: the server goes by the prices of its own file";
        let server =
            |what: &str| format!("{what} not sent: the server has its own, in its own file");
        assert_eq!(notes(&[]), Vec::<String>::new());
        assert_eq!(notes(&[PRICE]), [price]);
        let weight = "[token-weight] is not sent: the server goes by the weights of its own file";
        assert_eq!(notes(&[PRICE, WEIGHT]), [price, weight]);
        assert_eq!(notes(&[SERVER]), [server("[server] is")]);
        let all = notes(&[SERVER, PRICE, &token]);
        assert_eq!(
            all,
            [server("[server] and [[token]] are"), price.to_owned()]
        );
    }
}
