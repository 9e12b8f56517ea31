//! `tidegate gateway`: a server that stands before providers of language models, too.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tidegate_gateway::{
    BadSettings, ConcurrencyBy, Counts, Gateway, KeyPath, Settings, Upstream, file_costs,
};
use tidegate_llm::{Price, Provider};
use tidegate_policy::{Config, PolicyFile, parse_duration};
use tidegate_service::Service;
use tokio::net::TcpListener;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

use super::args::Serve;
use super::settings;
use crate::trouble::{Outcome, Trouble};

/// Where it listens, unless it is told.
const USUAL: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7403);

const EXAMPLES: &str = "\
Examples:
  Calls to OpenAI, 64 at once; refusals that pass are waited out:
    tidegate gateway --upstream openai
    OPENAI_BASE_URL=http://127.0.0.1:7403/v1 python app.py

  Calls to Anthropic, whose SDK adds /v1 by itself:
    tidegate gateway --upstream anthropic
    ANTHROPIC_BASE_URL=http://127.0.0.1:7403 python app.py

  By the limits of a file, with money; prices stand in the file, or here:
    tidegate gateway --upstream openai --config llm.toml --price gpt-5=1.25,10

  Two regions, the members `eu` and `us` of a policy that is a pool, with a
  credential each (TIDEGATE_KEY_EU, TIDEGATE_KEY_US in the environment):
    tidegate gateway --config llm.toml \\
        --upstream eu=azure@https://eu.example.com \\
        --upstream us=azure@https://us.example.com

What limits count is known by their names: tokens or tpm (prompt and answer),
input-tokens or itpm, output-tokens or otpm, usd or eur; others by --counts.
Limits on calls and concurrency count calls. `tidegate policy check --gateway`
says beforehand whether a gateway starts with a file.

Exit codes:
  0  it was stopped, and everything is written
  1  the file is missing or faulty, or is one that no gateway can go by; an
     upstream needs a credential; the store cannot be opened
  2  the command line is invalid";

/// Run a proxy for the APIs of language models that holds calls to your limits
///
/// Point the base URL of an SDK here. A call takes an estimate of its tokens from the limits of a
/// policy, or waits for them; its answer passes through unchanged; what it has really used is
/// settled when it ends, breaks off, or when its client is gone. It serves what `tidegate serve`
/// does as well: /metrics, `tidegate leases`, overrides.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct GatewayArgs {
    /// Where calls go: openai, anthropic, gemini, groq, mistral or cerebras; or NAME=PROVIDER@URL, where
    /// azure, bedrock and generic need the address, written without the /v1 that callers ask for. Give one for
    /// each member of a pool. The credential in TIDEGATE_KEY_NAME (TIDEGATE_KEY_OPENAI for `openai`)
    /// replaces the caller's
    #[arg(
        long,
        value_name = "[NAME=]PROVIDER[@URL]",
        required = true,
        env = "TIDEGATE_UPSTREAM",
        value_delimiter = ' ',
        help_heading = "The gateway"
    )]
    upstream: Vec<UpstreamArg>,

    /// Where to listen for calls of SDKs
    #[arg(long, value_name = "ADDRESS", default_value_t = USUAL, value_parser = listen_at, env = "TIDEGATE_LISTEN", help_heading = "The gateway")]
    listen: SocketAddr,

    /// The policy that calls count against
    #[arg(
        long,
        value_name = "NAME",
        default_value = "llm",
        help_heading = "The gateway"
    )]
    policy: String,

    /// The policy of models whose name begins so, in place of --policy
    #[arg(long, value_name = "MODEL=POLICY", value_parser = model, help_heading = "The gateway")]
    model: Vec<(String, String)>,

    /// The header that names whose limits count; default: the caller's credential, hashed
    #[arg(long, value_name = "HEADER", help_heading = "The gateway")]
    key_header: Option<http::HeaderName>,

    /// The beginning of every path, in which {key} names whose limits count, in place of a header: it is
    /// taken out before a call goes on, and other paths are refused (404)
    #[arg(
        long,
        value_name = "PATTERN",
        conflicts_with = "key_header",
        help_heading = "The gateway"
    )]
    key_path: Option<KeyPath>,

    /// What every key begins with: callers' keys stand below it (NAME/credential-...), and share the
    /// limits of its level
    #[arg(long, value_name = "NAME", help_heading = "The gateway")]
    key_root: Option<String>,

    /// Give callers that share a limit equal parts of what it admits, by tokens, in place of order of
    /// arrival
    #[arg(long, help_heading = "The gateway")]
    fair: bool,

    /// How many parts a caller has in place of one, with --fair; it is named as in the metric
    /// tidegate_gateway_calls_total, below the root
    #[arg(long, value_name = "CALLER=PARTS", value_parser = weight, requires = "fair", help_heading = "The gateway")]
    weight: Vec<(String, u32)>,

    /// How a `concurrency` limit with `learnt = true` is learnt from the upstream's answers:
    /// guarded-vegas (when they take longer, and bring no more), aimd (when it refuses or is silent),
    /// vegas or gradient2
    #[arg(long, value_name = "ALGORITHM", default_value = "guarded-vegas", value_parser = concurrency_by, help_heading = "The gateway")]
    concurrency_by: ConcurrencyBy,

    #[command(flatten)]
    terms: Terms,

    /// Refuse calls whose tokens are not counted, such as images, audio and batches (403), but for
    /// those that only read (GET, HEAD)
    #[arg(long, help_heading = "The gateway")]
    only_counted: bool,

    /// The most pairs of a key and a model whose use has metrics of its own; later ones share those
    /// of `other`
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1_000,
        help_heading = "The gateway"
    )]
    usage_series: usize,

    /// How long a call may wait for its limits; a provider's pause that is longer is not waited out
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration, help_heading = "The gateway")]
    wait: Duration,

    /// The rest of the server's.
    #[command(flatten)]
    pub serve: Serve,
}

