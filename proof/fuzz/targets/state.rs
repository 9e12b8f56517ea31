//! Bytes said to be a state: never misread, and whatever is read can be used.
//!
//! The first byte is the state's length; then comes the state, as a store would
//! hand it over after a disk or a peer has been at it; the rest chooses two
//! limits and what is done with it. Sums are checked here, as in debug builds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::codec::{decode, encode};
use tidegate_core::{Align, Bounds, Bucket, Log, Ring, Slots, Window};
use tidegate_core::{
    ChargeReference, DecisionTime, LeaseTerm, Rule, RuleError, Span, State, Timestamp,
};
use tidegate_fuzz::Feed;

fuzz_target!(|bytes: &[u8]| {
    let mut feed = Feed::new(bytes);
    let length = usize::from(feed.byte());
    let Ok(mut state) = decode(feed.bytes(length)) else {
        return;
    };
    comes_back(&state);
    if let (Ok(rule), Ok(other)) = (rule(&mut feed), rule(&mut feed)) {
        use_it(&rule, &other, &mut state, &mut feed);
    }
});

/// A state survives being written and read.
fn comes_back(state: &State) {
    let mut bytes = Vec::new();
    encode(state, &mut bytes);
    assert_eq!(decode(&bytes).as_ref(), Ok(state));
}

fn use_it(rule: &Rule, other: &Rule, state: &mut State, feed: &mut Feed<'_>) {
    while !feed.is_empty() {
        let time = decision_time(feed);
        rule.observe(state, &time);
        step(rule, other, state, feed, &time);
        let standing = rule.standing(state, &time);
        assert!(standing.remaining <= standing.limit, "more than full");
        comes_back(state);
    }
}

fn step(rule: &Rule, other: &Rule, state: &mut State, feed: &mut Feed<'_>, time: &DecisionTime) {
    let amount = feed.amount() % (tidegate_core::MAX_AMOUNT + 1);
    let term = LeaseTerm {
        id: u128::from(feed.byte()),
        expires_at: Timestamp::from_micros(feed.signed()),
    };
    match feed.choose(6) {
        0 if may_charge(rule, state, amount, time) => {
            rule.charge(state, amount, time, Some(term));
        }
        1 => rule.refund(
            state,
            amount,
            ChargeReference::from_i64(feed.signed()),
            time,
        ),
        2 => drop(rule.release(state, term, time.now)),
        3 => drop(rule.renew(state, term, Timestamp::from_micros(feed.signed()), time.now)),
        4 => rule.adopt(state, other, time),
        _ => forecast_is_a_quote(rule, state, amount, time),
    }
}

/// A settlement charges a rate beyond what it holds; slots are only granted.
fn may_charge(rule: &Rule, state: &State, amount: u64, time: &DecisionTime) -> bool {
    !rule.is_held() || rule.quote(state, amount, time).admitted()
}

/// Reading twice says the same, and reading needs no change.
fn forecast_is_a_quote(rule: &Rule, state: &State, amount: u64, time: &DecisionTime) {
    let forecast = rule.forecast(state, amount, time);
    assert_eq!(forecast.verdict, rule.quote(state, amount, time));
    assert!(rule.forget_at(state) >= Timestamp::MIN);
}

fn decision_time(feed: &mut Feed<'_>) -> DecisionTime {
    let now = Timestamp::from_micros(feed.signed());
    let day = Span::from_secs(86_400);
    let calendar = (feed.choose(2) == 1).then(|| Bounds {
        start: now - Span::from_secs(u64::from(feed.byte())),
        end: now + day,
        next_end: now + day + day,
    });
    DecisionTime { now, calendar }
}

fn rule(feed: &mut Feed<'_>) -> Result<Rule, RuleError> {
    let (capacity, period) = (feed.amount(), Span::from_micros(feed.amount()));
    let detail = feed.amount();
    let count = u32::try_from(detail % 5_000).unwrap_or(1);
    Ok(match feed.choose(7) {
        0 => Rule::Bucket(Bucket::new(capacity, period, detail)?),
        1 => Rule::Window(Window::new(capacity, Align::Epoch(period))?),
        2 => Rule::Window(Window::new(capacity, Align::FirstUse(period))?),
        3 => Rule::Window(Window::new(capacity, Align::Calendar)?),
        4 => Rule::Ring(Ring::new(capacity, period, count)?),
        5 => Rule::Log(Log::new(capacity, period, count)?),
        _ => Rule::Slots(Slots::new(capacity, period)?),
    })
}
