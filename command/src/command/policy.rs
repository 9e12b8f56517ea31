//! Finding a policy by the name that the command line gives.

use tidegate_policy::{Policy, PolicyFile};

use crate::args::PolicyName;
use tidegate_server::configuration;
use tidegate_server::trouble::{Outcome, Trouble};

/// A policy, and whether its file has others beside it.
pub struct Found {
    pub policy: Policy,
    pub alone: bool,
}

/// Reads the file and picks the policy.
pub fn find(wanted: &PolicyName) -> Outcome<Found> {
    let path = &wanted.file;
    let text = std::fs::read_to_string(path).map_err(|error| Trouble::file("read", path, error))?;
    let config = configuration::parse(&path.to_string_lossy(), &text);
    let file = config.map_err(Trouble::failure)?.policies;
    let policy = pick(&file, wanted)?.clone();
    if policy.is_pool() {
        let name = &policy.name;
        return Err(Trouble::usage(format!(
            "`{name}` is a pool, and a replay plays one limit set; write a policy with the limits of one member"
        )));
    }
    Ok(Found {
        policy,
        alone: file.policies.len() == 1,
    })
}

fn pick<'f>(file: &'f PolicyFile, wanted: &PolicyName) -> Outcome<&'f Policy> {
    let names = file.names().collect::<Vec<_>>().join(", ");
    let path = wanted.file.display();
    match (&wanted.name, file.policies.as_slice()) {
        (Some(name), _) => file.get(name).ok_or_else(|| {
            Trouble::usage(format!("{path} has no policy `{name}`; it has {names}"))
        }),
        (None, [only]) => Ok(only),
        (None, _) => Err(Trouble::usage(format!(
            "{path} has several policies: {names}; choose one as {path}#NAME"
        ))),
    }
}
