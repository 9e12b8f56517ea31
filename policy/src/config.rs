//! A server's file: policies, tokens and settings, read as a whole.
//!
//! ```toml
//! [server]
//! http  = "127.0.0.1:7400"          # or "off"; likewise grpc and resp
//! store = "file:/var/lib/tidegate/state.redb"
//!
//! [[token]]
//! name     = "gateway"
//! sha256   = "..."                  # of the token; `tidegate token` makes both
//! scopes   = ["decide", "observe"]
//! policies = ["chat", "web-*"]      # all, if left out
//! namespace = "acme"                # the store without any, if left out; "*" for each
//!
//! [price]                           # for a gateway: of a million tokens
//! gpt-5 = { input = "1.25", output = "10" }
//!
//! [token-weight]                    # for a gateway: how many tokens one counts as
//! "anthropic.claude-*" = { output = 5 }
//!
//! [policy.chat.limits]
//! rpm = { calls = 300, per = "1m" }
//!
//! [namespace.acme.policy.chat.limits]   # in place of those above, in that namespace
//! rpm = { calls = 900, per = "1m" }
//! ```

use std::time::Duration;

use super::credential::{Credential, DEFAULT_NAMESPACE, EVERY_NAMESPACE, wrong_namespace};
use super::fault::{Faults, PolicyErrors};
use super::fields::{Field, Fields};
use super::file::{self, PolicyFile};
use super::price::{self, ModelPrice};
use super::scope::Scope;
use super::token_weight::{self, ModelWeight};

const SERVER: [&str; 18] = [
    "http",
    "grpc",
    "resp",
    "store",
    "audit",
    "audit_keep",
    "audit_events",
    "tls_certificate",
    "tls_key",
    "tls_client_ca",
    "offers_store",
    "max_connections",
    "max_in_flight",
    "longest_wait",
    "shutdown_timeout",
    "otlp",
    "otlp_one_in",
    "otlp_keys",
];
const TOKEN: [&str; 5] = ["name", "sha256", "scopes", "policies", "namespace"];
const SCOPES: [(&str, Scope); 4] = [
    ("decide", Scope::Decide),
    ("administer", Scope::Administer),
    ("observe", Scope::Observe),
    ("store", Scope::Store),
];
const DAY: Duration = Duration::from_secs(86_400);

/// What a server's file says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The policies, at least one.
    pub policies: PolicyFile,
    /// The policies of some namespaces, by name.
    pub namespaces: Vec<(String, PolicyFile)>,
    /// The tokens; everyone is let in if there is none.
    pub credentials: Vec<Credential>,
    /// What tokens of models cost, for a gateway.
    pub prices: Vec<ModelPrice>,
    /// How much tokens of models count, for a gateway.
    pub weights: Vec<ModelWeight>,
    /// The server's settings.
    pub server: ServerSettings,
}

/// The longest that audit events are kept: ten years.
const LONGEST_AUDIT: Duration = Duration::from_secs(10 * 366 * 86_400);

/// The most audit events that are kept.
pub const MOST_AUDIT_EVENTS: u32 = 100_000;

/// The settings of a server that its file says; the rest is the server's to
/// choose.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Where to listen for HTTP: an address, or `off`.
    pub http: Option<String>,
    /// Where to listen for gRPC.
    pub grpc: Option<String>,
    /// Where to listen for RESP.
    pub resp: Option<String>,
    /// The URL of the store.
    pub store: Option<String>,
    /// The file that administrative changes are noted in.
    pub audit: Option<String>,
    /// For how long the store keeps audit events.
    pub audit_keep: Option<Duration>,
    /// How many audit events the store keeps.
    pub audit_events: Option<u32>,
    /// The file of the certificate chain (PEM); with it, listeners speak TLS.
    pub tls_certificate: Option<String>,
    /// The file of its key (PEM).
    pub tls_key: Option<String>,
    /// The file of the authorities whose clients are let in (PEM).
    pub tls_client_ca: Option<String>,
    /// Whether others may use the server's store as theirs, over gRPC.
    pub offers_store: Option<bool>,
    /// How many connections each listener holds at once.
    pub max_connections: Option<usize>,
    /// How many requests are served at once.
    pub max_in_flight: Option<usize>,
    /// How long a request may wait at most.
    pub longest_wait: Option<Duration>,
    /// How long whoever is inside may take to be answered at a stop.
    pub shutdown_timeout: Option<Duration>,
    /// The URL of the collector that requests are traced to.
    pub otlp: Option<String>,
    /// One trace in so many is kept, of those that begin here.
    pub otlp_one_in: Option<u32>,
    /// Whether traces tell keys.
    pub otlp_keys: Option<bool>,
}

