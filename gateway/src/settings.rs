//! Where calls go, and on which terms.

use std::fmt;
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderName, HeaderValue, Uri, header};
use tidegate::fair::MAX_WEIGHT;
use tidegate_llm::{Costs, Counts, Prices, Provider};

use crate::credentials;
use crate::key_path::KeyPath;

/// One account at a provider, or one region of it.
#[derive(Clone)]
pub struct Upstream {
    /// Its name: of a policy that is a pool, the member's.
    pub name: String,
    /// Whose dialect it speaks.
    pub provider: Provider,
    /// What a call's path is put behind: scheme, host and perhaps the beginning of a path.
    pub base: Uri,
    /// What is sent in place of the caller's own credential, if not that.
    pub secret: Option<HeaderValue>,
}

/// No secret is shown.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .field("base", &self.shown())
            .field("secret", &self.secret.as_ref().map(|_| "..."))
            .finish()
    }
}

impl Upstream {
    /// A provider's own address, called by the provider's name; `None` of one that has none for
    /// everybody.
    #[must_use]
    pub fn of(provider: Provider) -> Option<Self> {
        let base = match provider {
            Provider::OpenAi => "https://api.openai.com",
            Provider::Anthropic => "https://api.anthropic.com",
            Provider::Gemini => "https://generativelanguage.googleapis.com",
            Provider::Groq => "https://api.groq.com/openai",
            Provider::Mistral => "https://api.mistral.ai",
            Provider::Cerebras => "https://api.cerebras.ai",
            _ => return None,
        };
        Some(Self {
            name: provider.name().to_owned(),
            provider,
            base: Uri::from_static(base),
            secret: None,
        })
    }

    /// Its address, without a user and a password.
    pub(crate) fn shown(&self) -> String {
        let scheme = self.base.scheme_str().unwrap_or_default();
        let host = self.base.authority().map_or("", Authority::as_str);
        let host = host.rsplit('@').next().unwrap_or_default();
        format!(
            "{scheme}://{host}{}",
            self.base.path().trim_end_matches('/')
        )
    }

    /// The environment variable that has the credential of the upstream of this name.
    #[must_use]
    pub fn variable(name: &str) -> String {
        let name = name.to_uppercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        format!("TIDEGATE_KEY_{name}")
    }

    /// The header that this provider's credential stands in, and what stands before it.
    #[must_use]
    pub const fn credential_header(provider: Provider) -> (HeaderName, &'static str) {
        match provider {
            Provider::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            Provider::AzureOpenAi => (HeaderName::from_static("api-key"), ""),
            _ => (header::AUTHORIZATION, "Bearer "),
        }
    }
}

/// What makes a number of calls of how an upstream answers: the
/// [estimators](tidegate::adaptive::Estimator) of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ConcurrencyBy {
    /// By how throughput goes with what is in flight; for most.
    #[default]
    GuardedVegas,
    /// By refusals and time-outs alone: for upstreams that refuse in time.
    Aimd,
    /// By the shortest signal seen: for signals without much noise.
    Vegas,
    /// By an average of ten minutes: under an overload that lasts it goes to its most.
    Gradient2,
}

impl ConcurrencyBy {
    /// By its name: `guarded-vegas`, `aimd`, `vegas`, `gradient2`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "guarded-vegas" => Self::GuardedVegas,
            "aimd" => Self::Aimd,
            "vegas" => Self::Vegas,
            "gradient2" => Self::Gradient2,
            _ => return None,
        })
    }
}

/// What a gateway keeps to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The policy that calls count against, unless their model has another.
    pub policy: String,
    /// Policies of models, by the beginning of the model's name; the longest counts.
    pub models: Vec<(String, String)>,
    /// At least one. Of a policy that is a pool each member has one; of others the first serves.
    pub upstreams: Vec<Upstream>,
    /// The header that names whose limits count. If there is none, a caller's credential does,
    /// by a hash of it; `anonymous` without one.
    pub key_header: Option<HeaderName>,
    /// Where the path names it, in place of a header: it is taken out before a call goes on, and a call
    /// whose path does not begin so is refused.
    pub key_path: Option<KeyPath>,
    /// The first level of every key, below which callers' own keys stand: they share its limits.
    pub key_root: Option<String>,
    /// Whether callers that share limits have equal parts of what those admit, by tokens; else
    /// they are served in order of arrival.
    pub fair: bool,
    /// How many parts a caller has in place of one: 1 to 1,000,000, by its key below what is
    /// shared.
    pub weights: Vec<(String, u32)>,
    /// What a limit counts whose name does not tell.
    pub counts: Vec<(String, Counts)>,
    /// How concurrency limits are learnt.
    pub concurrency_by: ConcurrencyBy,
    /// What tokens cost, whatever the file says of these models.
    pub prices: Prices,
    /// What they cost by the file, and how much they count, until
    /// [another](crate::Gateway::exchange_costs) is read.
    pub file_costs: Costs,
    /// Of 1,000 calls without a bound, for how many is enough reserved: 950.
    pub quantile: u32,
    /// How long a call may wait for its limits, all attempts together: 30 s.
    pub wait: Duration,
    /// How often a call is sent in all, if the provider refuses it: 3. Each further member of a pool is
    /// asked once besides.
    pub attempts: u32,
    /// How long a provider may take to begin its answer: 10 minutes.
    pub answer_within: Duration,
    /// How long a stream may pause: 5 minutes.
    pub pause: Duration,
    /// The largest body of a call, in bytes: 32 MiB.
    pub max_body_bytes: usize,
    /// The most bytes of bodies that are held at once, as they come and until their calls are
    /// answered: 512 MiB. A caller holds no more than it leaves free.
    pub max_held_bytes: usize,
    /// The most connections of callers at once: 10,000.
    pub max_connections: usize,
    /// How long a caller may take for a head, and pause in a body: 30 s. A body has as long in all, and a
    /// second more for each 4 KiB of it that come.
    pub head_timeout: Duration,
    /// How long calls may take to end when the gateway stops: 10 s.
    pub drain: Duration,
    /// Whether calls are refused whose tokens are not counted (images, audio, batches), but for
    /// those that only read (GET, HEAD); else they pass, and count as calls alone.
    pub only_counted: bool,
    /// The most pairs of a key and a model whose use has metrics of its own: 1,000. Later ones
    /// share those of `other`.
    pub max_usage_series: usize,
}

