//! Events that are kept in the step of the change that they tell of.

use std::time::Duration;

use tidegate_store::core::{Span, Timestamp};
use tidegate_store::definitions::MOST_A_PAGE;
use tidegate_store::{Defined, Store, StoreError};

use super::definition_fixture::{DAY, about, change, made, put, remove};
use super::fixture::table_name;
use crate::fixture::machine_time;
use crate::later::wait_for;
use crate::subject::{Skipped, Subject};

/// Bodies and versions of all that are kept, in pages of `most`.
fn told(
    store: &dyn Store,
    owner: &str,
    subject: Option<&[u8]>,
    (most, now): (usize, Timestamp),
) -> Vec<(Vec<u8>, u64)> {
    let (mut all, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let page = store.events(owner, subject, after.as_deref(), most, now);
        let page = wait_for(page).expect("an answer");
        assert!(page.items.len() <= most);
        all.extend(page.items.into_iter().map(|one| (one.body, one.version)));
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

fn bodies(store: &dyn Store, owner: &str) -> Vec<Vec<u8>> {
    let all = told(store, owner, None, (100, machine_time()));
    all.into_iter().map(|(body, _)| body).collect()
}

pub(super) fn an_event_is_kept_if_its_change_is_made_and_only_then(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let tells = |body: &[u8]| about(b"acme", body, DAY, 100);
    let ask = |asked| change(&*store, &owner, asked);
    let none = ask(remove(b"k").telling(tells(b"nothing was there")));
    assert_eq!(
        none,
        Defined::Done {
            changed: false,
            version: 0
        }
    );
    let first = made(ask(put(b"k", b"1").expecting(0).telling(tells(b"set"))));
    let again = ask(put(b"k", b"1").expecting(0).telling(tells(b"set")));
    assert!(matches!(again, Defined::Conflict(Some(_))), "{again:?}");
    made(ask(put(b"k", b"2")));
    let asked = remove(b"k").telling(about(b"other\x00", b"", DAY, 100));
    let last = made(ask(asked));
    let now = machine_time();
    let all = told(&*store, &owner, None, (100, now));
    assert_eq!(all, [(b"set".to_vec(), first), (Vec::new(), last)]);
    let page = wait_for(store.events(&owner, Some(b"other\x00"), None, 9, now));
    let page = page.expect("an answer");
    let [event] = &page.items[..] else {
        panic!("{page:?}")
    };
    assert_eq!((&event.subject[..], event.most), (&b"other\x00"[..], 100));
    assert!(event.lasts <= DAY && event.lasts > DAY / 2, "{event:?}");
    assert_eq!(told(&*store, &owner, Some(b"nobody"), (9, now)), []);
    assert_eq!(told(&*store, &table_name(), None, (9, now)), []);
    Ok(())
}

pub(super) fn events_are_listed_in_order_of_all_and_of_one_subject(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let long = [b's'; 400];
    let subjects = [&b"a"[..], b"ab", b"", &long, &long[..399]];
    let mut expected = Vec::new();
    for nth in 0..23_u8 {
        let subject = subjects[usize::from(nth) % subjects.len()];
        let event = about(subject, &[nth], DAY, 100);
        let version = made(change(&*store, &owner, put(b"k", &[nth]).telling(event)));
        expected.push((subject, (vec![nth], version)));
    }
    let now = machine_time();
    for most in [1, 2, 5, MOST_A_PAGE] {
        let all: Vec<_> = expected.iter().map(|(_, told)| told.clone()).collect();
        assert_eq!(told(&*store, &owner, None, (most, now)), all, "{most}");
        for subject in subjects {
            let theirs = expected.iter().filter(|(of, _)| *of == subject);
            let theirs: Vec<_> = theirs.map(|(_, told)| told.clone()).collect();
            let listed = told(&*store, &owner, Some(subject), (most, now));
            assert_eq!(listed, theirs, "{most} {subject:?}");
        }
    }
    for cursor in [&b""[..], b"1234567", b"\xff\xff\xff\xff\xff\xff\xff\xff"] {
        let page = wait_for(store.events(&owner, None, Some(cursor), 9, now));
        assert_eq!(page.err(), Some(StoreError::UnknownPage), "{cursor:?}");
    }
    Ok(())
}

pub(super) fn an_event_is_over_after_its_time_and_the_oldest_of_too_many_go(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let tell = |nth: u8, lasts, most| {
        let event = about(b"s", &[nth], lasts, most);
        made(change(&*store, &owner, put(b"k", &[nth]).telling(event)));
    };
    let moment = Duration::from_micros(1);
    tell(0, DAY, 100);
    tell(1, moment, 100);
    tell(2, DAY, 100);
    // By then the moment has passed by any clock.
    let later = machine_time() + Span::from_millis(1);
    let kept = told(&*store, &owner, None, (1, later));
    let kept: Vec<_> = kept.into_iter().map(|(body, _)| body[0]).collect();
    assert_eq!(kept, [0, 2]);
    tell(3, DAY, 3);
    assert_eq!(bodies(&*store, &owner), [[0], [2], [3]]);
    tell(4, DAY, 3);
    assert_eq!(bodies(&*store, &owner), [[2], [3], [4]]);
    tell(5, DAY, 1);
    assert_eq!(bodies(&*store, &owner), [[5]]);
    tell(6, DAY, 0);
    assert_eq!(bodies(&*store, &owner), [[6]], "one is kept in any case");
    Ok(())
}

pub(super) fn versions_and_events_survive_a_restart(subject: &Subject) -> Result<(), Skipped> {
    let reopen = subject.reopened_store()?;
    let (store, owner) = (subject.fresh(), table_name());
    let tells = |body: &[u8]| about(b"s", body, DAY, 100);
    let first = made(change(
        &*store,
        &owner,
        put(b"k", b"1").telling(tells(b"1")),
    ));
    let second = made(change(
        &*store,
        &owner,
        put(b"other", b"2").telling(tells(b"2")),
    ));
    drop(store);
    let store = reopen();
    let there = wait_for(store.definition(&owner, b"k")).expect("an answer");
    assert_eq!(there.map(|there| there.version), Some(first));
    let all = [(b"1".to_vec(), first), (b"2".to_vec(), second)];
    assert_eq!(told(&*store, &owner, None, (1, machine_time())), all);
    let asked = put(b"k", b"3").expecting(second).telling(tells(b"3"));
    assert!(!change(&*store, &owner, asked).is_changed());
    let third = made(change(&*store, &owner, put(b"k", b"3").expecting(first)));
    assert!(third > second, "it grows on");
    assert_eq!(told(&*store, &owner, Some(b"s"), (9, machine_time())), all);
    Ok(())
}
