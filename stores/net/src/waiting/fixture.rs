//! A take that waits for a slot.

use std::sync::{Arc, Weak};

use tidegate_store::core::{Payment, Rule, Slots, Span, Timestamp};
use tidegate_store::{
    Alarm, Command, Detail, KeyPath, Op, Patience, Plan, PlanLimit, Race, Seat, Terms, Timer,
    TimerHandler, Verb,
};

use super::request::Waiting;

/// Nobody asks it.
#[derive(Debug)]
struct Still;

impl Timer for Still {
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn set(&self, at: Timestamp, _: Weak<dyn TimerHandler>) -> Alarm {
        Alarm { at, number: 0 }
    }

    fn unset(&self, _: Alarm) {}
}

fn slot() -> Arc<Plan> {
    let limit = PlanLimit {
        name: "s".into(),
        uid: 0,
        rule: Rule::Slots(Slots::new(1, Span::SECOND).expect("a slot")),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Arc::new(Plan::new(0, 1, vec![limit], Span::SECOND))
}

/// It waits for as long as it takes.
pub(super) fn waiting(race: Option<Arc<Race>>) -> Waiting {
    let plan = slot();
    let terms = Terms {
        id: 1,
        expires_at: Timestamp::MIN + Span::SECOND,
        idempotency: None,
        least: None,
    };
    let take = Verb::Take {
        amounts: &[1],
        lease: Some(terms),
        detail: Detail::Verdict,
    };
    let patience = Patience {
        turn: 1,
        ahead: Span::ZERO,
        longest: None,
        since: Timestamp::MIN,
        for_refunds: false,
        race,
        hold: None,
        retried: false,
        timer: Arc::new(Still),
        seat: Seat::default(),
    };
    let command = Command {
        plan: &plan,
        now: Timestamp::MIN,
        calendars: &[],
        op: Op::One(KeyPath::new(b"k", 1).expect("a key"), take),
        patience: Some(&patience),
    };
    Waiting::of(&command).expect("a take that waits")
}
