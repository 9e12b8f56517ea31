//! Paths of entities: rows are found by root and id, so that an entity may move within its root.

use std::sync::Arc;

use tidegate_core::{Rule, Span};
use tidegate_store::{Detail, Ending, Plan, PlanLimit, Select, Verb};

use super::fixture::{Fixture, budget, plan, rate, slots, table_name};
use super::listing;
use crate::subject::{Skipped, Subject};

const SEARCH: &[u8] = b"/acme/search/alice";
const SALES: &[u8] = b"/acme/sales/alice";
/// The name of her row.
const ALICE: &[u8] = b"/acme//alice";

/// The same rule at each of three levels.
fn company(subject: &Subject, rule: Rule) -> Fixture {
    Fixture::new(subject, 3, &[(0, rule), (1, rule), (2, rule)])
}

/// Rules whose states are of different kinds, with room for `most`.
fn kinds(most: u64) -> [Rule; 3] {
    [budget(most), rate(1, most), slots(most)]
}

pub(super) fn a_path_of_entities_charges_every_ancestor_or_none(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in kinds(10) {
        let fixture = company(subject, rule);
        let hold = |key: &[u8], amounts: [u64; 3]| {
            let decision = fixture.lease(key, &amounts, 1_000_000);
            decision.verdict.admitted()
        };
        assert!(hold(SEARCH, [1, 6, 2]));
        assert_eq!(fixture.left(SEARCH), [9, 4, 8]);
        assert!(!hold(b"/acme/search/bob", [1, 5, 1]), "the team has 4 left");
        assert_eq!(fixture.left(b"/acme/search/bob"), [9, 4, 10]);
        assert!(!hold(SEARCH, [1, 1, 9]), "alice has 8 left");
        assert!(!hold(SEARCH, [10, 1, 1]), "the root has 9 left");
        assert_eq!(fixture.left(SEARCH), [9, 4, 8]);
        assert!(hold(b"/acme/search", [1, 4, 0]));
        assert!(hold(b"acme", [8, 0, 0]));
        assert_eq!(fixture.left(SEARCH), [0, 0, 8]);
    }
    Ok(())
}

pub(super) fn an_entity_that_moves_within_its_root_keeps_what_it_has_used(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in kinds(10) {
        let mut fixture = company(subject, rule);
        fixture.hold(SEARCH, &[3, 3, 3], 1_000_000);
        assert_eq!(fixture.left(SALES), [7, 10, 7]);
        fixture.hold(SALES, &[2, 2, 2], 1_000_000);
        assert_eq!(fixture.left(SEARCH), [5, 7, 5]);
        assert_eq!(fixture.left(b"/acme/hr/alice"), [5, 10, 5]);
        assert_eq!(fixture.left(b"/other/search/alice"), [10, 10, 10]);
        // The same id at another level is another entity.
        assert_eq!(fixture.left(b"/acme/alice"), [5, 10]);
        assert_eq!(fixture.left(b"/acme/alice/search"), [5, 10, 10]);
        fixture.change(&[(0, rule), (1, rule), (2, rule), (2, budget(9))]);
        assert_eq!(fixture.left(SALES), [5, 8, 5, 9]);
    }
    Ok(())
}

pub(super) fn only_the_roots_row_is_shared_with_composed_keys(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in kinds(10) {
        let fixture = company(subject, rule);
        fixture.hold(SEARCH, &[3, 3, 3], 1_000_000);
        assert_eq!(fixture.left(b"acme/search/alice"), [7, 10, 10]);
        fixture.hold(b"acme/search/alice", &[1, 2, 4], 1_000_000);
        fixture.hold(b"acme", &[2, 0, 0], 1_000_000);
        assert_eq!(fixture.left(SEARCH), [4, 7, 7]);
        assert_eq!(fixture.left(b"acme/search/alice"), [4, 8, 6]);

        // The last level of a composed key keeps what is left: separators, too.
        let fixture = Fixture::new(subject, 2, &[(0, rule), (1, rule)]);
        fixture.hold(b"/acme/alice", &[1, 1], 1_000_000);
        for composed in [&b"acme/alice"[..], b"acme//alice", b"acme/acme/alice"] {
            assert_eq!(fixture.left(composed), [9, 10]);
        }
    }
    Ok(())
}

