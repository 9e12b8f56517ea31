//! `tidegate token`: what to write into the server's file for a token, on standard output,
//! and the token itself, on standard error: `>>` puts no secret into the file.

use std::fmt::Write as _;
use std::io::{self, Write};

use rand::Rng;
use tidegate_policy::{DEFAULT_NAMESPACE, EVERY_NAMESPACE, wrong_namespace};
use tidegate_service::{Credential, Scope};

use crate::args::Token;
use tidegate_server::trouble::{Outcome, Trouble};

/// Prints a new token and its entry.
pub fn token(args: &Token) -> Outcome<()> {
    for scope in &args.scopes {
        if Scope::named(scope).is_none() {
            let known = Scope::ALL.map(Scope::name).join(", ");
            return Err(Trouble::usage(format!(
                "there is no scope `{scope}`; there is {known}"
            )));
        }
    }
    if args.name.is_empty() {
        return Err(Trouble::usage(
            "the token's name is empty; logs and audit events tell by it who did what",
        ));
    }
    if args.policies.iter().any(String::is_empty) {
        return Err(Trouble::usage(
            "--policies: no policy has an empty name; leave --policies out for all of them",
        ));
    }
    let namespace = args.namespace.as_deref();
    let namespace = namespace.filter(|name| ![DEFAULT_NAMESPACE, EVERY_NAMESPACE].contains(name));
    if let Some(wrong) = namespace.and_then(wrong_namespace) {
        return Err(Trouble::usage(format!("--namespace: {wrong}")));
    }
    let mut bits = [0; 32];
    rand::rng().fill_bytes(&mut bits);
    let token = format!("tg_{}", hex(&bits));
    // In this order: what is told the token is told it before the server knows it.
    writeln!(
        io::stderr().lock(),
        "{token}\n^ the token. This is the only time it is shown; give it to the client.\n"
    )
    .map_err(Trouble::failure)?;
    // It may be put behind a file whose last line does not end.
    writeln!(io::stdout().lock(), "\n{}", entry(args, &token)).map_err(Trouble::failure)
}

fn entry(args: &Token, token: &str) -> String {
    let list = |words: &[String]| {
        let quoted = words.iter().map(|word| format!("{word:?}"));
        quoted.collect::<Vec<_>>().join(", ")
    };
    let mut entry = format!(
        "[[token]]\nname = {:?}\nsha256 = \"{}\"\nscopes = [{}]",
        args.name,
        hex(&Credential::hash(token)),
        list(&args.scopes)
    );
    if !args.policies.is_empty() {
        let _ = write!(entry, "\npolicies = [{}]", list(&args.policies));
    }
    if let Some(namespace) = &args.namespace {
        let _ = write!(entry, "\nnamespace = {namespace:?}");
    }
    entry
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use tidegate_policy::parse_config;

    use super::entry;
    use crate::args::Token;

    #[test]
    fn what_is_printed_lets_the_token_in() {
        let args = Token {
            name: "ci \"1\"".into(),
            scopes: vec!["decide".into()],
            policies: vec!["chat".into()],
            namespace: Some("acme".into()),
        };
        let policy = "[policy.chat.limits]\nrpm = { calls = 1, per = '1s' }\n";
        let text = format!("{}\n{policy}", entry(&args, "tg_secret"));
        let config = parse_config("t", &text).unwrap_or_else(|e| panic!("{e}"));
        let service = tidegate_service::Service::builder().credentials(config.credentials);
        let service = service.build(&config.policies).unwrap();
        let caller = service.enter(Some("tg_secret")).unwrap();
        assert_eq!(
            (caller.name(), caller.namespace()),
            ("ci \"1\"", Some("acme"))
        );
        assert!(service.enter(Some("tg_other")).is_err());
    }
}
