//! A thread that is held up between its look at the clock and the atomic bucket that handles
//! share. A bucket whose numbers fit no word took its older instant for a clock that was
//! set back, went on from there, and gave the time in between out a second time.

use std::sync::Arc;

use tidegate_memory::MemoryStore;
use tidegate_store::core::{Bucket, Payment, Rule, Span, Timestamp, Verdict};
use tidegate_store::{
    Detail, KeyCommand, KeyPath, Plan, PlanLimit, Store, Table, TableBounds, Verb,
};

const KEY: &[u8] = b"k";

/// 100,003 a second, one at a time: full again 10 microseconds after each. Its numbers
/// fit no word.
fn plan() -> Arc<Plan> {
    let bucket = Bucket::new(100_003, Span::SECOND, 1).expect("a sound rate");
    let limit = PlanLimit {
        name: "rate".into(),
        uid: 0,
        rule: Rule::Bucket(bucket),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Arc::new(Plan::new(0, 1, vec![limit], Span::from_secs(60)))
}

/// Asked by a clock that never steps back.
fn table(plan: &Arc<Plan>) -> Arc<dyn Table> {
    let bounds = TableBounds {
        steady_clock: true,
        ..TableBounds::default()
    };
    let table = MemoryStore::default().open_within("t", plan, &bounds);
    table.expect("a fresh store")
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + micros)
}

fn ask(table: &dyn Table, plan: &Arc<Plan>, now: Timestamp) -> Verdict {
    let key = KeyPath::new(KEY, 1).expect("a key");
    let verb = Verb::Take {
        amounts: &[1],
        lease: None,
        detail: Detail::Always,
    };
    let (plan, calendars) = (plan, &[][..]);
    let command = KeyCommand {
        plan,
        key,
        now,
        calendars,
        verb,
    };
    let reply = table.execute_and_wait(&command.into()).expect("an answer");
    reply.verdict().expect("a verdict")
}

#[test]
fn a_handle_that_is_held_up_does_not_give_a_limit_out_twice() {
    let plan = plan();
    let table = table(&plan);
    let bucket = table
        .atomic_buckets()
        .and_then(|buckets| buckets.pin(&plan, KEY, at(0)));
    let bucket = bucket.expect("a single bucket has an atomic bucket");
    let admit = |now| bucket.admit(1, now).expect("it is not the table's");
    assert_eq!(admit(at(1_000)), Verdict::Admit);
    let full_again = Verdict::NotUntil(at(1_010));
    assert_eq!(admit(at(1_001)), full_again);
    // This one has looked at the clock before all others, and comes last.
    assert_eq!(admit(at(500)), full_again);
    assert_eq!(admit(at(1_002)), full_again);
    let (verdict, level) = bucket.check(1, at(400)).expect("it is not the table's");
    assert_eq!(
        (verdict, level.standing().full_at),
        (full_again, Some(at(1_010)))
    );
    assert_eq!(admit(at(1_009)), full_again);
    assert_eq!(admit(at(1_010)), Verdict::Admit);
}

#[test]
fn a_table_that_is_asked_late_does_not_give_out_what_a_handle_took() {
    let plan = plan();
    let table = table(&plan);
    let bucket = table
        .atomic_buckets()
        .and_then(|buckets| buckets.pin(&plan, KEY, at(0)));
    let bucket = bucket.expect("a single bucket has an atomic bucket");
    assert_eq!(bucket.admit(1, at(1_000)), Ok(Verdict::Admit));
    assert_eq!(
        ask(&*table, &plan, at(500)),
        Verdict::NotUntil(at(1_010)),
        "it was held up"
    );
    assert_eq!(ask(&*table, &plan, at(1_001)), Verdict::NotUntil(at(1_010)));
    assert_eq!(ask(&*table, &plan, at(1_010)), Verdict::Admit);
}