impl ServerSettings {
    /// The names of the settings that hold from the start on and that `other` says
    /// otherwise. (Certificates and the audit log's path are read again.)
    #[must_use]
    pub fn settled_otherwise(&self, other: &Self) -> Vec<&'static str> {
        let differ = [
            ("http", self.http != other.http),
            ("grpc", self.grpc != other.grpc),
            ("resp", self.resp != other.resp),
            ("store", self.store != other.store),
            ("offers_store", self.offers_store != other.offers_store),
            (
                "max_connections",
                self.max_connections != other.max_connections,
            ),
            ("max_in_flight", self.max_in_flight != other.max_in_flight),
            ("longest_wait", self.longest_wait != other.longest_wait),
            ("audit_keep", self.audit_keep != other.audit_keep),
            ("audit_events", self.audit_events != other.audit_events),
            (
                "shutdown_timeout",
                self.shutdown_timeout != other.shutdown_timeout,
            ),
            ("otlp", self.otlp != other.otlp),
            ("otlp_one_in", self.otlp_one_in != other.otlp_one_in),
            ("otlp_keys", self.otlp_keys != other.otlp_keys),
        ];
        let differ = differ.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(name, _)| name).collect()
    }
}

/// What is wrong with a store's URL, if anything is, in words that say what to write.
pub type StoreCheck<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a server's file from its text. `source_name` is what the errors call
/// it, usually the file's path. Which stores there are the server knows: any URL is
/// taken, unless [`parse_config_for`] is told.
///
/// # Errors
///
/// [`PolicyErrors`] has every fault of the file, not only the first.
pub fn parse_config(source_name: &str, text: &str) -> Result<Config, PolicyErrors> {
    parse_config_for(source_name, text, &|_| None)
}

/// As [`parse_config`], for a server that opens the stores that `check` finds nothing
/// wrong with.
///
/// # Errors
///
/// As [`parse_config`].
pub fn parse_config_for(
    source_name: &str,
    text: &str,
    check: StoreCheck<'_>,
) -> Result<Config, PolicyErrors> {
    let mut server = ServerSettings::default();
    let (mut tokens, mut prices, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    let mut namespaces = Vec::new();
    let beside = ["server", "token", "price", "token-weight", "namespace"];
    let policies = file::parse_beside(source_name, text, &beside, |fields, faults| {
        if let Some(field) = fields.take("server") {
            server = settings(&field, check, faults);
        }
        if let Some(field) = fields.take("token") {
            tokens = credentials(&field, faults);
        }
        if let Some(field) = fields.take("price") {
            prices = price::read(&field, faults);
        }
        if let Some(field) = fields.take("token-weight") {
            weights = token_weight::read(&field, faults);
        }
        if let Some(field) = fields.take("namespace") {
            namespaces = namespaces_of(&field, faults);
        }
    })?;
    Ok(Config {
        policies,
        namespaces,
        credentials: tokens,
        prices,
        weights,
        server,
    })
}

/// An address to listen at, or `off`. A name is looked up where it is served.
fn address(fields: &mut Fields<'_>, name: &str, faults: &mut Faults<'_>) -> Option<String> {
    const EXAMPLE: &str = "127.0.0.1:7400";
    let field = fields.take(name)?;
    let text = field.text(EXAMPLE, faults)?;
    let parts = text.rsplit_once(':');
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    if text != "off" && !parts.is_some_and(has_port) {
        let message = format!("`{name}` is `{text}`, which is no address");
        let help = format!("write an address and a port, such as \"{EXAMPLE}\", or \"off\"");
        faults.add(&field.span, message, help);
        return None;
    }
    Some(text.to_owned())
}

fn store(
    fields: &mut Fields<'_>,
    check: StoreCheck<'_>,
    faults: &mut Faults<'_>,
) -> Option<String> {
    let field = fields.take("store")?;
    let text = field.text("memory:", faults)?;
    if let Some(wrong) = check(text) {
        faults.add(&field.span, "`store` names no store", wrong);
    }
    Some(text.to_owned())
}

fn settings(field: &Field<'_>, check: StoreCheck<'_>, faults: &mut Faults<'_>) -> ServerSettings {
    let Some(mut fields) = field.table("`[server]`", faults) else {
        return ServerSettings::default();
    };
    let [http, grpc, resp] =
        ["http", "grpc", "resp"].map(|name| address(&mut fields, name, faults));
    let store = store(&mut fields, check, faults);
    let mut text = |name: &str, example: &str, faults: &mut Faults<'_>| {
        let field = fields.take(name)?;
        field.text(example, faults).map(str::to_owned)
    };
    let mut settings = ServerSettings {
        http,
        grpc,
        resp,
        store,
        audit: text("audit", "audit.log", faults),
        tls_certificate: text("tls_certificate", "server.pem", faults),
        tls_key: text("tls_key", "server.key", faults),
        tls_client_ca: text("tls_client_ca", "clients.pem", faults),
        otlp: text("otlp", "http://127.0.0.1:4318", faults),
        ..ServerSettings::default()
    };
    let mut count = |name: &str, faults: &mut Faults<'_>| {
        let number = fields.take(name)?.integer(1..=1 << 32, faults)?;
        usize::try_from(number).ok()
    };
    settings.max_connections = count("max_connections", faults);
    settings.max_in_flight = count("max_in_flight", faults);
    let longest_wait = fields.take("longest_wait");
    settings.longest_wait =
        longest_wait.and_then(|field| field.duration(Duration::from_millis(1)..=DAY, faults));
    let audit_keep = fields.take("audit_keep");
    settings.audit_keep =
        audit_keep.and_then(|field| field.duration(Duration::from_secs(1)..=LONGEST_AUDIT, faults));
    let audit_events = fields.take("audit_events");
    let audit_events =
        audit_events.and_then(|field| field.integer(1..=MOST_AUDIT_EVENTS.into(), faults));
    settings.audit_events = audit_events.and_then(|number| u32::try_from(number).ok());
    let shutdown_timeout = fields.take("shutdown_timeout");
    settings.shutdown_timeout =
        shutdown_timeout.and_then(|field| field.duration(Duration::from_millis(1)..=DAY, faults));
    let one_in = fields.take("otlp_one_in");
    let one_in = one_in.and_then(|field| field.integer(1..=u32::MAX.into(), faults));
    settings.otlp_one_in = one_in.and_then(|number| u32::try_from(number).ok());
    let keys = fields.take("otlp_keys");
    settings.otlp_keys = keys.and_then(|field| field.flag(faults));
    let offers_store = fields.take("offers_store");
    settings.offers_store = offers_store.and_then(|field| field.flag(faults));
    fields.finish("a server", &SERVER, faults);
    together(&settings, field, faults);
    settings
}

