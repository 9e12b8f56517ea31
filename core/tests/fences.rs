//! Fences grow with every grant, whatever happens to the holders.

use tidegate_core::*;

/// A reset used to take the fence with it, so that a second grant in the same
/// microsecond repeated the first one's.
#[test]
fn a_fence_grows_across_a_reset_within_a_microsecond() {
    let rule = Rule::Slots(Slots::new(1, Span::SECOND).unwrap());
    let time = DecisionTime::at(Timestamp::from_micros(1_000));
    let term = |id| LeaseTerm {
        id,
        expires_at: time.now + Span::SECOND,
    };
    let mut state = State::Fresh;
    let first = rule.charge(&mut state, 1, &time, Some(term(1)));
    state.reset();
    assert_eq!(rule.standing(&state, &time).remaining, 0);
    assert!(rule.release(&mut state, term(1), time.now));
    let second = rule.charge(&mut state, 1, &time, Some(term(2)));
    assert!(second.fence > first.fence);
}
