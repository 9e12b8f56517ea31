//! A take of one plain bucket answers as that of several limits does.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_memory::MemoryStore;
use tidegate_store::core::{Bucket, Payment, Rule, Span, Timestamp};
use tidegate_store::{Detail, KeyCommand, KeyPath, Plan, PlanLimit, Reply, Store, Table, Verb};

fn limit(uid: u32, rule: Rule) -> PlanLimit {
    PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule,
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    }
}

/// One bucket; and the same beside another limit, which keeps it from the fast path.
fn plans(amount: u64, period: Span, burst: u64) -> [Arc<Plan>; 2] {
    let rate = || limit(0, Rule::Bucket(Bucket::new(amount, period, burst).unwrap()));
    let beside = limit(1, Rule::Bucket(Bucket::new(1, period, 1).unwrap()));
    [vec![rate()], vec![rate(), beside]]
        .map(|limits| Arc::new(Plan::new(0, 1, limits, Span::from_secs(60))))
}

fn table(plan: &Arc<Plan>) -> Arc<dyn Table> {
    MemoryStore::default().open("t", plan).unwrap()
}

proptest! {
    #[test]
    fn a_check_on_the_fast_path_answers_as_a_full_one(
        (amount, millis, burst) in (1_u64..5_000, 1_u64..100_000, 1_u64..2_000),
        asks in vec((0_u8..3, 1_u64..2_500, 0_i64..2_000_000), 1..60),
    ) {
        let plans = plans(amount, Span::from_millis(millis), burst);
        let (fast, full) = (table(&plans[0]), table(&plans[1]));
        let mut now = Timestamp::from_micros(1_700_000_000_000_000);
        for (key, amount, gap) in asks {
            now = Timestamp::from_micros(now.as_micros() + gap);
            let (key, amounts) = ([key], [amount.min(burst), 0]);
            let key = KeyPath::new(&key, 1).unwrap();
            let ask = |table: &dyn Table, plan: &Arc<Plan>, amounts: &[u64]| {
                let verb = Verb::Take { amounts, lease: None, detail: Detail::Always };
                table.execute_and_wait(&KeyCommand { plan, key, now, calendars: &[], verb }.into())
            };
            let Ok(Reply::One(verdict, level)) = ask(&*fast, &plans[0], &amounts[..1]) else {
                panic!("a take of one plain bucket is answered by its standing");
            };
            let Ok(Reply::Decision(decision)) = ask(&*full, &plans[1], &amounts) else {
                panic!("a take is answered by a decision");
            };
            prop_assert_eq!(verdict, decision.verdict);
            prop_assert_eq!(Some(level.standing()), decision.standings[0]);
            let refused = !verdict.admitted();
            prop_assert_eq!(decision.binding, refused.then_some(0));
            prop_assert_eq!(decision.refused_levels, u8::from(refused));
            prop_assert!(decision.refund_at.is_none() && !decision.shadowed);
        }
    }
}