/// The policies of namespaces.
fn namespaces_of(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<(String, PolicyFile)> {
    let entries = field.table("`[namespace.NAME.policy.POLICY.limits]`", faults);
    let entries = entries.map(Fields::into_all).unwrap_or_default();
    let one = |entry: &Field<'_>| {
        if let Some(wrong) = wrong_namespace(entry.name) {
            let message = format!("`{}` can be no namespace", entry.name);
            faults.add(&entry.key_span, message, wrong);
        }
        let fields = entry.table(&format!("`[namespace.{}.policy]`", entry.name), faults)?;
        let policies = file::read_namespace(fields, &entry.key_span, faults);
        Some((entry.name.to_owned(), policies))
    };
    entries.iter().filter_map(one).collect()
}

/// A certificate is of no use without its key.
fn together(settings: &ServerSettings, field: &Field<'_>, faults: &mut Faults<'_>) {
    let (certificate, key) = (&settings.tls_certificate, &settings.tls_key);
    if certificate.is_some() != key.is_some() || (settings.tls_client_ca.is_some() && key.is_none())
    {
        faults.add(
            &field.key_span,
            "TLS needs both a certificate and its key",
            "write `tls_certificate` and `tls_key`, or neither",
        );
    }
}

fn credentials(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<Credential> {
    let mut known: Vec<Credential> = Vec::new();
    for (_, table) in field.tables("`[[token]]`", faults) {
        let Some(credential) = credential(table, field, faults) else {
            continue;
        };
        if known.iter().any(|other| other.name == credential.name) {
            let message = format!("two tokens are called `{}`", credential.name);
            faults.add(&field.key_span, message, "give each a name of its own");
        }
        if let Some(other) = known.iter().find(|one| one.sha256 == credential.sha256) {
            let (one, other) = (&other.name, &credential.name);
            let message = format!("`{one}` and `{other}` are the same token");
            let help = "remove one, or make another with `tidegate token NAME`";
            faults.add(&field.key_span, message, help);
        }
        known.push(credential);
    }
    known
}

fn credential(
    mut fields: Fields<'_>,
    token: &Field<'_>,
    faults: &mut Faults<'_>,
) -> Option<Credential> {
    let name = needed(&mut fields, "name", token, faults);
    let name = name.and_then(|field| {
        let text = field.text("gateway", faults)?;
        if text.is_empty() {
            let help = "write a name: logs and audit events tell by it who did what";
            faults.add(&field.span, "this token's name is empty", help);
        }
        Some(text.to_owned())
    });
    let sha256 = needed(&mut fields, "sha256", token, faults);
    let sha256 = sha256.and_then(|field| hash(&field, faults));
    let scopes = needed(&mut fields, "scopes", token, faults);
    let scopes = scopes.map(|field| scopes_of(&field, faults));
    let policies = fields.take("policies").map(|field| {
        let texts: Vec<_> = field.texts(faults).into_iter().collect();
        if texts.is_empty() {
            let help = "name its policies, or leave `policies` out: it is for all of them then";
            faults.add(&field.span, "this token is for no policy", help);
        }
        for (_, span) in texts.iter().filter(|(text, _)| text.is_empty()) {
            let help = "write its name, or `*` at the end of what names begin with";
            faults.add(span, "no policy has an empty name", help);
        }
        texts.into_iter().map(|(text, _)| text.to_owned()).collect()
    });
    let namespace = fields.take("namespace");
    let namespace = namespace.and_then(|field| namespace_of(&field, faults));
    fields.finish("a token", &TOKEN, faults);
    Some(Credential {
        name: name?,
        sha256: sha256?,
        scopes: scopes?,
        policies: policies.unwrap_or_default(),
        namespace,
    })
}

/// For which namespace a token is; nothing for the store without any.
fn namespace_of(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<String> {
    let text = field.text("acme", faults)?;
    match text {
        DEFAULT_NAMESPACE => None,
        EVERY_NAMESPACE => Some(text.to_owned()),
        name => {
            if let Some(wrong) = wrong_namespace(name) {
                let help = format!("{wrong}; `*` is every namespace");
                faults.add(&field.span, "this token is for no namespace", help);
            }
            Some(name.to_owned())
        }
    }
}

fn needed<'a>(
    fields: &mut Fields<'a>,
    name: &str,
    token: &Field<'_>,
    faults: &mut Faults<'_>,
) -> Option<Field<'a>> {
    let field = fields.take(name);
    if field.is_none() {
        let help = "`tidegate token NAME` prints a token and what to write here";
        faults.add(&token.key_span, format!("a token has no `{name}`"), help);
    }
    field
}

