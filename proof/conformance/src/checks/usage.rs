//! What was used, hour by hour: charged in the hour, corrected where it was charged.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Align, Amount, Bucket, Rule, Span, Verdict, Window};
use tidegate_store::{
    Detail, Ending, Hour, Hours, OwnedKey, Plan, PlanLimit, Select, Store, StoreError, Usage,
    UsageChange, Verb,
};

use super::fixture::{Fixture, overrides, rate, slots, table_name};
use crate::fixture::{KEEP, SECOND, hourly, limit};
use crate::subject::{Skipped, Subject};
use crate::table_ext::{TableExt, every_item};

const HOUR: i64 = 3_600 * SECOND as i64;

/// For how long these plans keep usage, unless a check says otherwise.
pub(super) const KEPT: Span = Span::from_secs(400 * 86_400);

/// As good as no limit: a year's, from the first use on.
pub(super) fn ample() -> Rule {
    let align = Align::FirstUse(Span::from_secs(365 * 86_400));
    Rule::Window(Window::new(1 << 50, align).expect("a sound budget"))
}

/// A plan of these limits that counts usage.
fn counting(version: u64, levels: usize, limits: Vec<PlanLimit>) -> Arc<Plan> {
    let plan = Plan::new(version, levels, limits, KEEP).counting_usage(Some(KEPT));
    Arc::new(plan)
}

/// Two limits, ample and named so, on one level.
fn tokens_and_calls() -> Vec<PlanLimit> {
    vec![
        limit("tokens", 0, 0, ample()),
        limit("calls", 1, 0, ample()),
    ]
}

/// The same as buckets: what most stores have a way of its own for.
fn buckets_of_tokens_and_calls() -> Vec<PlanLimit> {
    let mut limits = tokens_and_calls();
    for limit in &mut limits {
        limit.rule = rate(1_000, 1 << 40);
    }
    limits
}

pub(super) fn needs_counting(subject: &Subject) -> Result<(), Skipped> {
    match subject.abilities().counts_usage {
        true => Ok(()),
        false => Err("it does not count usage"),
    }
}

/// A table of the subject's by a plan that counts usage.
fn counted(subject: &Subject, levels: usize, limits: Vec<PlanLimit>) -> Result<Fixture, Skipped> {
    needs_counting(subject)?;
    let plan = counting(0, levels, limits);
    Ok(Fixture::remembering(&*subject.fresh(), &table_name(), plan))
}

/// All of these records, in pages of `most`.
pub(super) fn usage(
    fixture: &Fixture,
    select: Select<'_>,
    hours: Hours,
    most: usize,
) -> Vec<Usage> {
    let list = |after: Option<&[u8]>| {
        let listing = fixture.listing(select, most, after);
        fixture.table.list_usage(&listing, hours)
    };
    let mut items = every_item(most, list, |_| ()).expect("a page");
    items.sort_unstable();
    items
}

/// What there is of each row and limit, over all hours.
pub(super) fn sums(fixture: &Fixture) -> BTreeMap<(OwnedKey, Arc<str>), u64> {
    let mut sums = BTreeMap::new();
    for used in usage(fixture, Select::All, Hours::ALL, 50) {
        *sums.entry((used.key, used.limit)).or_default() += used.amount;
    }
    sums
}

/// The same in words: `key limit amount, ...`.
fn in_all(fixture: &Fixture) -> String {
    let sums = sums(fixture).into_iter();
    let words = sums.map(|((key, limit), amount)| format!("{} {limit} {amount}", text(&key)));
    words.collect::<Vec<_>>().join(", ")
}

/// Of one limit in the hours from the checks' first on: `hour:amount ...`.
fn by_hour(fixture: &Fixture, key: &[u8], of: &str) -> String {
    let first = Hour::of(tidegate_core::Timestamp::from_micros(super::fixture::START));
    let items = usage(fixture, Select::Key(key), Hours::ALL, 3).into_iter();
    let items = items.filter(|used| &*used.limit == of);
    let words = items.map(|used| {
        let hour = used.hour.number() - first.number();
        format!("{hour}:{}", used.amount)
    });
    words.collect::<Vec<_>>().join(" ")
}