pub(super) fn keys_of_one_level_are_no_paths_of_entities(subject: &Subject) -> Result<(), Skipped> {
    const KEYS: [&[u8]; 6] = [SEARCH, SALES, ALICE, b"//cdn/a/b", b"//cdn//b", b"acme"];
    for rule in kinds(10) {
        let mut fixture = Fixture::new(subject, 1, &[(0, rule)]);
        for (nth, key) in KEYS.iter().enumerate() {
            fixture.hold(key, &[nth as u64 + 1], 1_000_000);
        }
        let own: (&[u8], &[Rule]) = (SALES, &[rule]);
        fixture.give(&[own]);
        for (nth, key) in KEYS.iter().enumerate() {
            assert_eq!(fixture.left(key), [9 - nth as u64]);
            for listed in [
                listing::keys(&fixture, Select::Key(key))?,
                listing::leases(&fixture, Select::Key(key))?
                    .into_iter()
                    .map(|lease| lease.key)
                    .collect(),
            ] {
                assert_eq!(listed.len(), 1);
                assert_eq!(listed[0].bytes(), *key);
            }
        }
        let began = |beginning: &'static [u8]| -> Result<usize, Skipped> {
            Ok(listing::keys(&fixture, Select::Prefix(beginning))?.len())
        };
        assert_eq!((began(b"/acme/")?, began(b"//")?, began(b"/")?), (3, 2, 5));
        let held = listing::leases(&fixture, Select::Prefix(b"/acme/s"))?;
        assert_eq!(held.len(), 2);
    }
    Ok(())
}

pub(super) fn a_lease_of_an_entity_is_settled_where_it_was_granted(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in kinds(10) {
        let fixture = company(subject, rule);
        let (id, _) = fixture.hold(SEARCH, &[5, 5, 5], 1_000_000);
        fixture.hold(SALES, &[1, 1, 1], 1_000_000);
        let until = fixture.now() + Span::from_secs(2);
        fixture
            .execute(SEARCH, Verb::Renew { id, until })
            .expect("it is held");
        let less = Verb::Adjust {
            id,
            to: &[Some(3), Some(3), Some(3)],
            overdraw: false,
            detail: Detail::Verdict,
        };
        fixture.execute(SEARCH, less).expect("it is held");
        assert_eq!(fixture.left(SALES), [6, 9, 6]);
        assert_eq!(fixture.left(SEARCH), [6, 7, 6]);
        fixture.end(SEARCH, id, Ending::Cancel).expect("it is held");
        assert_eq!(fixture.left(SALES), [9, 9, 9]);
        assert_eq!(fixture.left(SEARCH), [9, 10, 9]);
    }
    Ok(())
}

pub(super) fn a_lease_of_an_entity_gives_back_at_its_expiry_where_it_was_granted(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let rules = [
        (0, budget(10)),
        (1, budget(10)),
        (2, budget(10)),
        (2, slots(10)),
    ];
    let plan = Arc::new(refunding(&plan(0, 3, &rules)));
    let fixture = Fixture::remembering(&*subject.fresh(), &table_name(), plan);
    fixture.hold(SEARCH, &[5, 5, 5, 5], 1_000);
    fixture.hold(SALES, &[1, 1, 1, 1], 1_000_000);
    fixture.pass(1_001);
    // Another key of the root is asked: it knows nothing of the rows that are given back to.
    assert_eq!(fixture.left(b"acme/other/bob")[..1], [9]);
    assert_eq!(fixture.left(SALES), [9, 9, 9, 9]);
    assert_eq!(fixture.left(SEARCH), [9, 10, 9, 9]);
    Ok(())
}

/// The same, of limits that give back what a lease took that expires.
fn refunding(plan: &Plan) -> Plan {
    let refunds = |limit: &PlanLimit| PlanLimit {
        refund_on_expiry: true,
        ..limit.clone()
    };
    let limits = plan.limits().iter().map(refunds).collect();
    Plan::new(plan.version(), plan.levels(), limits, plan.keep())
}

pub(super) fn a_reset_of_an_entity_is_of_it_alone_wherever_it_was(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = company(subject, budget(10));
    let (id, _) = fixture.hold(SEARCH, &[5, 5, 5], 1_000_000);
    let (bob, _) = fixture.hold(b"/acme/search/bob", &[2, 2, 2], 1_000_000);
    fixture.execute(SALES, Verb::Reset).expect("it is done");
    assert_eq!(fixture.left(SEARCH), [3, 3, 10]);
    assert_eq!(fixture.left(b"/acme/search/bob"), [3, 3, 8]);
    assert!(fixture.admits(SALES, &[0, 0, 4]));
    // What was forgotten is not given back to what was taken since.
    fixture.end(SEARCH, id, Ending::Cancel).expect("it is held");
    assert_eq!(fixture.left(SEARCH), [8, 8, 6]);
    fixture
        .end(b"/acme/search/bob", bob, Ending::Cancel)
        .expect("it is held");
    assert_eq!(fixture.left(b"/acme/search/bob"), [10, 10, 10]);
    Ok(())
}

