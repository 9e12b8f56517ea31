//! What must fit so that a take is admitted.

use tidegate_store::core::{Amount, Timestamp};
use tidegate_store::{Detail, Terms, Verb};

/// A least that is more than what is asked for was said never to fit where somebody waited, and was
/// granted elsewhere.
#[test]
fn of_a_partial_take_no_more_must_fit_than_what_is_asked_for() {
    let must_fit = |amounts: &[Amount], least: &[Amount]| {
        let terms = Terms {
            id: 1,
            expires_at: Timestamp::MAX,
            idempotency: None,
            least: Some(least),
        };
        let take = Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::Verdict,
        };
        take.must_fit().expect("it takes").to_vec()
    };
    assert_eq!(must_fit(&[2, 5, 0], &[9, 3, 4]), [2, 3, 0]);
    assert_eq!(must_fit(&[2, 5, 7], &[1]), [1, 0, 0]);
    assert_eq!(must_fit(&[2], &[1, 4]), [1]);
}