fn text(key: &OwnedKey) -> String {
    String::from_utf8_lossy(key.bytes()).into_owned()
}

fn adjust(
    fixture: &Fixture,
    key: &[u8],
    id: u128,
    to: &[Option<Amount>],
    overdraw: bool,
) -> Result<bool, StoreError> {
    let verb = Verb::Adjust {
        id,
        to,
        overdraw,
        detail: Detail::Verdict,
    };
    Ok(fixture.decide(key, verb)?.verdict.admitted())
}

pub(super) fn what_is_consumed_is_counted(subject: &Subject) -> Result<(), Skipped> {
    let mut limits = tokens_and_calls();
    limits[1].rule = hourly(9);
    limits.push(limit("running", 2, 0, slots(5)));
    let fixture = counted(subject, 1, limits)?;
    assert!(fixture.admits(b"a", &[5, 1]));
    assert!(fixture.admits(b"a", &[7]));
    assert!(!fixture.admits(b"a", &[100, 9]), "refused: nothing is used");
    fixture.debit(b"a", &[30, 10]);
    fixture.hold(b"a", &[1_000, 0, 2], SECOND);
    fixture.left(b"a");
    assert!(fixture.admits(b"b", &[1]));
    assert_eq!(in_all(&fixture), "a calls 11, a tokens 1042, b tokens 1");
    Ok(())
}

pub(super) fn what_is_taken_of_buckets_is_counted(subject: &Subject) -> Result<(), Skipped> {
    let slow = Bucket::new(1, Span::from_secs(3_600), 1_000).expect("a sound rate");
    let limits = vec![limit("tokens", 0, 0, Rule::Bucket(slow))];
    let one = counted(subject, 1, limits)?;
    assert_eq!(
        one.verdict(b"a", &[300]),
        Verdict::Admit,
        "of a key never seen"
    );
    assert!(one.admits(b"a", &[200]));
    assert!(!one.admits(b"a", &[1_000]), "refused: nothing is used");
    let told = one.decision(b"a", &[100]).expect("a decision");
    assert!(told.verdict.admitted());
    assert!(one.admits(b"a", &[0]));
    one.debit(b"a", &[30]);
    assert!(one.admits(b"b", &[1]));
    assert_eq!(in_all(&one), "a tokens 630, b tokens 1");

    let mut limits = buckets_of_tokens_and_calls();
    limits.push(limit("running", 2, 0, slots(3)));
    let set = counted(subject, 1, limits)?;
    assert!(set.admits(b"a", &[5, 1]));
    assert!(set.admits(b"a", &[7]));
    let hold = |amounts: &[Amount]| set.hold(b"a", amounts, 60 * SECOND).0;
    let ids = [[100, 1, 1], [200, 1, 1], [400, 0, 1]].map(|amounts| hold(&amounts));
    let end = |at: usize, ending| set.end(b"a", ids[at], ending).expect("held");
    end(0, Ending::Settle(&[Some(40), Some(3), None]));
    end(1, Ending::Cancel);
    end(2, Ending::Settle(&[None, Some(2), None]));
    hold(&[1_000, 1, 1]);
    assert_eq!(in_all(&set), "a calls 7, a tokens 1452");
    Ok(())
}

pub(super) fn usage_is_counted_in_the_hour_in_which_it_is_charged(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = counted(subject, 1, tokens_and_calls())?;
    for tokens in [5, 6, 7] {
        assert!(fixture.admits(b"a", &[tokens]));
        fixture.debit(b"a", &[10]);
        fixture.pass(HOUR / 2);
    }
    // The checks begin at 22:13:20.
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:31 1:17");
    Ok(())
}

pub(super) fn a_late_settlement_corrects_the_hour_that_was_charged(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for limits in [tokens_and_calls(), buckets_of_tokens_and_calls()] {
        settled_late(&counted(subject, 1, limits)?);
    }
    Ok(())
}

