//! Records of usage: how long they are kept, how they are listed, and what a full table does.

use std::sync::Arc;

use tidegate_core::{Align, Rule, Span, Window};
use tidegate_store::{Ending, Hour, Hours, OwnedKey, Plan, Select, Store, StoreError, UsageChange};

use super::fixture::{Fixture, rate, table_name};
use super::usage_fixture::{
    HOUR, KEPT, ample, buckets_of_tokens_and_calls, by_hour, counted, counting, in_all,
    needs_counting, sums, text, tokens_and_calls, usage,
};
use crate::fixture::{KEEP, SECOND, hourly, limit};
use crate::subject::{Skipped, Subject};
use crate::table_ext::{TableExt, every_item};

pub(super) fn usage_is_kept_for_as_long_as_the_plan_says(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let keep = Span::from_secs(2 * 3_600);
    let plan = Plan::new(0, 1, tokens_and_calls(), KEEP).counting_usage(Some(keep));
    let fixture = Fixture::remembering(&*subject.fresh(), &table_name(), Arc::new(plan));
    let (id, _) = fixture.hold(b"a", &[10], 90 * HOUR as u64);
    // From 22:13:20, the hour ends at 23:00, and its records are over at 1:00.
    fixture.pass(2 * HOUR + 46 * 60 * SECOND as i64);
    assert!(fixture.admits(b"a", &[1]));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:10 2:1");
    fixture.pass(41 * SECOND as i64);
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "2:1", "whoever asks");
    assert!(fixture.admits(b"a", &[1]));
    // What is over is not made again.
    let used = Ending::Settle(&[Some(500), None]);
    fixture.end(b"a", id, used).expect("held");
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "2:1 3:1");
    Ok(())
}

/// Records went by the retention that they were written with on some stores, and by that of now
/// on others.
pub(super) fn a_shorter_retention_holds_for_what_there_is_and_a_longer_one_from_then_on(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let keeping = |version, hours: Option<u64>| {
        let keep = hours.map(|hours| Span::from_secs(hours * 3_600));
        let plan = Plan::new(version, 1, tokens_and_calls(), KEEP);
        Arc::new(plan.counting_usage(keep))
    };
    let name = table_name();
    let mut fixture = Fixture::remembering(&*subject.fresh(), &name, keeping(0, Some(48)));
    let goes_on = |fixture: &mut Fixture, plan| {
        fixture.plan = plan;
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    };
    assert!(fixture.admits(b"a", &[5]));
    fixture.pass(3 * HOUR);
    assert!(fixture.admits(b"a", &[6]));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:5 3:6");
    goes_on(&mut fixture, keeping(1, Some(1)));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "3:6", "shorter");
    assert_eq!(in_all(&fixture), "a tokens 6");
    goes_on(&mut fixture, keeping(2, Some(72)));
    fixture.pass(HOUR);
    assert!(fixture.admits(b"a", &[7]));
    fixture.pass(44 * HOUR);
    let told = by_hour(&fixture, b"a", "tokens");
    assert!(
        told.ends_with("3:6 4:7"),
        "what was to be kept is kept: {told}"
    );
    fixture.pass(26 * HOUR);
    let told = by_hour(&fixture, b"a", "tokens");
    assert!(told.ends_with("4:7"), "longer: {told}");
    // Nothing is counted any more, and what was goes when it would have gone.
    goes_on(&mut fixture, keeping(3, None));
    assert!(fixture.admits(b"a", &[9]));
    assert!(by_hour(&fixture, b"a", "tokens").ends_with("4:7"));
    fixture.pass(5 * HOUR);
    assert_eq!(in_all(&fixture), "");
    assert!(fixture.admits(b"a", &[9]));
    assert_eq!(in_all(&fixture), "");
    Ok(())
}