/// What a gateway's file may leave out.
#[derive(Clone, Debug, Args)]
pub struct Terms {
    /// What a limit counts whose name does not tell: tokens, input-tokens, output-tokens or money
    #[arg(long, value_name = "LIMIT=WHAT", value_parser = counts, help_heading = "The gateway")]
    counts: Vec<(String, Counts)>,

    /// What a million tokens of a model and of its dated versions cost: of the prompt, of the answer,
    /// and of the prompt out of a cache (else as the prompt). It takes precedence over `[price]` of the file. A
    /// `*` at the end is for all whose names begin so
    #[arg(long, value_name = "MODEL=IN,OUT[,CACHED]", value_parser = price, help_heading = "The gateway")]
    price: Vec<(String, Price)>,
}

impl Terms {
    /// Puts them, and what the file says, into the settings.
    fn put(&self, file: &Config, settings: &mut Settings) {
        settings.counts.clone_from(&self.counts);
        settings.prices = self.price.iter().cloned().collect();
        settings.file_costs = file_costs(file);
    }

    /// Whether a gateway could go by `policy` of a file, whatever upstreams and callers it has.
    ///
    /// # Errors
    /// Why none could.
    pub fn check(&self, file: &Config, policy: &str) -> Result<(), BadSettings> {
        let members = file.policies.get(policy).map(|found| &*found.members);
        let members = members.unwrap_or_default().iter();
        let mut names: Vec<_> = members.map(|member| member.name.to_string()).collect();
        if names.is_empty() {
            names.push(Provider::OpenAi.to_string());
        }
        let upstream = |name| Upstream {
            name,
            provider: Provider::OpenAi,
            base: http::Uri::from_static("https://api.openai.com"),
            secret: Some(http::HeaderValue::from_static("of its own")),
        };
        let mut settings = Settings::new(policy, names.into_iter().map(upstream).collect());
        self.put(file, &mut settings);
        // Whoever calls by a header has keys of any levels.
        settings.key_header = Some(http::HeaderName::from_static("x-caller"));
        settings.check(&file.policies, true)
    }
}

/// `[NAME=]PROVIDER[@URL]`.
#[derive(Clone, Debug)]
struct UpstreamArg(Upstream);

impl FromStr for UpstreamArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (named, address) = match text.split_once('@') {
            Some((named, address)) => (named, Some(address)),
            None => (text, None),
        };
        let (name, provider) = named.split_once('=').unwrap_or((named, named));
        let provider: Provider = provider.parse().map_err(|error| {
            format!("{error}; write NAME=PROVIDER@URL, such as vllm=openai@http://127.0.0.1:8000")
        })?;
        let base = match address {
            Some(address) => address
                .parse()
                .map_err(|_| format!("`{address}` is no address"))?,
            None => {
                Upstream::of(provider)
                    .ok_or_else(|| {
                        format!("{provider} needs an address: write {name}={provider}@https://...")
                    })?
                    .base
            }
        };
        Ok(Self(Upstream {
            name: name.to_owned(),
            provider,
            base,
            secret: None,
        }))
    }
}

fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let help = || match text.parse::<u16>() {
        Ok(port) => format!(
            "say at which address, too; write 127.0.0.1:{port} for this machine alone, \
             0.0.0.0:{port} for all"
        ),
        Err(_) => "write HOST:PORT, such as 127.0.0.1:7403 or [::1]:7403".to_owned(),
    };
    let mut found = text.to_socket_addrs().map_err(|_| help())?;
    found.next().ok_or_else(help)
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (left, right) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((left.to_owned(), right.to_owned()))
}

fn model(text: &str) -> Result<(String, String), String> {
    pair(text).map_err(|_| "write MODEL=POLICY, such as gpt-5=large".to_owned())
}

/// What is to be written where a weight is none.
const PARTS: &str = "write CALLER=PARTS, with PARTS a whole number from 1 to 1000000";

fn weight(text: &str) -> Result<(String, u32), String> {
    let (caller, parts) = text.rsplit_once('=').ok_or(PARTS)?;
    let parts = parts.parse().map_err(|_| PARTS)?;
    Ok((caller.to_owned(), parts))
}