fn settled_late(fixture: &Fixture) {
    let by_hour = |of| by_hour(fixture, b"a", of);
    let take = || fixture.hold(b"a", &[100, 1], 9 * HOUR as u64).0;
    let ids: Vec<u128> = (0..6).map(|_| take()).collect();
    assert_eq!(by_hour("tokens"), "0:600");
    fixture.pass(3 * HOUR);
    let end = |at: usize, ending| fixture.end(b"a", ids[at], ending).expect("held");
    end(0, Ending::Settle(&[Some(30), None]));
    assert_eq!(by_hour("tokens"), "0:530", "less");
    end(1, Ending::Settle(&[Some(300), Some(4)]));
    assert_eq!(by_hour("tokens"), "0:730", "more");
    end(2, Ending::Cancel);
    end(3, Ending::Release);
    end(4, Ending::Fail(&[true, false]));
    assert_eq!(by_hour("tokens"), "0:530");
    assert_eq!(by_hour("calls"), "0:8");
    // Of what it did not take, too.
    let (id, _) = fixture.hold(b"a", &[1], 9 * HOUR as u64);
    fixture.pass(HOUR);
    let used = [Some(1), Some(3)];
    fixture.end(b"a", id, Ending::Settle(&used)).expect("held");
    assert_eq!(by_hour("calls"), "0:8 3:3");
}

pub(super) fn a_lease_counts_in_the_hour_it_was_granted_however_it_is_adjusted(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let mut limits = tokens_and_calls();
    limits[1].rule = hourly(10);
    let fixture = counted(subject, 1, limits)?;
    let (id, _) = fixture.hold(b"a", &[100, 1], 90 * HOUR as u64);
    fixture.pass(2 * HOUR);
    let to = |to: &[Option<Amount>], overdraw| {
        adjust(&fixture, b"a", id, to, overdraw).expect("an answer")
    };
    assert!(to(&[Some(500)], false));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:500", "up");
    fixture.pass(HOUR);
    assert!(to(&[Some(40), Some(3)], false));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:40", "down");
    assert!(!to(&[Some(900), Some(99)], false), "refused as a whole");
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:40");
    assert!(to(&[None, Some(99)], true), "into debt");
    assert_eq!(by_hour(&fixture, b"a", "calls"), "0:99");
    fixture.pass(HOUR);
    let used = [Some(41), Some(50)];
    fixture.end(b"a", id, Ending::Settle(&used)).expect("held");
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:41");
    assert_eq!(by_hour(&fixture, b"a", "calls"), "0:50");
    Ok(())
}

pub(super) fn what_is_repeated_is_counted_once(subject: &Subject) -> Result<(), Skipped> {
    let fixture = counted(subject, 1, tokens_and_calls())?;
    let ask = || {
        let asked = fixture.lease_by(b"a", &[10, 1], 60 * SECOND, Some(b"once"));
        asked.expect("an answer").lease.expect("it fits")
    };
    let (first, again) = (ask(), ask());
    assert_eq!((first.id, again.repeated), (again.id, true));
    assert_eq!(in_all(&fixture), "a calls 1, a tokens 10");
    for _ in 0..3 {
        assert_eq!(
            adjust(&fixture, b"a", first.id, &[Some(25)], false),
            Ok(true)
        );
        assert_eq!(in_all(&fixture), "a calls 1, a tokens 25");
    }
    for used in [4, 4, 9] {
        let ending = Ending::Settle(&[Some(used), None]);
        let settled = fixture.end(b"a", first.id, ending).expect("known");
        assert_eq!(settled.uses[0].used, 4);
        assert_eq!(in_all(&fixture), "a calls 1, a tokens 4");
    }
    assert_eq!(
        fixture.end(b"a", 1 << 90, Ending::Cancel),
        Err(StoreError::UnknownLease)
    );
    assert_eq!(in_all(&fixture), "a calls 1, a tokens 4");
    // After the end of its lease a request by the same key is another one.
    assert!(!ask().repeated);
    assert_eq!(in_all(&fixture), "a calls 2, a tokens 14");
    Ok(())
}