pub(super) fn an_entitys_own_limits_hold_wherever_it_is(subject: &Subject) -> Result<(), Skipped> {
    for (rule, own) in [(budget(4), budget(20)), (slots(4), slots(20))] {
        let common = [(0, budget(100)), (1, budget(100)), (2, rule)];
        let mut fixture = Fixture::new(subject, 3, &common);
        fixture.hold(SEARCH, &[1, 1, 1], 1_000_000);
        fixture.give(&[(ALICE, &[own])]);
        assert_eq!(fixture.left(SEARCH), [99, 99, 19]);
        assert_eq!(fixture.left(SALES), [99, 100, 19]);
        assert_eq!(fixture.left(b"acme/search/alice"), [99, 100, 4]);
        assert_eq!(fixture.left(b"/other/search/alice"), [100, 100, 4]);
        fixture.hold(SALES, &[9, 9, 9], 1_000_000);
        assert_eq!(fixture.left(SEARCH), [90, 99, 10]);
        fixture.give(&[]);
        assert_eq!(fixture.left(SEARCH), [90, 99, 0]);
    }
    Ok(())
}

pub(super) fn entities_are_listed_by_the_names_of_their_rows(
    subject: &Subject,
) -> Result<(), Skipped> {
    let rules = [(0, budget(1_000)), (1, budget(1_000)), (2, slots(1_000))];
    let fixture = Fixture::new(subject, 3, &rules);
    for key in [SEARCH, SALES, b"/acmes/search/alice", b"acme/search/alice"] {
        fixture.hold(key, &[1, 1, 1], 1_000_000);
    }
    let named = |select| {
        let mut keys: Vec<_> = listing::keys(&fixture, select)?
            .iter()
            .map(listing::text)
            .collect();
        keys.sort_unstable();
        Ok::<_, Skipped>(keys.join(" "))
    };
    let all = "/acme//alice /acme/sales /acme/search /acmes//alice /acmes/search \
               acme acme/search acme/search/alice acmes";
    assert_eq!(named(Select::All)?, all);
    let acme = "/acme//alice /acme/sales /acme/search";
    assert_eq!(named(Select::Prefix(b"/acme/"))?, acme);
    assert_eq!(
        named(Select::Prefix(b"/acme/s"))?,
        "/acme/sales /acme/search"
    );
    assert_eq!(named(Select::Prefix(b"/acme//"))?, "/acme//alice");
    let both = "/acme//alice /acme/sales /acme/search /acmes//alice /acmes/search";
    assert_eq!(named(Select::Prefix(b"/ac"))?, both);
    let composed = "acme/search acme/search/alice";
    assert_eq!(named(Select::Prefix(b"acme/"))?, composed);
    assert_eq!(named(Select::Key(ALICE))?, "/acme//alice");
    assert_eq!(named(Select::Key(b"/acme/search"))?, "/acme/search");
    assert_eq!(named(Select::Key(b"/acme//bob"))?, "");

    let held = |select| {
        let held = listing::leases(&fixture, select)?;
        let mut held: Vec<_> = held.iter().map(|lease| listing::text(&lease.key)).collect();
        held.sort_unstable();
        Ok::<_, Skipped>(held.join(" "))
    };
    let hers = "/acme/sales/alice /acme/search/alice";
    assert_eq!(held(Select::Key(ALICE))?, hers);
    assert_eq!(held(Select::Prefix(b"/acme/"))?, hers);
    let all = "/acme/sales/alice /acme/search/alice /acmes/search/alice";
    assert_eq!(held(Select::Prefix(b"/ac"))?, all);
    assert_eq!(held(Select::Prefix(b"/acme/se"))?, "/acme/search/alice");
    assert_eq!(held(Select::Prefix(b"acme/"))?, "acme/search/alice");
    Ok(())
}

pub(super) fn what_an_entity_has_used_survives_a_restart(subject: &Subject) -> Result<(), Skipped> {
    let reopen = subject.reopened_store()?;
    for rule in kinds(10) {
        let (name, rules) = (table_name(), [(0, rule), (1, rule), (2, rule)]);
        let store = subject.fresh();
        let fixture = Fixture::remembering(&*store, &name, plan(0, 3, &rules));
        let (id, _) = fixture.hold(SEARCH, &[3, 3, 3], 1_000_000);
        drop((fixture, store));
        let store = reopen();
        let fixture = Fixture::remembering(&*store, &name, plan(0, 3, &rules));
        assert_eq!(fixture.left(SALES), [7, 10, 7]);
        fixture.end(SEARCH, id, Ending::Cancel).expect("it is held");
        assert_eq!(fixture.left(SALES), [10, 10, 10]);
    }
    Ok(())
}
