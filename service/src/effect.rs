//! What a change means for keys that are in use, in words.

use super::sort::Sort;
use tidegate::{Limit, Tier};
use tidegate_policy::Policy;

pub(super) const OTHER_KEYS: &str = "keys are others: their state begins anew";
pub(super) const OTHER_SETS: &str = "the state begins anew, and old leases are unknown";

const NEXT: &str = "from the next decision on";
const STARTS_ANEW: &str = "its state begins anew";

/// Of a policy, a member or a limit that comes or goes.
pub(super) const fn of_whole(sort: Sort, is_member: bool, is_limit: bool) -> &'static str {
    match (sort, is_member, is_limit) {
        (Sort::Removed, _, true) => "from the next decision on; what was used of it is forgotten",
        (Sort::Removed, true, _) => {
            "it gets no more requests; its leases are unknown from now on, and requests that wait there alone get an error"
        }
        (Sort::Removed, ..) => {
            "it is unknown from now on; `memory:` and `file:` forget its state, on other stores that stays for a policy of its name"
        }
        (_, _, true) => "from the next decision on; nothing of it is used yet",
        (_, true, _) => "it gets requests from the next decision on",
        _ => NEXT,
    }
}

/// Of a setting of a policy or of a member.
pub(super) fn of_policy(setting: &str, _: Sort) -> &'static str {
    match setting {
        "max_keys"
        | "max_keys_per_root"
        | "max_leases"
        | "max_leases_per_root"
        | "max_remembered_leases"
        | "remember"
        | "usage"
        | "max_waiting"
        | "max_waiting_per_root" => "from the next start on",
        "ttl" => "for leases from now on",
        "metadata" => "with leases from now on",
        "cool_down" => "for cool-downs from now on",
        "balancer" | "weight" => "from the next decision on; leases stay where they are",
        _ => NEXT,
    }
}

/// Of the tier of a policy: what of its limits may be out at servers, and what is out becomes.
pub(super) fn of_tier(old: &Policy, new: &Policy) -> String {
    let leased = |policy: &Policy| policy.tier.clone().filter(Tier::is_leased);
    let mut told = vec!["from the next start on".to_owned()];
    if let Some(tier) = leased(new) {
        let out = new.limits.iter().map(|limit| may_be_out(limit, &tier));
        told.extend(out);
    }
    if let Some(tier) = leased(old) {
        told.push(format!(
            "what a server has out goes back when it stops, or is lost for {:?} at most",
            tier.longest_hold()
        ));
    }
    told.join("; ")
}

fn may_be_out(limit: &Limit, tier: &Tier) -> String {
    let (name, hold) = (limit.name(), tier.longest_hold());
    if limit.is_concurrency() {
        return match tier.slots_at_a_time(name, limit.at_most()) {
            Some(slots) => format!(
                "each server holds {slots} slots of `{name}` at a time, and gives them out for {hold:?}"
            ),
            None => format!("the store gives out each slot of `{name}`"),
        };
    }
    match tier.outstanding_for(name) {
        Some(units) => format!("up to {units} units of `{name}` may be out for {hold:?}"),
        None => format!(
            "each server takes {} units of `{name}` at a time, or what all requests that wait for them need, for {hold:?}, and no number bounds all that is out",
            tier.units_at_a_time(name).min(limit.at_most())
        ),
    }
}

/// Of a setting of a limit.
pub(super) fn of_limit(setting: &str, sort: Sort, old: &Limit, new: &Limit) -> &'static str {
    if old.is_concurrency() != new.is_concurrency() {
        return STARTS_ANEW;
    }
    match (setting, sort) {
        ("level", _) => STARTS_ANEW,
        ("unit", _) => {
            "from the next decision on; what was used counts in the new unit: give the limit another name to begin anew"
        }
        ("concurrency", Sort::Lowered) => {
            "from the next decision on; slots that are held stay held, and no request gets one until fewer are held"
        }
        (_, Sort::Raised) => "from the next decision on; no request waits longer",
        (_, Sort::Lowered) => {
            "from the next decision on; what was used stays used, at most all of it"
        }
        ("algorithm" | "per" | "zone", _) => {
            "from the next decision on; what is in use stays in use, at most all of it"
        }
        ("ttl", _) => "for leases from now on",
        _ => NEXT,
    }
}