pub(super) fn an_expired_lease_stays_counted_as_its_limits_have_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let mut limits = tokens_and_calls();
    limits[1].refund_on_expiry = true;
    let fixture = counted(subject, 1, limits)?;
    let late = fixture.hold(b"a", &[10, 10], SECOND).0;
    let lost = fixture.hold(b"a", &[100, 100], SECOND).0;
    fixture.pass(2 * SECOND as i64);
    // Somebody else's command finds them.
    assert!(fixture.admits(b"a", &[1, 1]));
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:111");
    assert_eq!(by_hour(&fixture, b"a", "calls"), "0:1");
    let used = Ending::Settle(&[Some(3), Some(4)]);
    let settled = fixture.end(b"a", late, used).expect("remembered");
    assert!(settled.expired);
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:104");
    assert_eq!(by_hour(&fixture, b"a", "calls"), "0:5");
    fixture.pass(HOUR);
    assert!(fixture.end(b"a", lost, Ending::Cancel).is_err());
    assert_eq!(by_hour(&fixture, b"a", "tokens"), "0:104");
    Ok(())
}

/// Whoever lists usage is the first who asks for anything of those roots after their leases have
/// expired: by one key, by what begins so, and by all.
pub(super) fn what_expired_leases_give_back_is_not_listed(
    subject: &Subject,
) -> Result<(), Skipped> {
    let mut limits = tokens_and_calls();
    limits.push(limit("calls below", 2, 1, hourly(1_000)));
    limits[1].refund_on_expiry = true;
    limits[2].refund_on_expiry = true;
    let own_clock = subject.abilities().own_clock;
    // One is longer than any index has it, one has a path of entities, one has many.
    let long = [&[b'l'; 400][..], b"/x"].concat();
    let all: [(&[u8], usize); 4] = [(b"a/x", 5), (b"/b/x", 5), (&long, 5), (b"c/x", 120)];
    let selects = [
        Select::Key(b"a"),
        Select::Key(b"a/x"),
        Select::Prefix(b"a/"),
        Select::Prefix(b"a"),
        Select::All,
    ];
    let fixtures = selects.map(|select| (select, counted(subject, 2, limits.clone())));
    let mut held = Vec::new();
    for (select, fixture) in fixtures {
        let fixture = fixture?;
        for (key, count) in all {
            for _ in 0..count {
                fixture.hold(key, &[10, 3, 2], SECOND / 2);
            }
        }
        let calls = || {
            let found = usage(&fixture, select, Hours::ALL, 2).into_iter();
            let calls = found.filter(|used| &*used.limit != "tokens");
            calls.map(|used| used.amount).sum::<u64>()
        };
        if !own_clock {
            assert!(calls() > 0, "{select:?}: they are held");
            fixture.pass(SECOND as i64);
            assert_eq!(calls(), 0, "{select:?}");
        }
        held.push((select, fixture));
    }
    // By a clock of the store's the same, once all have expired.
    std::thread::park_timeout(std::time::Duration::from_millis(700 * u64::from(own_clock)));
    for (select, fixture) in held {
        let found = usage(&fixture, select, Hours::ALL, 2);
        let is_tokens =
            |used: &Usage| &*used.limit == "tokens" && [50, 1_200].contains(&used.amount);
        assert!(found.iter().all(is_tokens), "{select:?}: {found:?}");
    }
    Ok(())
}

/// A page that goes on within a root, whose lease has expired since the page before.
pub(super) fn what_a_lease_gives_back_is_not_on_the_pages_after_its_expiry(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let mut limits = tokens_and_calls();
    limits
        .iter_mut()
        .for_each(|limit| limit.refund_on_expiry = true);
    let fixture = counted(subject, 1, limits)?;
    for key in [b"a", b"b"] {
        fixture.hold(key, &[10, 3], SECOND);
    }
    let list = |after: Option<&[u8]>| {
        let listing = fixture.listing(Select::All, 1, after);
        let page = fixture.table.list_usage(&listing, Hours::ALL);
        page.expect("a page")
    };
    let mut page = list(None);
    while page.items.is_empty() {
        page = list(page.next.as_deref());
    }
    fixture.pass(2 * SECOND as i64);
    while let Some(next) = page.next {
        page = list(Some(&next));
        assert_eq!(page.items, [], "it has expired");
    }
    Ok(())
}

