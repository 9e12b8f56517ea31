//! What a lease uses is counted when it is granted, and corrected when it ends.

use std::sync::Arc;

use tidegate_core::Amount;
use tidegate_store::{Ending, Hours, Plan, PlanLimit, Select, Usage};

use super::fixture::{Fixture, slots};
use super::usage_fixture::{
    HOUR, KEPT, adjust, ample, buckets_of_tokens_and_calls, by_hour, counted, counting, in_all,
    tokens_and_calls, usage,
};
use crate::fixture::{KEEP, SECOND, hourly, limit};
use crate::subject::{Skipped, Subject};
use crate::table_ext::TableExt;

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