fn counts(text: &str) -> Result<(String, Counts), String> {
    let help = "write LIMIT=WHAT: tokens, input-tokens, output-tokens or money";
    let (limit, what) = pair(text).map_err(|_| help)?;
    Ok((limit, Counts::named(&what).ok_or(help)?))
}

fn concurrency_by(text: &str) -> Result<ConcurrencyBy, String> {
    let named = ConcurrencyBy::named(text);
    named.ok_or_else(|| "write guarded-vegas, aimd, vegas or gradient2".to_owned())
}

fn price(text: &str) -> Result<(String, Price), String> {
    let (model, prices) = pair(text)?;
    let millionths = tidegate::Unit::decimal(6);
    let prices = prices
        .split(',')
        .map(|price| millionths.parse(price).map_err(|error| error.to_string()));
    let prices: Vec<u64> = prices.collect::<Result<_, _>>()?;
    let price = match prices[..] {
        [input, output] => Price {
            input,
            output,
            ..Price::default()
        },
        [input, output, cached] => Price {
            input,
            output,
            cache_read: Some(cached),
            ..Price::default()
        },
        _ => return Err("write two or three prices: IN,OUT or IN,OUT,CACHED".to_owned()),
    };
    Ok((model, price))
}

impl GatewayArgs {
    /// Where calls go and on which terms, by these flags and the file.
    pub fn settings(&self, file: &Config) -> Outcome<Settings> {
        let upstreams = self
            .upstream
            .iter()
            .map(|UpstreamArg(upstream)| with_secret(upstream));
        let mut settings = Settings::new(&self.policy, upstreams.collect::<Outcome<_>>()?);
        settings.models.clone_from(&self.model);
        settings.key_header.clone_from(&self.key_header);
        settings.key_path.clone_from(&self.key_path);
        settings.key_root.clone_from(&self.key_root);
        settings.fair = self.fair;
        settings.weights.clone_from(&self.weight);
        self.terms.put(file, &mut settings);
        settings.concurrency_by = self.concurrency_by;
        settings.wait = self.wait;
        settings.only_counted = self.only_counted;
        settings.max_usage_series = self.usage_series;
        settings::gateway(&file.server, &mut settings);
        Ok(settings)
    }

    /// Whether its first upstream lists its models to who asks as OpenAI's SDK does.
    pub fn speaks_like_openai(&self) -> bool {
        let first = self.upstream.first();
        first.is_some_and(|UpstreamArg(first)| {
            matches!(
                first.provider,
                Provider::OpenAi | Provider::Groq | Provider::Mistral | Provider::Cerebras
            )
        })
    }

    /// Binds its address, before anything is said or done.
    pub async fn open(&self) -> Outcome<TcpListener> {
        let at = self.listen;
        TcpListener::bind(at).await.map_err(|error| {
            Trouble::failure(format!(
                "cannot listen at {at}: {error}; choose another with --listen HOST:PORT"
            ))
        })
    }
}

/// What stands before the providers.
pub fn begin(service: &Service, policies: &PolicyFile, settings: Settings) -> Outcome<Gateway> {
    let gateway = Gateway::new(service.clone(), policies, settings, tls()?);
    gateway.map_err(|why| refused(&why))
}

/// Why a gateway does not start: the command line is wrong, or what it names.
pub fn refused(why: &BadSettings) -> Trouble {
    match why.is_of_the_command_line() {
        true => Trouble::usage(why),
        false => Trouble::failure(why),
    }
}

/// An upstream with the credential that the environment has for it.
fn with_secret(upstream: &Upstream) -> Outcome<Upstream> {
    let variable = Upstream::variable(&upstream.name);
    let Ok(secret) = std::env::var(&variable) else {
        return Ok(upstream.clone());
    };
    if secret.trim().is_empty() {
        let message = format!("{variable} is empty; put the credential into it, or unset it");
        return Err(Trouble::usage(message));
    }
    let (_, before) = Upstream::credential_header(upstream.provider);
    let mut value: http::HeaderValue = format!("{before}{secret}").parse().map_err(|_| {
        Trouble::usage(format!("{variable} has characters that no header may have; set it again without line breaks or control characters"))
    })?;
    value.set_sensitive(true);
    Ok(Upstream {
        secret: Some(value),
        ..upstream.clone()
    })
}

/// Providers are believed as this system believes.
fn tls() -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(Trouble::failure)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::listen_at;

    #[test]
    fn a_port_alone_is_told_what_to_write() {
        let at = listen_at("127.0.0.1:7403").map(|at| at.to_string());
        assert_eq!(at.as_deref(), Ok("127.0.0.1:7403"));
        let wrong = listen_at("7403").expect_err("no address");
        assert!(wrong.contains("write 127.0.0.1:7403 for this"), "{wrong}");
        let wrong = listen_at("nothing").expect_err("no address");
        assert!(wrong.contains("write HOST:PORT"), "{wrong}");
    }
}