pub(super) fn ancestors_have_usage_of_their_own(subject: &Subject) -> Result<(), Skipped> {
    let limits = vec![
        limit("budget", 0, 0, ample()),
        limit("budget of a team", 1, 1, ample()),
        limit("calls", 2, 2, ample()),
    ];
    let fixture = counted(subject, 3, limits)?;
    assert!(fixture.admits(b"acme/search/alice", &[5, 6, 1]));
    assert!(fixture.admits(b"acme/search", &[10, 20]));
    let (id, _) = fixture.hold(b"acme/ads/bob", &[100, 100, 1], 60 * SECOND);
    let used = Ending::Settle(&[Some(7), Some(8), None]);
    fixture.end(b"acme/ads/bob", id, used).expect("held");
    let composed = "acme budget 22, acme/ads budget of a team 8, acme/ads/bob calls 1, \
                    acme/search budget of a team 26, acme/search/alice calls 1";
    assert_eq!(in_all(&fixture), composed);
    // An entity keeps what it used wherever it moves within its root.
    assert!(fixture.admits(b"/acme/x/carol", &[1, 1, 1]));
    assert!(fixture.admits(b"/acme/y/carol", &[1, 1, 1]));
    let carol = usage(&fixture, Select::Key(b"/acme//carol"), Hours::ALL, 9);
    let carol: u64 = carol.iter().map(|used| used.amount).sum();
    assert_eq!(carol, 2);
    Ok(())
}

pub(super) fn a_limit_may_be_called_anything(subject: &Subject) -> Result<(), Skipped> {
    let names = [
        "ttl", "window", "total", "usage", "hour", "0", "a b", "a:b", "a/b", "'", "\"", "\u{e4}",
    ];
    let limits = names.iter().enumerate();
    let limits = limits.map(|(uid, name)| limit(name, uid as u32, 0, ample()));
    let fixture = counted(subject, 1, limits.collect())?;
    let amounts: Vec<u64> = (1..=names.len() as u64).collect();
    for key in [&b"k"[..], b"\0", b"a:b", b"ttl", b"\xff\xfe"] {
        assert!(fixture.admits(key, &amounts));
        let (id, _) = fixture.hold(key, &amounts, 60 * SECOND);
        fixture.end(key, id, Ending::Cancel).expect("held");
        let told = usage(&fixture, Select::Key(key), Hours::ALL, 5);
        let told = told.iter().map(|used| (&*used.limit, used.amount));
        let mut expected: Vec<_> = names.into_iter().zip(amounts.iter().copied()).collect();
        expected.sort_unstable();
        assert!(told.eq(expected), "{key:?}");
    }
    Ok(())
}

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

pub(super) fn a_reset_and_a_change_of_limits_leave_what_was_used(
    subject: &Subject,
) -> Result<(), Skipped> {
    let mut fixture = counted(subject, 1, tokens_and_calls())?;
    assert!(fixture.admits(b"a", &[5, 1]));
    let (id, _) = fixture.hold(b"a", &[100, 1], 60 * SECOND);
    fixture.execute(b"a", Verb::Reset).expect("an answer");
    assert_eq!(in_all(&fixture), "a calls 2, a tokens 105");
    let used = Ending::Settle(&[Some(20), None]);
    fixture.end(b"a", id, used).expect("held");
    assert_eq!(in_all(&fixture), "a calls 2, a tokens 25");
    // One limit goes, another comes, and one of the old name is another limit.
    let limits = vec![limit("tokens", 7, 0, ample()), limit("jobs", 8, 0, ample())];
    fixture.plan = counting(1, 1, limits);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert!(fixture.admits(b"a", &[1, 3]));
    assert_eq!(in_all(&fixture), "a calls 2, a jobs 3, a tokens 26");
    // A key with limits of its own is counted like any other.
    let own = overrides(&fixture.plan, &[(b"a", &[hourly(9)])]);
    fixture.plan = Arc::new(fixture.plan.going_on(2, own));
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert!(fixture.admits(b"a", &[1, 1]));
    assert_eq!(in_all(&fixture), "a calls 2, a jobs 4, a tokens 27");
    Ok(())
}