pub(super) fn usage_is_listed_in_pages_each_record_once(subject: &Subject) -> Result<(), Skipped> {
    let limits = vec![
        limit("budget", 0, 0, ample()),
        limit("calls", 1, 1, ample()),
    ];
    let fixture = counted(subject, 2, limits)?;
    for n in 0..40 {
        let key = format!("root {}/{n}", n % 7);
        assert!(fixture.admits(key.as_bytes(), &[10, 1]));
    }
    let list = |select, most, between: &dyn Fn(usize)| {
        let page = |after: Option<&[u8]>| {
            let listing = fixture.listing(select, most, after);
            fixture.table.list_usage(&listing, Hours::ALL)
        };
        let items = every_item(most, page, between).expect("a page");
        let mut early: Vec<_> = items.into_iter().map(|used| text(&used.key)).collect();
        early.retain(|key| !key.starts_with("late"));
        early.sort_unstable();
        early
    };
    let late = |page: usize| {
        for n in 0..3 * usize::from(page < 10) {
            let key = format!("late {page}/{n}");
            assert!(fixture.admits(key.as_bytes(), &[1, 1]));
        }
    };
    for most in [1, 4, 1_000] {
        let listed = list(Select::All, most, &late);
        let mut once = listed.clone();
        once.dedup();
        assert_eq!((listed.len(), once.len()), (47, 47), "in pages of {most}");
    }
    assert_eq!(list(Select::Prefix(b"root 3/"), 2, &|_| ()).len(), 6);
    assert_eq!(list(Select::Key(b"root 3"), 2, &|_| ()), ["root 3"]);
    assert_eq!(list(Select::Key(b"root 3/10"), 2, &|_| ()), ["root 3/10"]);
    assert!(list(Select::Key(b"nobody"), 2, &|_| ()).is_empty());
    let unknown = fixture.listing(Select::All, 5, Some(b"\x07nowhere"));
    assert_eq!(
        fixture.table.list_usage(&unknown, Hours::ALL),
        Err(StoreError::UnknownPage)
    );
    Ok(())
}

/// A store may have what was used of an hour in two places: what a bucket's row has counted, and records
/// of what a lease of that hour gave back later. (A listing may move the one to the other: so each size
/// of pages is asked of a table of its own.)
pub(super) fn usage_in_rows_and_in_records_is_listed_once_at_every_size_of_pages(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for most in [1_000, 1, 2, 3, 7] {
        let mut limits = buckets_of_tokens_and_calls();
        limits.push(limit("total", 2, 0, rate(1, 1 << 40)));
        let fixture = counted(subject, 1, limits)?;
        for key in [&b"a"[..], b"c", b"d", b"f"] {
            let (id, _) = fixture.hold(key, &[500, 500, 500], 2 * HOUR as u64);
            fixture.pass(HOUR);
            assert!(fixture.admits(key, &[1, 0, 2]));
            let settle = Ending::Settle(&[Some(200), Some(700), None]);
            fixture.end(key, id, settle).expect("held");
            assert!(fixture.admits(key, &[3, 0, 0]));
            fixture.pass(-HOUR);
        }
        fixture.pass(HOUR);
        for key in [&b"b"[..], b"e", b"g"] {
            let (id, _) = fixture.hold(key, &[9, 0, 0], HOUR as u64);
            fixture.end(key, id, Ending::Cancel).expect("held");
        }
        let of_each = [
            ("calls", 0, 700),
            ("tokens", 0, 200),
            ("tokens", 1, 4),
            ("total", 0, 500),
            ("total", 1, 2),
        ];
        let first = Hour::of(tidegate_core::Timestamp::from_micros(super::fixture::START));
        let all: Vec<_> = ["a", "c", "d", "f"]
            .into_iter()
            .flat_map(|key| of_each.map(|(of, hour, amount)| (key.to_owned(), of, hour, amount)))
            .collect();
        for select in [Select::All, Select::Key(b"d"), Select::All] {
            let listed = usage(&fixture, select, Hours::ALL, most);
            let listed: Vec<_> = listed
                .iter()
                .map(|used| {
                    let hour = used.hour.number() - first.number();
                    (text(&used.key), &*used.limit, hour, used.amount)
                })
                .collect();
            let expected = match select {
                Select::Key(_) => &all[10..15],
                _ => &all[..],
            };
            assert_eq!(listed, expected, "{most} on a page");
        }
        // What is used after a listing is listed by the next.
        assert!(fixture.admits(b"d", &[5, 0, 0]));
        assert_eq!(by_hour(&fixture, b"d", "tokens"), "0:200 1:9");
    }
    Ok(())
}

