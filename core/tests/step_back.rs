//! Clocks that step back by more than a limit's own length, in single scenes;
//! the laws say the same over random histories.

use tidegate_core::*;

/// Asks `rule` for one unit at `now`, and takes it if it fits.
fn take(rule: &Rule, state: &mut State, now: i64) -> Verdict {
    let time = DecisionTime::at(Timestamp::from_micros(now));
    rule.observe(state, &time);
    let verdict = rule.quote(state, 1, &time);
    if verdict.admitted() {
        rule.charge(state, 1, &time, None);
    }
    verdict
}

fn not_until(at: i64) -> Verdict {
    Verdict::NotUntil(Timestamp::from_micros(at))
}

/// Two units in two milliseconds: one at the end of its sub-window, one at the
/// beginning of the next. A clock that then steps back to the end of another
/// sub-window used to let the first unit go after half the time.
#[test]
fn a_ring_whose_clock_steps_back_to_the_end_of_a_sub_window_admits_nothing_more() {
    let rule = Rule::Ring(Ring::new(2, Span::from_millis(2), 2).unwrap());
    let mut state = State::Fresh;
    assert!(take(&rule, &mut state, 10_999).admitted());
    assert!(take(&rule, &mut state, 11_000).admitted());
    assert_eq!(take(&rule, &mut state, 1_999), not_until(4_000));
    assert_eq!(take(&rule, &mut state, 3_999), not_until(4_000));
    assert!(take(&rule, &mut state, 4_000).admitted());
}

/// Step after step back: never locked up for longer than `sub_windows + 1`
/// sub-windows from the last.
#[test]
fn a_ring_whose_clock_steps_back_is_full_again_within_its_refill() {
    let ring = Ring::new(3, Span::from_millis(2), 2).unwrap();
    let rule = Rule::Ring(ring);
    let mut state = State::Fresh;
    for now in [90_000, 91_500, 92_999] {
        assert!(take(&rule, &mut state, now).admitted());
    }
    for now in [80_999, 70_000, 60_500, 1_999, -9_001] {
        assert!(!take(&rule, &mut state, now).admitted());
        let refill = 3 * ring.step().as_micros() as i64;
        let later = Timestamp::from_micros(now + refill);
        assert!(rule.forget_at(&state) <= later);
        assert!(rule.quote(&state, 3, &DecisionTime::at(later)).admitted());
    }
}

/// A clock that stepped back to just before a boundary used to open a new
/// window right after it, and one more at each such step.
#[test]
fn a_window_whose_clock_steps_back_to_its_boundary_stays_open_for_its_length() {
    let align = Align::Epoch(Span::from_millis(1));
    let rule = Rule::Window(Window::new(1, align).unwrap());
    let mut state = State::Fresh;
    assert!(take(&rule, &mut state, 9_500).admitted());
    assert_eq!(take(&rule, &mut state, 4_999), not_until(5_999));
    assert_eq!(take(&rule, &mut state, 1_999), not_until(2_999));
    assert_eq!(take(&rule, &mut state, 2_998), not_until(2_999));
    assert!(take(&rule, &mut state, 2_999).admitted());
}

/// A lease of a clock slightly behind used to lose that little when the clock
/// stepped back far.
#[test]
fn slots_granted_after_a_small_step_back_outlast_a_large_one() {
    let rule = Rule::Slots(Slots::new(2, Span::from_millis(5)).unwrap());
    let mut state = State::Fresh;
    let mut grant = |now: i64| {
        let time = DecisionTime::at(Timestamp::from_micros(now));
        rule.observe(&mut state, &time);
        let verdict = rule.quote(&state, 1, &time);
        let term = LeaseTerm {
            id: now.unsigned_abs().into(),
            expires_at: time.now + Span::from_millis(5),
        };
        if verdict.admitted() {
            rule.charge(&mut state, 1, &time, Some(term));
        }
        verdict
    };
    assert!(grant(10_000).admitted());
    assert!(grant(6_000).admitted());
    assert_eq!(grant(4_999), not_until(9_999));
    assert_eq!(grant(9_998), not_until(9_999));
    assert!(grant(9_999).admitted());
}

/// It was said to equal "never seen" at any time, and its row could be dropped: behind its
/// beginning a fresh one opens another window.
#[test]
fn a_window_that_was_given_back_is_forgotten_from_its_beginning_on() {
    let align = Align::Epoch(Span::from_millis(1));
    let rule = Rule::Window(Window::new(3, align).unwrap());
    let (mut state, at) = (
        State::Fresh,
        DecisionTime::at(Timestamp::from_micros(1_010)),
    );
    let receipt = rule.charge(&mut state, 1, &at, None);
    rule.refund(&mut state, 1, receipt.reference, &at);
    let forget_at = rule.forget_at(&state);
    assert_eq!(forget_at, Timestamp::from_micros(1_000));
    for (now, is_alike) in [(991, false), (1_000, true), (1_500, true)] {
        let after = |mut state: State| {
            let time = DecisionTime::at(Timestamp::from_micros(now));
            rule.observe(&mut state, &time);
            rule.charge(&mut state, 3, &time, None);
            rule.quote(&state, 1, &time)
        };
        assert_eq!(
            after(state.clone()) == after(State::Fresh),
            is_alike,
            "{now}"
        );
    }
}
