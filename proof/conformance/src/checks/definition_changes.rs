//! Definitions read one by one, changed on a version, and known in part.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_store::definitions::MOST_ANCESTORS;
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Follower, Store};

use super::definition_fixture::{DAY, about, change, made, put, remove};
use super::fixture::table_name;
use crate::fixture::machine_time;
use crate::later::wait_for;
use crate::lineage::{self, below};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

/// So often a parent is exchanged while it is read.
const MOVES: usize = 60;

/// So many changes the model sees.
const CHANGES: usize = 300;

fn at(store: &dyn Store, owner: &str, key: &[u8]) -> Option<Definition> {
    wait_for(store.definition(owner, key)).expect("an answer")
}

/// The same under several keys at once.
fn definitions_at(store: &dyn Store, owner: &str, keys: &[&[u8]]) -> Vec<Option<Definition>> {
    wait_for(store.definitions_at(owner, keys)).expect("an answer")
}

/// Nothing was there that could be removed.
const NOTHING: Defined = Defined::Done {
    changed: false,
    version: 0,
};

pub(super) fn a_definition_is_read_by_itself_with_the_version_of_its_last_change(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let long = [7; 4_000];
    assert_eq!(at(&*store, &owner, b"k"), None);
    let first = made(change(&*store, &owner, put(b"k", b"first")));
    let other = made(change(&*store, &owner, put(&long, b"")));
    let second = made(change(&*store, &owner, put(b"k", b"second")));
    assert!(first < other && other < second);
    let known =
        |key: &[u8], value: &[u8], version| Some(Definition::new(key, value).at_version(version));
    assert_eq!(at(&*store, &owner, b"k"), known(b"k", b"second", second));
    let keys: [&[u8]; 4] = [&long, b"none", b"k", &long];
    let long_one = known(&long, b"", other);
    assert_eq!(
        definitions_at(&*store, &owner, &keys),
        [
            long_one.clone(),
            None,
            known(b"k", b"second", second),
            long_one
        ]
    );
    assert_eq!(definitions_at(&*store, &owner, &[]), []);
    assert_eq!(at(&*store, &owner, &long), known(&long, b"", other));
    // Who follows is told the same versions.
    for newer_than in [0, first] {
        let since = wait_for(store.definitions(&owner, newer_than)).expect("an answer");
        let versions: BTreeMap<_, _> = since
            .changed
            .iter()
            .map(|one| (one.key.clone(), one.version))
            .collect();
        let expected = [(long.to_vec(), other), (b"k".to_vec(), second)];
        assert_eq!(versions, BTreeMap::from(expected), "{newer_than}");
    }
    assert!(made(change(&*store, &owner, remove(b"k"))) > second);
    assert_eq!(at(&*store, &owner, b"k"), None);
    assert_eq!(at(&*store, &table_name(), &long), None, "it is another's");
    Ok(())
}