pub(super) fn more_than_ten_thousand_hours_add_up(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let keep = Span::from_secs(20_000 * 3_600);
    let limits = vec![limit("total", 0, 0, hourly(1 << 40))];
    let plan = Plan::new(0, 1, limits, KEEP).counting_usage(Some(keep));
    let fixture = Fixture::remembering(&*subject.fresh(), &table_name(), Arc::new(plan));
    let hours = 10_240;
    for hour in 0..hours {
        fixture.debit(b"a", &[hour + 1]);
        fixture.pass(HOUR);
    }
    let told = usage(&fixture, Select::All, Hours::ALL, 1_000);
    assert_eq!(told.len() as u64, hours);
    let total: u64 = told.iter().map(|used| used.amount).sum();
    assert_eq!(total, hours * (hours + 1) / 2);
    let from = told[5].hour;
    let some = Hours {
        from,
        to: Hour::new(from.number() + 7),
    };
    let told = usage(&fixture, Select::Key(b"a"), some, 3);
    let told: Vec<_> = told.iter().map(|used| used.amount).collect();
    assert_eq!(told, [6, 7, 8, 9, 10, 11, 12]);
    Ok(())
}

pub(super) fn usage_survives_a_restart(subject: &Subject) -> Result<(), Skipped> {
    needs_counting(subject)?;
    let reopened = subject.reopened_store()?;
    let (store, name) = (subject.fresh(), table_name());
    let open =
        |store: &dyn Store| Fixture::remembering(store, &name, counting(0, 1, tokens_and_calls()));
    let fixture = open(&*store);
    assert!(fixture.admits(b"a", &[5, 1]));
    let (id, _) = fixture.hold(b"a", &[100, 1], 60 * SECOND);
    let told = usage(&fixture, Select::All, Hours::ALL, 9);
    drop((fixture, store));
    let again = open(&*reopened());
    assert_eq!(usage(&again, Select::All, Hours::ALL, 9), told);
    let used = Ending::Settle(&[Some(20), None]);
    again.end(b"a", id, used).expect("held");
    assert_eq!(in_all(&again), "a calls 2, a tokens 25");
    Ok(())
}

pub(super) fn a_table_that_is_full_of_usage_refuses_what_is_new_and_counts_the_rest(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let keep = Span::from_secs(100 * 3_600);
    let plan = Plan::new(0, 1, tokens_and_calls(), KEEP).counting_usage(Some(keep));
    let store = subject.bounded_store(4, 100)?;
    let fixture = Fixture::remembering(&*store, &table_name(), Arc::new(plan));
    let (id, _) = fixture.hold(b"a", &[10, 1], 900 * HOUR as u64);
    let mut refused = None;
    for hour in 1..20 {
        fixture.pass(HOUR);
        match fixture.take(b"a", &[1, 1]) {
            Ok(verdict) => assert!(verdict.admitted()),
            Err(error) => {
                refused = Some((hour, error));
                break;
            }
        }
    }
    let (hour, error) = refused.expect("its bound");
    assert_eq!((hour, error), (8, StoreError::UsageFull { max_usage: 16 }));
    let before = usage(&fixture, Select::All, Hours::ALL, 9);
    assert_eq!(before.len(), 16);
    let used = Ending::Settle(&[Some(25), None]);
    fixture.end(b"a", id, used).expect("held");
    assert!(by_hour(&fixture, b"a", "tokens").starts_with("0:25 1:1 "));
    // What is over makes room.
    fixture.pass(94 * HOUR);
    assert!(fixture.admits(b"a", &[1, 1]));
    Ok(())
}