impl Settings {
    /// The usual terms: calls count against `policy` and go to `upstreams`.
    #[must_use]
    pub fn new(policy: impl Into<String>, upstreams: Vec<Upstream>) -> Self {
        Self {
            policy: policy.into(),
            models: Vec::new(),
            upstreams,
            key_header: None,
            key_path: None,
            key_root: None,
            fair: false,
            weights: Vec::new(),
            counts: Vec::new(),
            concurrency_by: ConcurrencyBy::default(),
            prices: Prices::default(),
            file_costs: Costs::default(),
            quantile: 950,
            wait: Duration::from_secs(30),
            attempts: 3,
            answer_within: Duration::from_secs(600),
            pause: Duration::from_secs(300),
            max_body_bytes: 32 * 1024 * 1024,
            max_held_bytes: 512 * 1024 * 1024,
            max_connections: 10_000,
            head_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            only_counted: false,
            max_usage_series: 1_000,
        }
    }

    /// Whose dialect callers are taken to speak: the first upstream's.
    pub(crate) fn provider(&self) -> Provider {
        let first = self.upstreams.first();
        first.map_or_else(Provider::default, |first| first.provider)
    }

    /// Whether callers are named by what they say, and not by their credentials alone.
    pub(crate) const fn names_callers(&self) -> bool {
        self.key_header.is_some() || self.key_path.is_some()
    }

    /// How many parts a caller has.
    pub(crate) fn weight_of(&self, caller: &[u8]) -> u32 {
        let told = self.weights.iter();
        let mut told = told.filter(|(name, _)| name.as_bytes() == caller);
        told.next_back().map_or(1, |(_, weight)| *weight)
    }

    /// Whether what is said of callers makes sense.
    pub(crate) fn check_callers(&self) -> Result<(), BadSettings> {
        if let Some(root) = &self.key_root
            && (root.is_empty() || root.contains('/'))
        {
            return Err(BadSettings::KeyRoot(root.clone()));
        }
        if let Some(name) = self
            .key_header
            .as_ref()
            .filter(|name| credentials::is_secret(name))
        {
            return Err(BadSettings::SecretKey(name.to_string()));
        }
        let mut weights = self.weights.iter();
        match weights.find(|(_, weight)| !(1..=MAX_WEIGHT).contains(weight)) {
            None => Ok(()),
            Some((caller, weight)) => Err(BadSettings::Weight {
                caller: caller.clone(),
                weight: *weight,
            }),
        }
    }

    /// The policy of a model.
    pub(crate) fn policy_of(&self, model: &str) -> &str {
        let of_model = self
            .models
            .iter()
            .filter(|(start, _)| model.starts_with(start.as_str()));
        let longest = of_model.max_by_key(|(start, _)| start.len());
        longest.map_or(&self.policy, |(_, policy)| policy)
    }

    /// The upstream of a pool's member; of a policy that is none, the first.
    pub(crate) fn upstream(&self, member: Option<&str>) -> Option<&Upstream> {
        match member {
            None => self.upstreams.first(),
            Some(member) => self
                .upstreams
                .iter()
                .find(|upstream| upstream.name == member),
        }
    }
}

impl BadSettings {
    /// Whether the command line alone is wrong, whatever the file says.
    #[must_use]
    pub const fn is_of_the_command_line(&self) -> bool {
        matches!(
            self,
            Self::NoUpstream
                | Self::Address(_)
                | Self::Credentials(_)
                | Self::Version { .. }
                | Self::Twice(_)
                | Self::KeyRoot(_)
                | Self::SecretKey(_)
                | Self::Weight { .. }
        )
    }
}

