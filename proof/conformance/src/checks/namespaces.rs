//! Namespaces of a store: they share nothing, and are cleared to nothing.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_store::{Ending, Hours, NamespacedStore, Plan, Select, Store, StoreError, Verb};

use super::definition_fixture::{DAY, about, change, made, put};
use super::fixture::{Fixture, overrides, rate, slots, table_name};
use super::listing;
use super::usage_fixture::{ample, usage};
use crate::fixture::{KEEP, SECOND, limit, machine_time};
use crate::later::wait_for;
use crate::namespace;
use crate::subject::{Skipped, Subject};

/// For how long usage is kept.
const KEPT: Span = Span::from_secs(86_400);

/// Names of namespaces that begin alike, or have what tells one from another.
const NAMES: [&str; 5] = ["a", "ab", "a/b", "a%2Fb", "%"];

/// What the table is called in each.
const TABLE: &str = "chat";

/// Whose definitions there are in each.
const OWNER: &str = "overrides";

fn namespace(store: &Arc<dyn Store>, name: &str) -> Arc<dyn Store> {
    Arc::new(NamespacedStore::new(Arc::clone(store), name))
}

/// Namespaces of the subject's that no other check has.
fn namespaces(subject: &Subject) -> Vec<Arc<dyn Store>> {
    let (store, own) = (subject.fresh(), table_name());
    let name = |name: &&str| namespace(&store, &format!("{own}{name}"));
    NAMES.iter().map(name).collect()
}

/// A rate and slots, counted where the store counts.
fn counted(subject: &Subject) -> Arc<Plan> {
    let limits = vec![
        limit("calls", 0, 0, ample()),
        limit("running", 1, 0, slots(5)),
    ];
    let keeps = subject.abilities().counts_usage.then_some(KEPT);
    Arc::new(Plan::new(0, 1, limits, KEEP).counting_usage(keeps))
}

fn table(store: &dyn Store, plan: &Arc<Plan>) -> Fixture {
    Fixture::remembering(store, TABLE, Arc::clone(plan))
}

/// Removes everything of a namespace; how many items.
fn clear(store: &dyn Store) -> Result<u64, Skipped> {
    match namespace::clear(store) {
        Err(StoreError::CannotClear) => Err("it cannot be cleared in part"),
        cleared => Ok(cleared.expect("an answer")),
    }
}

/// Uses everything that a namespace has: a key, leases, usage, definitions and events.
fn fill(store: &dyn Store, plan: &Arc<Plan>) -> Fixture {
    let fixture = table(store, plan);
    assert!(fixture.admits(b"alice", &[7, 0]));
    fixture.hold(b"alice", &[2, 1], 1_000 * SECOND);
    made(change(store, OWNER, put(b"alice", b"first")));
    let told = about(b"alice", b"told", DAY, 10);
    made(change(store, OWNER, put(b"bob", b"second").telling(told)));
    fixture
}

/// How many definitions there are, and how many events.
fn kept(store: &dyn Store) -> (usize, usize) {
    let definitions = wait_for(store.definitions(OWNER, 0)).expect("an answer");
    let events = wait_for(store.events(OWNER, None, None, 100, machine_time()));
    let events = events.expect("an answer").items.len();
    (definitions.changed.len(), events)
}

/// That nothing was ever there.
fn is_untouched(store: &dyn Store, plan: &Arc<Plan>) {
    assert_eq!(kept(store), (0, 0));
    assert_eq!(store.last_plan(TABLE).expect("an answer"), None);
    let page = wait_for(store.definitions_page(OWNER, b"", None, 10));
    assert_eq!(page.expect("an answer").items, []);
    let fixture = table(store, plan);
    assert_eq!(fixture.left(b"alice"), [1 << 50, 5]);
    if plan.usage().is_some() {
        assert_eq!(usage(&fixture, Select::All, Hours::ALL, 10), []);
    }
    lists_nothing(&fixture);
}

/// As far as the store lists what it holds.
fn lists_nothing(fixture: &Fixture) {
    if let Ok(keys) = listing::keys(fixture, Select::All) {
        assert_eq!(keys, []);
    }
    if let Ok(leases) = listing::leases(fixture, Select::All) {
        assert!(leases.is_empty(), "{leases:?}");
    }
}