/// A limit that is not asked, or that the records have already, takes no room.
pub(super) fn a_table_that_is_full_of_usage_goes_on_with_the_records_that_it_has(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let plan = Plan::new(0, 1, tokens_and_calls(), KEEP).counting_usage(Some(KEPT));
    let store = subject.bounded_store(1, 100)?;
    let fixture = Fixture::remembering(&*store, &table_name(), Arc::new(plan));
    assert!(fixture.admits(b"a", &[1, 1]));
    fixture.pass(HOUR);
    for _ in 0..2 {
        assert!(fixture.admits(b"a", &[0, 1]));
    }
    fixture.pass(HOUR);
    for _ in 0..3 {
        assert!(fixture.admits(b"a", &[0, 1]));
        let error = fixture.take(b"a", &[1, 1]);
        assert_eq!(error, Err(StoreError::UsageFull { max_usage: 4 }));
    }
    Ok(())
}

/// A record has never less than nothing, nor more than 2^63 - 1, and what is beyond breaks no
/// command.
pub(super) fn the_largest_amounts_add_up(subject: &Subject) -> Result<(), Skipped> {
    let fixture = counted(subject, 1, tokens_and_calls())?;
    let most = tidegate_core::MAX_AMOUNT;
    fixture.debit(b"a", &[most, 1]);
    fixture.debit(b"a", &[most, 1]);
    let two = sums(&fixture)[&(OwnedKey::new(b"a"), "tokens".into())];
    assert_eq!(two, 2 * most);
    let change = UsageChange {
        level: 0,
        limit: "tokens".into(),
        hour: Hour::default(),
        amount: most as i64,
    };
    assert_eq!(tidegate_store::usage::changed(two, change.amount), 3 * most);
    for _ in 0..1_030 {
        fixture.debit(b"a", &[most, 1]);
    }
    let all = sums(&fixture);
    let hours = usage(&fixture, Select::Key(b"a"), Hours::ALL, 9).len();
    assert_eq!(all[&(OwnedKey::new(b"a"), "calls".into())], 1_032);
    if hours == 2 {
        let tokens = all[&(OwnedKey::new(b"a"), "tokens".into())];
        assert_eq!(tokens, tidegate_store::usage::MOST_USED);
    }
    Ok(())
}

/// A retry of a lease that is held, and what its limits refuse, need no record.
pub(super) fn a_table_that_is_full_of_usage_answers_retries_and_refusals(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    needs_counting(subject)?;
    let mut limits = tokens_and_calls();
    let year = Align::FirstUse(Span::from_secs(365 * 86_400));
    limits[1].rule = Rule::Window(Window::new(2, year).expect("a sound budget"));
    let plan = Plan::new(0, 1, limits, KEEP).counting_usage(Some(KEPT));
    let store = subject.bounded_store(1, 100)?;
    let fixture = Fixture::remembering(&*store, &table_name(), Arc::new(plan));
    let ask = || fixture.lease_by(b"a", &[0, 1], 9 * HOUR as u64, Some(b"once"));
    assert!(fixture.admits(b"a", &[1, 1]));
    fixture.pass(HOUR);
    let held = ask().expect("an answer").lease.expect("it fits");
    assert!(fixture.admits(b"a", &[1, 0]));
    fixture.pass(HOUR);
    let again = ask().expect("an answer").lease.expect("it is held");
    assert_eq!((again.id, again.repeated), (held.id, true));
    assert!(!fixture.admits(b"a", &[0, 1]), "its limit says so");
    let full = StoreError::UsageFull { max_usage: 4 };
    assert_eq!(fixture.take(b"a", &[1, 0]), Err(full));
    assert!(
        ask()
            .expect("an answer")
            .lease
            .is_some_and(|of| of.repeated)
    );
    Ok(())
}