fn hash(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<[u8; 32]> {
    let text = field.text("64 hexadecimal digits", faults)?;
    let digit = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
    let hash = bytes.filter(|_| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    if hash.is_none() {
        let help = "write the 64 hexadecimal digits that `tidegate token` prints";
        faults.add(&field.span, "this is not a SHA-256", help);
    }
    hash?.try_into().ok()
}

fn scopes_of(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<Scope> {
    let mut scopes = Vec::new();
    for (word, span) in field.texts(faults) {
        match SCOPES.iter().find(|(name, _)| *name == word) {
            Some((_, scope)) => scopes.push(*scope),
            None => faults.add(
                &span,
                format!("there is no scope `{word}`"),
                "write `decide`, `observe`, `administer` or `store`",
            ),
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 1, per = '1s' }\n";

    fn faults(text: &str) -> Vec<(usize, String)> {
        let errors = parse_config("t.toml", text).unwrap_err();
        let one = |fault: &super::super::Fault| (fault.line, fault.message.clone());
        errors.faults().iter().map(one).collect()
    }

    #[test]
    fn a_servers_file_is_read_as_a_whole() {
        let hash = "ab".repeat(32);
        let text = format!(
            "[server]\nhttp = 'off'\nlongest_wait = '30s'\nmax_connections = 10\n\
             [[token]]\nname = 'a'\nsha256 = '{hash}'\nscopes = ['decide']\n{POLICY}"
        );
        let config = parse_config("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(config.server.http.as_deref(), Some("off"));
        assert_eq!(config.server.longest_wait, Some(Duration::from_secs(30)));
        assert_eq!(config.server.max_connections, Some(10));
        assert!(!config.credentials.is_empty());
        assert_eq!(config.policies.policies.len(), 1);
    }

    #[test]
    fn every_fault_of_a_servers_file_is_told_at_once() {
        let text = "[server]\nhtp = 'off'\nmax_connections = 0\n[[token]]\nname = 'a'\n\
                    sha256 = 'xyz'\nscopes = ['rule']\n[policy.chat.limits]\nrpm = {}\n";
        let lines: Vec<usize> = faults(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 3, 6, 7, 9]);
    }

    #[test]
    fn a_namespace_has_policies_of_its_own_and_tokens_of_its_own() {
        let hash = "ab".repeat(32);
        let token = format!("[[token]]\nname = 'a'\nsha256 = '{hash}'\nscopes = ['decide']\n");
        let read = |namespace: &str| {
            let own = POLICY
                .replace("[policy", "[namespace.acme.policy")
                .replace("= 1", "= 9");
            parse_config("t.toml", &format!("{token}{namespace}\n{POLICY}{own}"))
        };
        let config = read("namespace = 'acme'").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(config.credentials[0].namespace.as_deref(), Some("acme"));
        let [(name, file)] = &config.namespaces[..] else {
            panic!("one namespace");
        };
        assert_eq!((&**name, &*file.policies[0].name), ("acme", "chat"));
        assert_ne!(file.policies[0], config.policies.policies[0]);
        let of = |namespace: &str| read(namespace).unwrap().credentials[0].namespace.clone();
        assert_eq!(of(""), None);
        assert_eq!(of("namespace = 'default'"), None);
        assert_eq!(of("namespace = '*'").as_deref(), Some("*"));
        assert!(read("namespace = 'a/b'").is_err());
        let of_default = POLICY.replace("[policy", "[namespace.default.policy");
        assert_eq!(faults(&format!("{POLICY}{of_default}")).len(), 1);
        assert_eq!(faults(&format!("{POLICY}[namespace.acme]\n")).len(), 1);
    }

    /// Whoever had it was one of the two, and after a reload the other.
    #[test]
    fn two_names_for_one_token_are_a_fault() {
        let token = |name: &str, scope: &str| {
            let hash = "ab".repeat(32);
            format!("[[token]]\nname = '{name}'\nsha256 = '{hash}'\nscopes = ['{scope}']\n")
        };
        let text = [token("a", "decide"), token("b", "observe"), POLICY.into()].concat();
        let told = "`a` and `b` are the same token".to_owned();
        assert_eq!(faults(&text), [(1, told)]);
    }

    #[test]
    fn an_address_and_a_store_that_cannot_be_served_are_faults() {
        let check = |url: &str| (url != "memory:").then(|| "write memory:".to_owned());
        let read = |text: &str| parse_config_for("t.toml", text, &check);
        let text = format!(
            "[server]\nhttp = 'foo'\ngrpc = '127.0.0.1'\nresp = ':7402'\nstore = 'redsi://x'\n\
             {POLICY}"
        );
        let errors = read(&text).unwrap_err();
        let lines: Vec<usize> = errors.faults().iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        assert!(errors.to_string().contains("write memory:"), "{errors}");
        let text = format!(
            "[server]\nhttp = 'localhost:7400'\ngrpc = '[::1]:0'\nresp = 'off'\n\
             store = 'memory:'\n{POLICY}"
        );
        assert!(read(&text).is_ok());
    }

    #[test]
    fn what_holds_from_the_next_start_on_is_told_by_name() {
        let read = |server: &str| {
            let config = parse_config("t.toml", &format!("[server]\n{server}\n{POLICY}"));
            config.unwrap_or_else(|e| panic!("{e}")).server
        };
        let old = read("http = 'off'\nstore = 'memory:'\naudit = 'a'");
        let new = read("http = '[::1]:7'\naudit = 'b'\nlongest_wait = '3s'");
        assert_eq!(
            old.settled_otherwise(&new),
            ["http", "store", "longest_wait"]
        );
        assert!(old.settled_otherwise(&old).is_empty());
    }

    /// It was for all of them.
    #[test]
    fn a_token_for_no_policy_is_a_fault() {
        let token = |policies: &str| {
            let hash = "ab".repeat(32);
            format!(
                "[[token]]\nname = 'a'\nsha256 = '{hash}'\nscopes = ['decide']\n\
                 policies = {policies}\n{POLICY}"
            )
        };
        let told = (5, "this token is for no policy".to_owned());
        assert_eq!(faults(&token("[]")), [told]);
        let told = (5, "no policy has an empty name".to_owned());
        assert_eq!(faults(&token("['chat', '']")), [told]);
        assert!(parse_config("t.toml", &token("['chat']")).is_ok());
        assert!(parse_config("t.toml", &token("['*']")).is_ok());
    }

    #[test]
    fn a_token_without_a_name_is_a_fault() {
        let hash = "ab".repeat(32);
        let text =
            format!("[[token]]\nname = ''\nsha256 = '{hash}'\nscopes = ['decide']\n{POLICY}");
        assert_eq!(
            faults(&text),
            [(2, "this token's name is empty".to_owned())]
        );
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let text = format!("[server]\ntls_certificate = 'c.pem'\n{POLICY}");
        assert_eq!(faults(&text)[0].0, 1);
    }
}