pub(super) fn a_definition_is_read_with_its_ancestors(subject: &Subject) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let keys: Vec<Vec<u8>> = [b"k".to_vec(), vec![7; 201], vec![8; 256], vec![9; 4_000]]
        .into_iter()
        .chain((1..9).map(|at| vec![at]))
        .collect();
    let define = |key: &[u8], value: &[u8]| made(change(&*store, &owner, put(key, value)));
    for pair in keys.windows(2) {
        define(&pair[0], &below(&pair[1]));
    }
    define(keys.last().expect("some"), b"v");
    let most = match subject.reads_ancestors() {
        true => 1 + MOST_ANCESTORS,
        false => 1,
    };
    let assert_reads = |from: usize, to: usize| {
        let expected: Vec<_> = keys[from..to].iter().take(most).collect();
        let found = lineage::read(&*store, &owner, &keys[from]);
        let found_keys: Vec<_> = found.iter().map(|one| &one.key).collect();
        assert_eq!(found_keys, expected);
        // Each is as it is by itself.
        for one in found {
            assert_eq!(at(&*store, &owner, &one.key), Some(one));
        }
    };
    for from in 0..keys.len() {
        assert_reads(from, keys.len());
    }
    assert_eq!(lineage::read(&*store, &owner, b"none"), []);
    assert_eq!(lineage::read(&*store, &table_name(), b"k"), []);
    // A parent that is not there, or not any more.
    made(change(&*store, &owner, remove(&keys[3])));
    assert_reads(0, 3);
    if store.abilities().own_clock {
        let moment = Definition::new(&*keys[3], below(&keys[4]));
        let moment = moment.lasting(Duration::from_micros(1));
        made(change(&*store, &owner, moment.into()));
        assert_reads(0, 3);
    }
    define(&keys[3], &below(&keys[4]));
    assert_reads(0, keys.len());
    // What is no parent's key, where there is a definition of what may be taken for one.
    let whole = below(&keys[2]);
    let flagged = [b"v\x02", &whole[2..]].concat();
    let longer = [&whole[..2], &[255; 4], &whole[6..]].concat();
    let far_longer = [&whole[..2], &[0, 1, 1, 0], &whole[6..]].concat();
    let cut = whole[..whole.len() - 5].to_vec();
    define(&whole[6..], b"v");
    define(&cut[6..], b"v");
    for value in [
        &flagged[..],
        &longer,
        &far_longer,
        &cut,
        b"",
        b"v",
        b"v\x01",
        b"v\x01\0\0\0\0",
    ] {
        define(&keys[1], value);
        assert_reads(0, 2);
    }
    define(b"self", &below(b"self"));
    let found = lineage::read(&*store, &owner, b"self");
    assert!(found.iter().all(|one| one.key == b"self"));
    assert_eq!(found.len(), most);
    Ok(())
}

/// Read one after the other, the parent that was is gone by the time it is asked for.
pub(super) fn a_definition_and_its_ancestors_are_read_as_of_one_instant(
    subject: &Subject,
) -> Result<(), Skipped> {
    if !subject.reads_ancestors() {
        return Err("the store reads a definition alone");
    }
    let (store, owner) = (subject.fresh(), table_name());
    let define = |key: &[u8], value: &[u8]| made(change(&*store, &owner, put(key, value)));
    define(b"k", &below(b"a"));
    define(b"a", &below(b"x"));
    define(b"x", b"v");
    let (begins, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !begins.load(Ordering::SeqCst) {
                thread::park_timeout(Duration::from_millis(1));
            }
            for (old, new) in [(b"x", b"y"), (b"y", b"x")].into_iter().cycle().take(MOVES) {
                define(new, b"v");
                define(b"a", &below(new));
                made(change(&*store, &owner, remove(old)));
            }
            ends.store(true, Ordering::SeqCst);
        });
        loop {
            let is_last = ends.load(Ordering::SeqCst);
            begins.store(true, Ordering::SeqCst);
            let found = lineage::read(&*store, &owner, b"k");
            let keys: Vec<_> = found.iter().map(|one| one.key.escape_ascii()).collect();
            assert_eq!(found.len(), 3, "{keys:?}");
            if is_last {
                break;
            }
        }
    });
    Ok(())
}

