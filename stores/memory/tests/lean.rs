//! The lean take answers as the full one does, with the same standing.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_contract::core::{Bucket, Payment, Rule, Span, Timestamp};
use tidegate_contract::{Command, Detail, KeyPath, Plan, PlanLimit, Reply, Store, Table, Verb};
use tidegate_memory::MemoryStore;

fn plan(amount: u64, period: Span, burst: u64) -> Arc<Plan> {
    let limit = PlanLimit {
        name: "rate".into(),
        uid: 0,
        rule: Rule::Bucket(Bucket::new(amount, period, burst).unwrap()),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
    };
    Arc::new(Plan::new(0, 1, vec![limit], Span::from_secs(60)))
}

fn table(plan: &Arc<Plan>) -> Arc<dyn Table> {
    MemoryStore::default().open("t", plan).unwrap()
}

proptest! {
    #[test]
    fn a_lean_check_answers_as_a_full_one(
        (amount, millis, burst) in (1_u64..5_000, 1_u64..100_000, 1_u64..2_000),
        asks in vec((0_u8..3, 1_u64..2_500, 0_i64..2_000_000), 1..60),
    ) {
        let plan = plan(amount, Span::from_millis(millis), burst);
        let (lean, full) = (table(&plan), table(&plan));
        let mut now = Timestamp::from_micros(1_700_000_000_000_000);
        for (key, amount, gap) in asks {
            now = Timestamp::from_micros(now.as_micros() + gap);
            let (key, amounts) = ([key], [amount.min(burst)]);
            let told = lean.check_one(&plan, &key, amounts[0], now).unwrap();
            let (verdict, standing) = told.expect("a plain bucket is a word");
            let verb = Verb::Take { amounts: &amounts, lease: None, detail: Detail::Always };
            let key = KeyPath::new(&key, 1).unwrap();
            let command = Command { plan: &plan, key, now, calendars: &[], verb };
            let Ok(Reply::Decision(decision)) = full.execute(&command) else {
                panic!("a take is answered by a decision");
            };
            prop_assert_eq!(verdict, decision.verdict);
            prop_assert_eq!(Some(standing), decision.standings[0]);
            let refused = !verdict.admitted();
            prop_assert_eq!(decision.binding, refused.then_some(0));
            prop_assert_eq!(decision.refused_levels, u8::from(refused));
            prop_assert!(decision.refund_at.is_none() && !decision.shadowed);
        }
    }
}

/// A key whose state a handle shares, or a lease may give back to, is asked in
/// full: nothing was done.
#[test]
fn a_row_that_is_more_than_a_word_is_left_to_the_full_check() {
    let plan = plan(1, Span::from_secs(60), 2);
    let table = table(&plan);
    let now = Timestamp::from_micros(1_700_000_000_000_000);
    let cell = table
        .pin(&plan, b"k", now)
        .expect("a plain bucket has cells");
    assert_eq!(table.check_one(&plan, b"k", 1, now).unwrap(), None);
    assert!(cell.admit(2, now).unwrap().admitted());
}