/// What a lease of it gave back could not be written, and each command of the root failed then.
pub(super) fn a_limit_that_moves_below_a_key_breaks_no_command_there(
    subject: &Subject,
) -> Result<(), Skipped> {
    let at = |level| {
        vec![PlanLimit {
            refund_on_expiry: true,
            ..limit("tokens", 0, level, ample())
        }]
    };
    let mut fixture = counted(subject, 2, at(0))?;
    fixture.hold(b"acme", &[100], SECOND);
    let (id, _) = fixture.hold(b"acme", &[100], 600 * SECOND);
    fixture.plan = counting(1, 2, at(1));
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    fixture.pass(2 * SECOND as i64);
    assert!(fixture.admits(b"acme/alice", &[1]));
    let used = Ending::Settle(&[Some(30)]);
    fixture.end(b"acme", id, used).expect("held");
    assert!(fixture.admits(b"acme/alice", &[1]));
    assert_eq!(in_all(&fixture), "acme tokens 30, acme/alice tokens 2");
    Ok(())
}

/// What a lease gave back was taken away where its limit was by then: another key's use went, and
/// its own stayed.
pub(super) fn a_lease_gives_back_where_it_was_counted_however_its_limits_change(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let at = |level, refund_on_expiry| PlanLimit {
        refund_on_expiry,
        ..limit("tokens", 0, level, ample())
    };
    let held = || limit("tokens", 0, 0, slots(1_000));
    let ways: [(&str, PlanLimit, PlanLimit, &str); 4] = [
        ("deeper", at(0, true), at(1, true), "acme 230, acme/a 160"),
        ("higher", at(1, true), at(0, true), "acme 160, acme/a 230"),
        ("held", at(0, false), held(), "acme 230"),
        ("not held", held(), at(0, false), "acme 160"),
    ];
    for (way, before, after, expected) in ways {
        let mut fixture = counted(subject, 2, vec![before])?;
        let hold = |lasts| fixture.hold(b"acme/a", &[100], lasts).0;
        let (less, more) = (hold(3_600 * SECOND), hold(3_600 * SECOND));
        let (down, up, _) = (hold(3_600 * SECOND), hold(3_600 * SECOND), hold(SECOND));
        let is_held = after.rule.is_held();
        fixture.plan = counting(1, 2, vec![after]);
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
        assert!(is_held || fixture.admits(b"acme/a", &[80]), "{way}");
        let used = |amount| [Some(amount)];
        fixture
            .end(b"acme/a", less, Ending::Settle(&used(30)))
            .expect("held");
        fixture
            .end(b"acme/a", more, Ending::Settle(&used(150)))
            .expect("held");
        for (id, to) in [(down, 60), (up, 130)] {
            assert_eq!(
                adjust(&fixture, b"acme/a", id, &[Some(to)], false),
                Ok(true)
            );
        }
        fixture.end(b"acme/a", down, Ending::Cancel).expect("held");
        fixture.pass(2 * SECOND as i64);
        let _ = fixture.left(b"acme/a");
        assert_eq!(in_all(&fixture).replace(" tokens", ""), expected, "{way}");
    }
    Ok(())
}

/// Of a lease's charges of a limit eight are remembered apart. Those beyond were given back where the
/// eighth was counted, though the limit had moved: what others used there went, and its own stayed.
pub(super) fn a_lease_of_many_charges_gives_each_back_where_it_was_counted(
    subject: &Subject,
) -> Result<(), Skipped> {
    let at = |level| vec![limit("tokens", 0, level, ample())];
    let mut fixture = counted(subject, 2, at(0))?;
    assert!(fixture.admits(b"acme/b", &[1_000]));
    let (id, mut held) = (fixture.hold(b"acme/a", &[10], 3_600 * SECOND).0, 10);
    for version in 1..=20 {
        fixture.plan = counting(version, 2, at(version as usize % 2));
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
        held += 10;
        let more = adjust(&fixture, b"acme/a", id, &[Some(held)], false);
        assert_eq!(more, Ok(true));
    }
    let counted = "acme tokens 1110, acme/a tokens 100";
    assert_eq!(in_all(&fixture), counted);
    let less = adjust(&fixture, b"acme/a", id, &[Some(held - 5)], false);
    assert_eq!(less, Ok(true));
    fixture.end(b"acme/a", id, Ending::Cancel).expect("held");
    assert_eq!(in_all(&fixture), "acme tokens 1000");
    Ok(())
}