pub(super) fn a_definition_is_changed_if_it_has_the_version_that_is_expected(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let ask = |asked: Change| change(&*store, &owner, asked);
    let there = |value: &[u8], version| {
        Defined::Conflict(Some(Definition::new(b"k", value).at_version(version)))
    };
    assert_eq!(ask(put(b"k", b"0").expecting(7)), Defined::Conflict(None));
    assert_eq!(ask(remove(b"k").expecting(7)), Defined::Conflict(None));
    assert_eq!(ask(remove(b"k").expecting(0)), NOTHING);
    let first = made(ask(put(b"k", b"1").expecting(0)));
    // Only if nothing is there; and who was not answered is told that it was done.
    assert_eq!(ask(put(b"k", b"1").expecting(0)), there(b"1", first));
    let second = made(ask(put(b"k", b"2").expecting(first)));
    assert_eq!(ask(put(b"k", b"3").expecting(first)), there(b"2", second));
    assert_eq!(ask(remove(b"k").expecting(first)), there(b"2", second));
    // What is changed beside it is no concern of it.
    made(ask(put(b"other", b"x").expecting(0)));
    let third = made(ask(remove(b"k").expecting(second)));
    assert!(third > second);
    assert_eq!(ask(remove(b"k").expecting(second)), Defined::Conflict(None));
    // Another at the same place has another version.
    let fourth = made(ask(put(b"k", b"2").expecting(0)));
    assert!(fourth > third);
    assert_eq!(ask(put(b"k", b"5").expecting(second)), there(b"2", fourth));
    Ok(())
}

pub(super) fn of_changes_that_expect_one_version_one_is_made(
    subject: &Subject,
) -> Result<(), Skipped> {
    const AT_ONCE: u8 = 12;
    let (store, owner) = (subject.fresh(), table_name());
    let handles = match subject.reopened_store() {
        Ok(reopen) if store.abilities().shared => vec![Arc::clone(&store), reopen()],
        _ => vec![Arc::clone(&store)],
    };
    let mut version = 0;
    for round in 0..4 {
        let ask = |one: u8| {
            let asked = put(b"k", &[round, one]).expecting(version);
            handles[usize::from(one) % handles.len()].change(&owner, asked)
        };
        let under_way: Vec<_> = (0..AT_ONCE).map(ask).collect();
        let ended = under_way
            .into_iter()
            .map(|one| wait_for(one).expect("room"));
        let (done, conflicts): (Vec<_>, Vec<_>) = ended.partition(Defined::is_changed);
        let [done] = <[Defined; 1]>::try_from(done).expect("one was made");
        version = made(done);
        let there = at(&*store, &owner, b"k");
        assert_eq!(there.as_ref().map(|there| there.version), Some(version));
        let alike = |one: &Defined| *one == Defined::Conflict(there.clone());
        assert!(conflicts.iter().all(alike), "{conflicts:?}");
    }
    Ok(())
}

/// Keeps some of what is defined, and has begun at a version.
#[derive(Default)]
pub(super) struct Partial {
    /// The version, the keys it was told of, and how often it was told to forget all.
    told: Mutex<(u64, Vec<Vec<u8>>, usize)>,
}

impl Partial {
    pub(super) fn of(store: &dyn Store, owner: &str, version: u64) -> Arc<Self> {
        let this = Arc::<Self>::default();
        this.told.lock().expect("no test panics there").0 = version;
        let follower: Arc<dyn Follower> = Arc::clone(&this) as Arc<dyn Follower>;
        store.follow(owner, Arc::downgrade(&follower));
        this
    }

    pub(super) fn told(&self) -> (u64, Vec<Vec<u8>>, usize) {
        self.told.lock().expect("no test panics there").clone()
    }
}

impl Follower for Partial {
    fn version(&self) -> u64 {
        self.told.lock().expect("no test panics there").0
    }

    fn is_partial(&self) -> bool {
        true
    }

    fn follow(&self, definitions: &Definitions) {
        let mut told = self.told.lock().expect("no test panics there");
        if told.0 != definitions.newer_than {
            return;
        }
        told.0 = definitions.version;
        if definitions.whole {
            assert_eq!(definitions.changed, [], "it is never sent everything");
            told.1.clear();
            told.2 += 1;
        }
        for one in &definitions.changed {
            assert_eq!((&one.value, one.lasts), (&None, None), "keys alone");
            told.1.push(one.key.clone());
        }
    }
}