pub(super) fn the_same_names_in_two_namespaces_share_nothing(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (spaces, plan) = (namespaces(subject), counted(subject));
    let one = table(&*spaces[0], &plan);
    let others: Vec<_> = spaces[1..].iter().map(|s| table(&**s, &plan)).collect();
    // What is taken, held, asked once or given to a key is so in one of them.
    assert!(one.admits(b"alice", &[7, 0]));
    let held = one.lease_by(b"alice", &[2, 1], 1_000 * SECOND, Some(b"once"));
    let held = held.expect("an answer").lease.expect("it fits");
    for (nth, other) in others.iter().enumerate() {
        assert_eq!(other.left(b"alice"), [1 << 50, 5]);
        let ended = other.end(b"alice", held.id, Ending::Release);
        assert!(matches!(ended, Err(StoreError::UnknownLease)), "{ended:?}");
        let renewed = Verb::Renew {
            id: held.id,
            until: one.now() + Span::SECOND,
        };
        let renewed = other.execute(b"alice", renewed);
        assert!(matches!(renewed, Err(StoreError::UnknownLease)));
        other.number_from(held.id + 1_000 * (1 + nth as u128));
        let again = other.lease_by(b"alice", &[1, 1], SECOND, Some(b"once"));
        let again = again.expect("an answer").lease.expect("it fits");
        assert!(!again.repeated && again.id != held.id);
    }
    assert_eq!(one.left(b"alice"), [(1 << 50) - 9, 4]);
    assert!(one.end(b"alice", held.id, Ending::Release).is_ok());
    // Nor do they see each other's definitions and events, or go by each other's versions.
    let told = about(b"alice", b"told", DAY, 10);
    let version = made(change(
        &*spaces[0],
        OWNER,
        put(b"alice", b"first").telling(told),
    ));
    for other in &spaces[1..] {
        assert_eq!(kept(&**other), (0, 0));
        let found = wait_for(other.definition(OWNER, b"alice"));
        assert_eq!(found.expect("an answer"), None);
        let expecting = put(b"alice", b"second").expecting(version);
        assert!(!change(&**other, OWNER, expecting).is_changed());
    }
    assert_eq!(kept(&*spaces[0]), (1, 1));
    if plan.usage().is_some() {
        let of_one = usage(&one, Select::All, Hours::ALL, 10);
        let calls = of_one.iter().filter(|used| &*used.limit == "calls");
        assert_eq!(calls.map(|used| used.amount).sum::<u64>(), 9);
        for other in &others {
            let used = usage(other, Select::All, Hours::ALL, 10);
            let calls = used.iter().filter(|used| &*used.limit == "calls");
            assert_eq!(calls.map(|used| used.amount).sum::<u64>(), 1);
        }
    }
    Ok(())
}

pub(super) fn a_namespace_is_cleared_to_nothing_and_no_other_is_touched(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (spaces, plan) = (namespaces(subject), counted(subject));
    clear(&*spaces[0])?;
    let mut filled: Vec<_> = spaces.iter().map(|s| Some(fill(&**s, &plan))).collect();
    for nth in 0..spaces.len() {
        // Nobody has the table any more.
        filled[nth] = None;
        assert!(clear(&*spaces[nth])? > 0);
        assert_eq!(clear(&*spaces[nth])?, 0, "nothing is left");
        for other in nth + 1..spaces.len() {
            let fixture = filled[other].as_ref().expect("it was filled");
            assert_eq!(fixture.left(b"alice"), [(1 << 50) - 9, 4]);
            assert_eq!(kept(&*spaces[other]), (2, 1));
        }
    }
    for space in &spaces {
        is_untouched(&**space, &plan);
    }
    Ok(())
}

/// Many more than one step removes.
const MANY: usize = 1_200;

pub(super) fn a_clear_that_was_cut_short_is_done_by_the_next(
    subject: &Subject,
) -> Result<(), Skipped> {
    let spaces = namespaces(subject);
    let (cut, other) = (&*spaces[0], &*spaces[1]);
    clear(cut)?;
    let rules = [(0, rate(1, 1_000)), (0, slots(2))];
    let plan = crate::fixture::plan(0, 1, &rules);
    let own = crate::fixture::plan(0, 1, &rules);
    let given = overrides(&plan, &[(&b"own"[..], &[rate(1, 9), slots(1)][..])]);
    let plan = Arc::new(plan.going_on(1, given));
    let untouched = table(other, &own);
    assert!(untouched.admits(b"0", &[3, 0]));
    {
        let fixture = table(cut, &plan);
        (0..MANY).for_each(|nth| {
            fixture.hold(nth.to_string().as_bytes(), &[1, 1], 1_000 * SECOND);
        });
        for nth in 0..MANY / 10 {
            let told = about(b"s", b"told", DAY, 1_000);
            let key = nth.to_string().into_bytes();
            made(change(cut, OWNER, put(&key, b"v").telling(told)));
        }
    }
    // Whoever cleared it was killed after a step.
    wait_for(cut.clear("", None)).expect("an answer");
    clear(cut)?;
    assert_eq!(clear(cut)?, 0, "nothing is left");
    assert_eq!(kept(cut), (0, 0));
    let fixture = table(cut, &own);
    assert_eq!(fixture.left(b"0"), [1_000, 2]);
    assert_eq!(fixture.left(b"own"), [1_000, 2]);
    lists_nothing(&fixture);
    assert_eq!(untouched.left(b"0"), [997, 2]);
    Ok(())
}
