//! What takes of that which others wait for.

use tidegate_net::waiting::takes_anew;
use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::{Decision, Partial, Reply};

fn decision(verdict: Verdict) -> Decision {
    Decision {
        verdict,
        binding: None,
        refused_levels: 0,
        refund_at: None,
        shadowed: false,
        standings: [].into_iter().collect(),
        lease: None,
    }
}

/// It was taken for a reply that takes nothing: on MariaDB and DynamoDB such takes overtook requests
/// that wait.
#[test]
fn a_take_of_a_part_takes_anew() {
    let partial = Partial {
        decision: decision(Verdict::Admit),
        amounts: [1].into_iter().collect(),
        good_until: Timestamp::MAX,
    };
    assert!(takes_anew(&Reply::Partial(Box::new(partial))));
    assert!(takes_anew(&Reply::Decision(decision(Verdict::Admit))));
    let refused = Reply::Decision(decision(Verdict::NotUntil(Timestamp::MIN)));
    assert!(!takes_anew(&refused));
    assert!(!takes_anew(&Reply::Done));
}
