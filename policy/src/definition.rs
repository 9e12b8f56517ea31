//! One policy: a limit set with a name, or a pool of them.

use std::time::Duration;

use super::common::{Common, Limits, limits};
use super::fault::Faults;
use super::fields::{Field, Fields};
use super::levels;
use super::limit::{self, LimitSyntax};
use super::members::{self, PolicyMember};
use super::shape::Shape;
use super::suggest::write_instead;
use super::tier;
use tidegate::{Balance, LONGEST_USAGE, Limit, Metadata, SHORTEST_USAGE, Tier};

/// What a policy may say.
const SETTINGS: [&str; 21] = [
    "limits",
    "member",
    "balancer",
    "metadata",
    "key",
    "partial_keys",
    "ttl",
    "shadow",
    "max_keys",
    "max_keys_per_root",
    "max_leases",
    "max_leases_per_root",
    "max_remembered_leases",
    "remember",
    "usage",
    "max_waiting",
    "max_waiting_per_root",
    "jitter",
    "failure_mode",
    "share",
    "tier",
];

/// The share is said by itself.
const FAILURE_MODES: [(&str, FailureMode); 3] = [
    ("deny", FailureMode::Deny),
    ("admit", FailureMode::Admit),
    ("share", FailureMode::Share(0)),
];

/// The most keys, leases or waiters that a policy may ask for: what fits any machine.
const MOST: u64 = 1 << 40;

/// The least by which anybody can tell that they are to come back later.
const SHORTEST_JITTER: Duration = Duration::from_millis(1);

/// Who is told to come back so much later may think that they are told nonsense.
const LONGEST_JITTER: Duration = Duration::from_secs(3_600);

/// What is answered when the store cannot tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailureMode {
    /// An error: the caller decides what to do about it.
    #[default]
    Deny,
    /// Admitted, without a lease, and marked as degraded.
    Admit,
    /// Decided in this process by so many percent of each limit (at least one
    /// unit), and marked as degraded: 1 to 100.
    Share(u8),
}

impl FailureMode {
    /// What files call each of them.
    pub const NAMES: [&str; 3] = [
        Self::Deny.name(),
        Self::Admit.name(),
        Self::Share(100).name(),
    ];

    /// What files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Admit => "admit",
            Self::Share(_) => "share",
        }
    }
}

/// A named description of a limit set, or of a pool of them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The name: `chat` of `[policy.chat]`.
    pub name: String,
    /// The limits, in the order of the file; none for a pool.
    pub limits: Vec<Limit>,
    /// What the file says of each of them, in the same order.
    pub written: Vec<LimitSyntax>,
    /// The members of a pool, in the order of the file; none for a plain policy.
    pub members: Vec<PolicyMember>,
    /// Who is tried first, of a pool.
    pub balance: Balance,
    /// Words that come with every lease.
    pub metadata: Metadata,
    /// The names of a key's levels, outermost first; empty if keys are flat.
    pub levels: Vec<String>,
    /// Whether keys with fewer levels are let in.
    pub partial_keys: bool,
    /// How long a lease lasts that does not say; by its limits if not said.
    pub ttl: Option<Duration>,
    /// Whether all its limits are only recorded.
    pub shadow: bool,
    /// How many keys to remember; the engine's default if not said.
    pub max_keys: Option<usize>,
    /// How many keys to remember under one root; the engine's default if not said.
    pub max_keys_per_root: Option<usize>,
    /// How many leases may be held at once; the engine's default if not said.
    pub max_leases: Option<usize>,
    /// How many of them by keys of one root; the engine's default if not said.
    pub max_leases_per_root: Option<usize>,
    /// How many leases to remember after their end; the engine's default if not said.
    pub max_remembered_leases: Option<usize>,
    /// How long to remember them; as long as a lease lasts, and a minute at least,
    /// if not said.
    pub remember: Option<Duration>,
    /// For how long to keep what was used in an hour; not counted if not said.
    pub usage: Option<Duration>,
    /// How many may wait at once; the engine's default if not said.
    pub max_waiting: Option<usize>,
    /// How many of them by keys of one root; the engine's default if not said.
    pub max_waiting_per_root: Option<usize>,
    /// How much later than the exact instant those who are refused are told to come back,
    /// at most; not at all if not said.
    pub jitter: Option<Duration>,
    /// What is answered when the store cannot tell; `deny` if not said.
    pub failure_mode: FailureMode,
    /// Counts near the caller; each decision asks the store if not said.
    pub tier: Option<Tier>,
    /// What its file says, as it says it.
    pub shape: Shape,
}

