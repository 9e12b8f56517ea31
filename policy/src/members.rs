//! The members of a pool, and words about them.

use std::collections::HashMap;
use std::time::Duration;

use super::common::{Common, limits};
use super::fault::Faults;
use super::fields::{Field, Fields};
use super::limit::{self, LimitSyntax};
use tidegate::{Balance, Limit, Metadata, Unit};

/// What a member may say.
const SETTINGS: [&str; 4] = ["limits", "metadata", "weight", "cool_down"];

const BALANCERS: [(&str, Balance); 5] = [
    ("round_robin", Balance::RoundRobin),
    ("random", Balance::Random),
    ("least_loaded", Balance::LeastLoaded),
    ("first_available", Balance::FirstAvailable),
    ("weighted", Balance::Weighted),
];

/// The most members of a pool: each is asked in turn.
const MOST_MEMBERS: usize = 256;
/// The most words about one set.
const MOST_WORDS: usize = 64;
/// The longest word about a set, in bytes: it travels with every lease.
const LONGEST_WORD: usize = 1_024;

/// One member of a pool, as its file describes it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PolicyMember {
    /// The name: `eu` of `[policy.chat.member.eu]`.
    pub name: String,
    /// Its limits, at least one, in the order of the file.
    pub limits: Vec<Limit>,
    /// What the file says of each of them, in the same order.
    pub written: Vec<LimitSyntax>,
    /// Words that come with its leases, the policy's among them.
    pub metadata: Metadata,
    /// Its share of the work beside the others'; 1 if not said.
    pub weight: u32,
    /// How long it is passed over when work is said to have been dropped.
    pub cool_down: Option<Duration>,
}

/// The members and their balancer; nothing if the policy has none.
pub(super) fn read(
    policy: &Field<'_>,
    fields: &mut Fields<'_>,
    common: &Common<'_>,
    faults: &mut Faults<'_>,
) -> Option<(Vec<PolicyMember>, Balance)> {
    let balancer = fields.take("balancer");
    let Some(field) = fields.take("member") else {
        if let Some(balancer) = balancer {
            let help = format!(
                "remove it, or write `[policy.{}.member.NAME.limits]`",
                policy.name
            );
            faults.add(&balancer.key_span, "there are no members to balance", help);
        }
        return None;
    };
    let balance = balancer.and_then(|field| field.word(&BALANCERS, faults));
    let example = format!("`[policy.{}.member.NAME.limits]`", policy.name);
    let members = field.table(&example, faults).map(Fields::into_all);
    let members = members.unwrap_or_default();
    if members.is_empty() {
        let help = format!("write {example} and a limit on the next line");
        faults.add(&field.key_span, "there is no member in it", help);
    }
    if let Some(beyond) = members.get(MOST_MEMBERS) {
        let help = format!("keep at most {MOST_MEMBERS} members");
        faults.add(&beyond.key_span, "this member is one too many", help);
    }
    let entries = members;
    let members = entries.iter();
    let members = members.filter_map(|entry| member(policy.name, entry, common, faults));
    let members: Vec<_> = members.collect();
    one_unit_each(&field, &members, faults);
    let weights = members.iter().map(|member| member.weight);
    let balance = balance.unwrap_or_else(|| Balance::of_weights(weights));
    Some((members, balance))
}

/// Whoever asks a pool says an amount without knowing which member will take it.
fn one_unit_each(field: &Field<'_>, members: &[PolicyMember], faults: &mut Faults<'_>) {
    let mut units: HashMap<&str, (&str, Unit)> = HashMap::new();
    for member in members {
        for limit in &member.limits {
            let own = (&*member.name, limit.amounts());
            let (first, unit) = *units.entry(limit.name()).or_insert(own);
            if unit != own.1 {
                let message = format!(
                    "`{}` has the unit {} at `{}` and {unit} at `{first}`",
                    limit.name(),
                    own.1,
                    member.name
                );
                let help = "write the same `unit` at every member";
                faults.add(&field.key_span, message, help);
                return;
            }
        }
    }
}

fn member(
    policy: &str,
    entry: &Field<'_>,
    common: &Common<'_>,
    faults: &mut Faults<'_>,
) -> Option<PolicyMember> {
    let name = entry.name;
    let mut fields = entry.table(&format!("`[policy.{policy}.member.{name}.limits]`"), faults)?;
    if name.contains('/') {
        let help = "rename it: the store calls it `POLICY//NAME`";
        faults.add(&entry.key_span, "a member's name has no slash", help);
    }
    let weight = fields.take("weight");
    let weight = weight.and_then(|field| field.integer(1..=u64::from(u32::MAX), faults));
    let cool_down = fields.take("cool_down");
    let cool_down =
        cool_down.and_then(|field| field.duration(limit::shortest()..=limit::longest(), faults));
    // A member's own words go before the policy's.
    let mut words = common.metadata.clone();
    words.extend(metadata(&mut fields, faults));
    let (limits, written) = match fields.take("limits") {
        Some(field) => limits(&field, common, faults).into_iter().unzip(),
        None => {
            let message = format!("the member `{name}` has no limits");
            let help = format!(
                "write `[policy.{policy}.member.{name}.limits]` and a limit on the next line"
            );
            faults.add(&entry.key_span, message, help);
            Default::default()
        }
    };
    fields.finish("a member", &SETTINGS, faults);
    Some(PolicyMember {
        name: name.to_owned(),
        limits,
        written,
        metadata: words,
        weight: weight.and_then(|w| u32::try_from(w).ok()).unwrap_or(1),
        cool_down,
    })
}

/// Words that come with leases: `metadata = { region = "eu-west" }`.
pub(super) fn metadata(fields: &mut Fields<'_>, faults: &mut Faults<'_>) -> Metadata {
    let Some(field) = fields.take("metadata") else {
        return Metadata::new();
    };
    let words = field.table("`metadata = { region = \"eu-west\" }`", faults);
    let words = words.map(Fields::into_all).unwrap_or_default();
    if let Some(beyond) = words.get(MOST_WORDS) {
        let help = format!("keep at most {MOST_WORDS}");
        faults.add(&beyond.key_span, "this is one word too many", help);
    }
    let mut metadata = Metadata::new();
    for word in &words {
        let Some(text) = word.text("eu-west", faults) else {
            continue;
        };
        if text.len().max(word.name.len()) > LONGEST_WORD {
            let help = format!("keep it to {LONGEST_WORD} bytes: it travels with every lease");
            faults.add(&word.span, format!("`{}` is too long", word.name), help);
        }
        metadata.insert(word.name.to_owned(), text.to_owned());
    }
    metadata
}