pub(super) fn nothing_is_counted_of_a_lease_that_was_granted_uncounted(
    subject: &Subject,
) -> Result<(), Skipped> {
    for limits in [tokens_and_calls(), buckets_of_tokens_and_calls()] {
        counted_and_not(counted(subject, 1, limits.clone())?, &limits);
    }
    Ok(())
}

fn counted_and_not(mut fixture: Fixture, limits: &[PlanLimit]) {
    let mut go_on = |version, usage| {
        let plan = Plan::new(version, 1, limits.to_vec(), KEEP).counting_usage(usage);
        fixture.plan = Arc::new(plan);
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
        let (id, _) = fixture.hold(b"a", &[100, 1], 60 * SECOND);
        (id, in_all(&fixture))
    };
    let (uncounted, told) = go_on(1, None);
    assert_eq!(told, "");
    let (counted, told) = go_on(2, Some(KEPT));
    assert_eq!(told, "a calls 1, a tokens 100");
    let adjusted = adjust(&fixture, b"a", uncounted, &[Some(50)], false);
    assert_eq!(adjusted, Ok(true));
    assert_eq!(in_all(&fixture), told);
    let settle = |fixture: &Fixture, id| {
        let used = Ending::Settle(&[Some(30), None]);
        fixture.end(b"a", id, used).expect("held");
    };
    settle(&fixture, uncounted);
    settle(&fixture, counted);
    assert_eq!(in_all(&fixture), "a calls 1, a tokens 30");

    // Nothing more is counted, nor less, of what ends once nothing is.
    let (id, _) = fixture.hold(b"a", &[7, 1], 60 * SECOND);
    let plan = Plan::new(3, 1, limits.to_vec(), KEEP);
    fixture.plan = Arc::new(plan);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert!(fixture.admits(b"a", &[1]));
    settle(&fixture, id);
    assert_eq!(in_all(&fixture), "a calls 2, a tokens 37");
}

pub(super) fn of_a_shadow_that_refuses_nothing_is_counted(
    subject: &Subject,
) -> Result<(), Skipped> {
    let mut limits = tokens_and_calls();
    (limits[1].rule, limits[1].shadow) = (hourly(10), true);
    let fixture = counted(subject, 1, limits)?;
    assert!(fixture.admits(b"a", &[1, 6]));
    assert!(fixture.admits(b"a", &[1, 6]), "a shadow refuses nobody");
    let (id, _) = fixture.hold(b"a", &[1, 6], 60 * SECOND);
    assert_eq!(in_all(&fixture), "a calls 6, a tokens 3");
    assert_eq!(
        adjust(&fixture, b"a", id, &[Some(2), Some(2)], false),
        Ok(true)
    );
    // A shadow that refused a lease goes on as if it had.
    assert_eq!(in_all(&fixture), "a calls 6, a tokens 4");
    fixture.end(b"a", id, Ending::Cancel).expect("held");
    assert_eq!(in_all(&fixture), "a calls 6, a tokens 2");
    Ok(())
}