/// Why a gateway cannot begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSettings {
    /// Nowhere to send calls.
    #[error("no upstream; say where calls go, such as --upstream openai")]
    NoUpstream,
    /// An address that cannot be one.
    #[error("upstream `{0}` needs an address with scheme and host, such as https://api.openai.com")]
    Address(String),
    /// An address with a user or a password.
    #[error(
        "the address of upstream `{0}` holds a user or a password; write it without, and the provider's credential into the environment variable {variable}", variable = Upstream::variable(.0)
    )]
    Credentials(String),
    /// An address that ends with the version that callers' paths begin with.
    #[error(
        "callers ask upstream `{name}` for /v1/...; write {address}, without `{version}` at its end"
    )]
    Version {
        /// The upstream.
        name: String,
        /// What to write.
        address: String,
        /// What to leave out.
        version: String,
    },
    /// A name of several upstreams.
    #[error(
        "two upstreams are called `{0}`; give each a name of its own, such as --upstream eu=azure@https://..."
    )]
    Twice(String),
    /// A policy that is not there.
    #[error(
        "there is no policy `{name}` (there is {known}); name one of them, or write it into the file"
    )]
    NoPolicy {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A member of a pool without an upstream.
    #[error("policy `{policy}` has a member `{member}`, and no upstream is called so")]
    NoUpstreamOf {
        /// The policy.
        policy: String,
        /// The member.
        member: String,
    },
    /// A member of a pool without a limit that others have.
    #[error(
        "member `{member}` of policy `{policy}` has no limit `{limit}`, which others have: no call could go there; give it one"
    )]
    Uneven {
        /// The policy.
        policy: String,
        /// The member.
        member: String,
        /// The limit.
        limit: String,
    },
    /// Several upstreams, and nothing that chooses between them.
    #[error(
        "policy `{0}` is no pool, and several upstreams are named: give it a member for each, or start a gateway for each"
    )]
    NoPool(String),
    /// Money that nobody knows the amount of.
    #[error(
        "policy `{0}` counts money; say what models cost: in `[price]` of the file, or with --price gpt-5=1.25,10"
    )]
    NoPrices(String),
    /// Money that no call uses less of than 1.
    #[error(
        "limit `{limit}` of policy `{policy}` counts money in whole ones, so every call costs 1 at least: give it unit = \"0.000001\""
    )]
    WholeMoney {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// A limit that nobody says the meaning of.
    #[error(
        "what does limit `{limit}` of policy `{policy}` count? Call it tokens, input-tokens, output-tokens or money, or say so with --counts {limit}=tokens"
    )]
    Unclear {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// A learnt limit that counts money.
    #[error(
        "limit `{limit}` of policy `{policy}` counts money, and no provider says how much there is: remove `learnt`"
    )]
    LearntMoney {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// A learnt limit that is not the account's.
    #[error(
        "limit `{limit}` of policy `{policy}` is learnt from the upstream, whose account all callers share: write key = \"account/caller\" into the policy, and level = \"account\" into the limit"
    )]
    LearntByCaller {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// Callers bring accounts of their own.
    #[error(
        "upstream `{0}` needs a credential of its own, as limits are learnt: each account has others; put it into the environment variable {variable}", variable = Upstream::variable(.0)
    )]
    LearntOfCallers(String),
    /// A root that is no level of a key.
    #[error("`{0}` cannot be the root of keys; it is one level, without `/`, such as openai")]
    KeyRoot(String),
    /// A header whose value is a secret, which a key is not.
    #[error(
        "a key stands in metrics and listings, and `{0}` holds a secret: leave --key-header out, and the key is the credential's hash, or name a header that says who calls"
    )]
    SecretKey(String),
    /// Keys that have no level below the root.
    #[error(
        "policy `{0}` has flat keys, and --key-root puts callers' keys below another; give it `key = \"account/caller\"`, and limits that all share `level = \"account\"`"
    )]
    FlatKeys(String),
    /// Keys of more levels than a credential makes.
    #[error(
        "policy `{policy}` has keys of {levels} levels, and a credential {}",
        match has_root {
            false => "is one: start with --key-root NAME, or name callers with --key-header",
            true => "below a root is two: name callers with --key-header",
        }
    )]
    MoreLevels {
        /// The policy.
        policy: String,
        /// How many levels its keys have.
        levels: usize,
        /// Whether a level stands before the credential.
        has_root: bool,
    },
    /// Callers that queue fairly, each before limits of its own.
    #[error(
        "callers share no limit of policy `{0}`, so there is nothing to queue for: start with --key-root NAME, give the policy `key = \"account/caller\"`, and limits that all share `level = \"account\"`"
    )]
    NothingShared(String),
    /// A weight that is none.
    #[error("a caller's weight is 1 to {MAX_WEIGHT}, not {weight}; change that of `{caller}`")]
    Weight {
        /// The caller.
        caller: String,
        /// The weight.
        weight: u32,
    },
    /// Callers send a token of ours where the provider wants one of its own.
    #[error(
        "upstream `{0}` needs a credential of its own: callers send their token of this gateway where the provider's would be; put it into the environment variable {variable}", variable = Upstream::variable(.0)
    )]
    NoSecret(String),
}
