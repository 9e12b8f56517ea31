//! What is used is counted by whom, when and of what.

use std::sync::Arc;

use tidegate_core::{Amount, Bucket, Rule, Span, Verdict};
use tidegate_store::{Detail, Ending, Hours, Plan, PlanLimit, Select, StoreError, Verb};

use super::fixture::{Fixture, overrides, slots};
use super::usage_fixture::{
    HOUR, KEPT, adjust, ample, buckets_of_tokens_and_calls, by_hour, counted, counting, in_all,
    tokens_and_calls, usage,
};
use crate::fixture::{KEEP, SECOND, hourly, limit};
use crate::subject::{Skipped, Subject};
use crate::table_ext::TableExt;

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