pub(super) fn a_batch_is_counted_like_its_items_by_themselves(
    subject: &Subject,
) -> Result<(), Skipped> {
    use tidegate_store::{Command, KeyPath, Op, Reply};
    let fixture = counted(subject, 1, tokens_and_calls())?;
    let take = |amounts| Verb::Take {
        amounts,
        lease: None,
        detail: Detail::Verdict,
    };
    let key = |bytes| KeyPath::new(bytes, 1).expect("a key");
    let items = [
        (key(b"a"), take(&[3, 1])),
        (key(b"b"), take(&[4, 0])),
        (key(b"a"), Verb::Debit { amounts: &[5, 1] }),
    ];
    let command = Command {
        plan: &fixture.plan,
        now: fixture.now(),
        calendars: &[],
        op: Op::Batch(&items),
        patience: None,
    };
    match fixture.table.execute_and_wait(&command) {
        Ok(Reply::Batch(answers)) => assert!(answers.iter().all(Result::is_ok)),
        answer => panic!("a batch is answered by {answer:?}"),
    }
    assert_eq!(in_all(&fixture), "a calls 2, a tokens 8, b tokens 4");
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

/// By which name it was used, whether its key is asked for again or not, and whatever the plan is then.
pub(super) fn what_was_used_of_a_bucket_keeps_the_name_it_had(
    subject: &Subject,
) -> Result<(), Skipped> {
    let mut fixture = counted(subject, 1, buckets_of_tokens_and_calls())?;
    let adopt = |fixture: &mut Fixture, names: [&str; 2], counts: bool| {
        let mut limits = buckets_of_tokens_and_calls();
        limits[0].name = names[0].into();
        limits[1].name = names[1].into();
        let plan = Plan::new(fixture.plan.version() + 1, 1, limits, KEEP);
        fixture.plan = Arc::new(plan.counting_usage(counts.then_some(KEPT)));
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    };
    let take = |fixture: &Fixture, key: &[u8]| {
        for _ in 0..3 {
            assert!(fixture.admits(key, &[1 << 20, 1 << 21]));
        }
    };
    let (one, two) = (3 << 20, 6 << 20);
    for key in [&b"a"[..], b"b", b"c"] {
        take(&fixture, key);
    }
    adopt(&mut fixture, ["calls", "jobs"], true);
    take(&fixture, b"a");
    take(&fixture, b"b");
    adopt(&mut fixture, ["any", "other"], false);
    take(&fixture, b"a");
    let (a, b) = (
        format!("a calls {}, a jobs {two}, a tokens {one}", one + two),
        format!("b calls {}, b jobs {two}, b tokens {one}", one + two),
    );
    assert_eq!(
        in_all(&fixture),
        format!("{a}, {b}, c calls {two}, c tokens {one}")
    );
    Ok(())
}

/// What a lease took by the older name is not taken from what the newer one uses later.
pub(super) fn a_late_settlement_by_another_name_takes_nothing_from_what_is_used_later(
    subject: &Subject,
) -> Result<(), Skipped> {
    for (is_listed, used_before) in [(false, 0), (true, 0), (false, 2), (true, 2)] {
        let mut limits = buckets_of_tokens_and_calls();
        limits.push(limit("running", 2, 0, slots(9)));
        let mut fixture = counted(subject, 1, limits.clone())?;
        let (id, _) = fixture.hold(b"a", &[50, 5, 1], 60 * SECOND);
        let (other, _) = fixture.hold(b"a", &[0, 3, 1], 60 * SECOND);
        if is_listed {
            assert_eq!(in_all(&fixture), "a calls 8, a tokens 50");
        }
        limits[1].name = "jobs".into();
        fixture.plan = counting(1, 1, limits);
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
        assert!(fixture.admits(b"a", &[0, used_before, 0]));
        fixture
            .end(b"a", id, Ending::Settle(&[Some(20), Some(0), None]))
            .expect("held");
        assert!(fixture.admits(b"a", &[0, 7, 0]));
        assert!(fixture.admits(b"a", &[1, 1, 0]));
        assert_eq!(in_all(&fixture), "a calls 8, a jobs 8, a tokens 21");
        // Of what the newer name has used it is taken.
        fixture.end(b"a", other, Ending::Cancel).expect("held");
        assert_eq!(in_all(&fixture), "a calls 8, a jobs 5, a tokens 21");
    }
    Ok(())
}

/// The first to meet an expired lease by the newer name uses some itself, in the same step.
pub(super) fn what_an_expired_lease_gives_back_is_not_taken_from_what_is_used_after_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for mut limits in [tokens_and_calls(), buckets_of_tokens_and_calls()] {
        limits[1].refund_on_expiry = true;
        let mut fixture = counted(subject, 1, limits.clone())?;
        fixture.hold(b"a", &[50, 8], 60 * SECOND);
        limits[1].name = "jobs".into();
        fixture.plan = counting(1, 1, limits);
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
        fixture.pass(70 * SECOND as i64);
        assert!(fixture.admits(b"a", &[0, 5]));
        assert_eq!(in_all(&fixture), "a calls 8, a jobs 5, a tokens 50");
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