pub(super) fn who_keeps_some_is_told_of_changed_keys_alone(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    for key in 0..20_u8 {
        made(change(&*store, &owner, put(&[key], b"v")));
    }
    let partial = Partial::of(&*store, &owner, 0);
    let mut last = 0;
    for asked in [put(b"new", b"v"), put(b"new", b"w"), remove(&[7])] {
        last = made(change(&*store, &owner, asked));
        assert_eq!(partial.version(), last, "told before it is answered");
    }
    let (_, mut keys, forgotten) = partial.told();
    // How far it had come when it began is the store's: from then on it is told of each.
    assert_eq!(forgotten, 1, "what it knew before was forgotten once");
    keys.sort();
    keys.dedup();
    assert!(
        keys.iter().all(|key| key == b"new" || *key == [7]),
        "{keys:?}"
    );
    assert!(keys.contains(&vec![7]), "{keys:?}");
    assert_eq!(partial.told().0, last);
    Ok(())
}

/// What is kept, by the simplest means.
#[derive(Default)]
struct Model {
    kept: BTreeMap<Vec<u8>, Definition>,
    events: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn expect(&mut self, asked: &Change, defined: &Defined) {
        let Definition { key, value, .. } = &asked.definition;
        let there = self.kept.get(key).cloned();
        let at = there.as_ref().map_or(0, |there| there.version);
        if asked.expected.is_some_and(|expected| expected != at) {
            assert_eq!(*defined, Defined::Conflict(there));
            return;
        }
        if value.is_none() && there.is_none() {
            assert_eq!(*defined, NOTHING);
            return;
        }
        let version = made(defined.clone());
        match value {
            Some(_) => {
                let kept = asked.definition.clone().at_version(version);
                self.kept.insert(key.clone(), kept);
            }
            None => drop(self.kept.remove(key)),
        }
        if let Some(Event { subject, body, .. }) = &asked.event {
            self.events.push((version, subject.clone(), body.clone()));
        }
    }
}

/// A change of the kind that owners make, at random.
fn random(rng: &mut Rng, model: &Model, nth: usize) -> Change {
    let key = vec![b'k'; 1 + rng.below(5) as usize * 90];
    let at = model.kept.get(&key).map_or(0, |there| there.version);
    let asked = match rng.below(3) {
        0 => remove(&key),
        _ => put(&key, &nth.to_be_bytes()),
    };
    let asked = match rng.below(4) {
        0 => asked,
        1 => asked.expecting(0),
        2 => asked.expecting(at + rng.below(2)),
        _ => asked.expecting(at),
    };
    match rng.below(2) {
        0 => asked,
        _ => {
            let subject = [b's', rng.below(3) as u8];
            asked.telling(about(&subject, &nth.to_be_bytes(), DAY, 1_000))
        }
    }
}

pub(super) fn definitions_and_events_are_as_a_naive_model_has_them(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let (mut rng, mut model) = (Rng::new(16), Model::default());
    for nth in 0..CHANGES {
        let asked = random(&mut rng, &model, nth);
        let defined = change(&*store, &owner, asked.clone());
        model.expect(&asked, &defined);
        if nth % 10 == 0 {
            let key = &asked.definition.key;
            assert_eq!(at(&*store, &owner, key).as_ref(), model.kept.get(key));
        }
    }
    let page = wait_for(store.definitions_page(&owner, b"", None, 100)).expect("an answer");
    assert!(page.items.iter().eq(model.kept.values()));
    for about in [
        None,
        Some(&b"s\x00"[..]),
        Some(b"s\x01"),
        Some(b"s\x02"),
        Some(b"s"),
    ] {
        let read = store.events(&owner, about, None, 1_000, machine_time());
        let read = wait_for(read).expect("an answer").items;
        let told = read
            .into_iter()
            .map(|one| (one.version, one.subject, one.body));
        let is_about = |one: &&(u64, Vec<u8>, Vec<u8>)| about.is_none_or(|about| about == one.1);
        let expected = model.events.iter().filter(is_about).cloned();
        assert!(told.eq(expected), "{about:?}");
    }
    Ok(())
}
