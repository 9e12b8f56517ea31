//! A policy that counts near the caller is answered as any other.

use super::answers::{self, POLICIES, Scenario};
use super::common::{Work, at_once};
use crate::house::{House, PATIENT};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{PROTOCOLS, Protocol};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "tiered",
    holds: "Policies with a tier answer as those without: by grants of one unit, so that nothing is\n\
            held that another server could miss; their slots are the store's.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// What the policies have besides.
const TIER: &str = "tier = { mode = 'leased', batch = 1, low_water = 0, idle = '10ms' }";

/// Those of which units can be taken in advance, or slots given out, and that are asked for here.
const TIERED: [&str; 6] = ["plain", "calls", "every", "deep", "slots", "job"];

/// The cases of [`answers`] that ask them.
const CASES: &[&str] = &[
    "check",
    "check, every algorithm",
    "check, keys with levels",
    "check-many",
    "check-stream",
    "auth",
    "throttle",
    "acquire",
    "acquire, waits",
    "acquire, waits in vain",
    "settle",
    "release",
    "cancel",
    "renew",
    "adjust",
    "debit",
    "peek",
    "forecast",
    RESET,
    "keys",
    "capacity",
    "override set",
    "override shown",
    "override removed",
    RESET_BY_ID,
];

/// After these a server that refused hears of the other's reset when its refusal is over.
const RESET: &str = "reset";
const RESET_BY_ID: &str = "check, by an entity's id";

/// The policies, with a tier.
fn policies() -> String {
    let mut policies = POLICIES.to_owned();
    for name in TIERED {
        let (head, limits) = (
            format!("[policy.{name}]\n"),
            format!("[policy.{name}.limits]\n"),
        );
        policies = match policies.contains(&head) {
            true => policies.replace(&head, &format!("{head}{TIER}\n")),
            false => policies.replace(&limits, &format!("{head}{TIER}\n{limits}")),
        };
    }
    policies
}

fn scenarios(protocol: &Protocol) -> impl Iterator<Item = &'static Scenario> {
    answers::scenarios(protocol).filter(|scenario| CASES.contains(&scenario.case))
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        scenarios(protocol).map(|scenario| Row {
            protocol: protocol.name,
            case: scenario.case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = &house.pair("tiered", &policies(), PATIENT)?;
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for scenario in scenarios(protocol) {
            let in_turn = ![RESET, RESET_BY_ID].contains(&scenario.case);
            let does = move || answers::compare(("tiered", pair), protocol, scenario, in_turn);
            work.push((protocol.name, scenario.case, Box::new(does)));
        }
    }
    at_once(report, 3, work);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_that_are_asked_have_a_tier_and_every_case_there_is() {
        let file = tidegate_policy::parse("fleet.toml", &policies()).expect("no faults");
        let tiered = file.policies.iter().filter(|policy| policy.tier.is_some());
        assert_eq!(tiered.count(), TIERED.len());
        let rows = rows();
        for case in CASES {
            assert!(rows.iter().any(|row| row.case == *case), "{case}");
        }
    }
}