impl Policy {
    /// Whether it has members instead of limits of its own.
    #[must_use]
    pub fn is_pool(&self) -> bool {
        !self.members.is_empty()
    }

    /// Its limits, or those of each member.
    pub fn limit_lists(&self) -> impl Iterator<Item = &[Limit]> {
        let plain = (!self.is_pool()).then_some(&*self.limits);
        plain
            .into_iter()
            .chain(self.members.iter().map(|member| &*member.limits))
    }

    /// A policy that no file has: one limit, and nothing else.
    #[must_use]
    pub fn unwritten(name: &str, limit: Limit) -> Self {
        Self {
            name: name.to_owned(),
            limits: vec![limit],
            written: Vec::new(),
            members: Vec::new(),
            balance: Balance::default(),
            metadata: Metadata::new(),
            levels: Vec::new(),
            partial_keys: false,
            ttl: None,
            shadow: false,
            max_keys: None,
            max_keys_per_root: None,
            max_leases: None,
            max_leases_per_root: None,
            max_remembered_leases: None,
            remember: None,
            usage: None,
            max_waiting: None,
            max_waiting_per_root: None,
            jitter: None,
            failure_mode: FailureMode::Deny,
            tier: None,
            shape: Shape::Table(Vec::new()),
        }
    }

    /// The member called `name`, of a pool.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&PolicyMember> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// The name that stands for all rates that come with the call, in tokens' rights and in
/// what is measured.
pub const RESERVED: &str = "throttle";

fn check_name(entry: &Field<'_>, faults: &mut Faults<'_>) {
    match entry.name {
        "" => faults.add(
            &entry.key_span,
            "a policy has no name",
            "write `[policy.NAME.limits]` with a name of at least one letter",
        ),
        RESERVED => faults.add(
            &entry.key_span,
            format!("`{RESERVED}` is taken: it stands for the rates that come with a THROTTLE"),
            "give the policy another name",
        ),
        _ => {}
    }
}

/// Reads a policy; `None` if it is none at all.
pub(super) fn read(entry: &Field<'_>, faults: &mut Faults<'_>) -> Option<Policy> {
    check_name(entry, faults);
    let mut fields = entry.table(&format!("`[policy.{}.limits]`", entry.name), faults)?;
    let levels = levels::read(&mut fields, faults);
    let partial_keys = levels::partial(&mut fields, &levels, faults);
    let shadow = fields.take("shadow").and_then(|field| field.flag(faults));
    let ttl = duration(&mut fields, "ttl", faults);
    let max_keys = count(&mut fields, "max_keys", faults);
    let max_keys_per_root = count(&mut fields, "max_keys_per_root", faults);
    let max_leases = count(&mut fields, "max_leases", faults);
    let max_leases_per_root = count(&mut fields, "max_leases_per_root", faults);
    let max_remembered_leases = count(&mut fields, "max_remembered_leases", faults);
    let remember = duration(&mut fields, "remember", faults);
    let usage = fields.take("usage");
    let usage = usage.and_then(|field| field.duration(SHORTEST_USAGE..=LONGEST_USAGE, faults));
    let max_waiting = count(&mut fields, "max_waiting", faults);
    let max_waiting_per_root = count(&mut fields, "max_waiting_per_root", faults);
    let jitter = fields.take("jitter");
    let jitter = jitter.and_then(|field| field.duration(SHORTEST_JITTER..=LONGEST_JITTER, faults));
    let failure_mode = failure_mode(&mut fields, faults);
    let metadata = members::metadata(&mut fields, faults);
    let common = Common {
        levels: &levels,
        shadow: shadow.unwrap_or_default(),
        metadata: &metadata,
    };
    let pool = members::read(entry, &mut fields, &common, faults);
    let (limits, written) = own_limits(entry, &mut fields, &common, pool.is_some(), faults);
    let tier = tier::read(&mut fields, (&limits, &levels), pool.is_some(), faults);
    fields.finish("a policy", &SETTINGS, faults);
    let (members, balance) = pool.unwrap_or_default();
    Some(Policy {
        name: entry.name.to_owned(),
        limits,
        written,
        members,
        balance,
        ttl,
        shadow: common.shadow,
        metadata,
        levels,
        partial_keys,
        max_keys,
        max_keys_per_root,
        max_leases,
        max_leases_per_root,
        max_remembered_leases,
        remember,
        usage,
        max_waiting,
        max_waiting_per_root,
        jitter,
        failure_mode: failure_mode.unwrap_or_default(),
        tier,
        shape: Shape::of(entry.node()),
    })
}

fn failure_mode(fields: &mut Fields<'_>, faults: &mut Faults<'_>) -> Option<FailureMode> {
    let mode = fields.take("failure_mode");
    let share = fields.take("share");
    let percent = share.as_ref().map(|share| share.integer(1..=100, faults));
    let word = mode.as_ref().map(|mode| mode.word(&FAILURE_MODES, faults));
    match (word.flatten(), &mode, &share, percent) {
        (Some(FailureMode::Share(_)), _, Some(_), percent) => {
            let percent = u8::try_from(percent.flatten()?).ok()?;
            Some(FailureMode::Share(percent))
        }
        (Some(FailureMode::Share(_)), Some(mode), None, _) => {
            let help = "write `share = 25` for a quarter of each limit, if four processes serve it";
            faults.add(&mode.key_span, "`share` is missing", help);
            None
        }
        (_, _, Some(share), _) => {
            let help = "write `failure_mode = \"share\"`, or take it out";
            faults.add(
                &share.key_span,
                "a share is for `failure_mode = \"share\"`",
                help,
            );
            None
        }
        (mode, ..) => mode,
    }
}

fn duration(fields: &mut Fields<'_>, name: &str, faults: &mut Faults<'_>) -> Option<Duration> {
    let field = fields.take(name)?;
    field.duration(limit::shortest()..=limit::longest(), faults)
}

fn count(fields: &mut Fields<'_>, name: &str, faults: &mut Faults<'_>) -> Option<usize> {
    let number = fields.take(name)?.integer(1..=MOST, faults)?;
    usize::try_from(number).ok()
}

fn own_limits(
    entry: &Field<'_>,
    fields: &mut Fields<'_>,
    common: &Common<'_>,
    is_pool: bool,
    faults: &mut Faults<'_>,
) -> (Vec<Limit>, Vec<LimitSyntax>) {
    let found = match fields.take("limits") {
        Some(field) if is_pool => {
            let message = "a pool has no limits of its own: every member has its own";
            let help = format!(
                "write them under `[policy.{}.member.NAME.limits]`",
                entry.name
            );
            faults.add(&field.key_span, message, help);
            Limits::new()
        }
        Some(field) => limits(&field, common, faults),
        None if is_pool => Limits::new(),
        None => stray_limits(entry, fields, faults),
    };
    found.into_iter().unzip()
}

/// A policy without `limits`: either they are misnamed, or they stand one
/// table too high, which is worth its own words.
fn stray_limits(entry: &Field<'_>, fields: &mut Fields<'_>, faults: &mut Faults<'_>) -> Limits {
    let message = format!("the policy `{}` has no limits", entry.name);
    let stray = fields.take_tables();
    let misnamed = stray
        .iter()
        .find(|field| write_instead(field.name, &["limits"]).starts_with("did"));
    let help = match (misnamed, stray.is_empty()) {
        (Some(field), _) => format!("rename `{}` to `limits`", field.name),
        (None, false) => format!("write them under `[policy.{}.limits]`", entry.name),
        (None, true) => {
            format!(
                "write `[policy.{}.limits]` and a limit on the next line",
                entry.name
            )
        }
    };
    faults.add(
        &stray
            .first()
            .map_or(&entry.key_span, |field| &field.key_span)
            .clone(),
        message,
        help,
    );
    Limits::new()
}
