//! What a call reserves where its limit is overridden: it is cut down to what is in force for its key.

use tidegate::{Limit, Period};
use tidegate_service::OverrideTarget;

use super::{POLICY, Reply, Running, chat, key_of, run};

const CHAT: &str = "/v1/chat/completions";

fn of_key() -> OverrideTarget {
    OverrideTarget::everything()
        .of_policy("llm")
        .of_key(key_of())
}

fn of_policy() -> OverrideTarget {
    OverrideTarget::everything().of_policy("llm")
}

/// Overrides the file's 1,000 tokens an hour, and lets a call of 4,000 in; what was reserved.
async fn reserved(target: OverrideTarget, tokens: u64) -> (Running, u64) {
    let running = run(POLICY, |_| {}).await;
    // So long that nothing of it comes back while the test runs.
    let period = Period::Every(std::time::Duration::from_secs(400 * 86_400));
    let caller = running.service.enter(None).unwrap();
    let limit = Limit::rate("tokens", tokens, period);
    let set = running.service.set_override(&caller, &target, &[limit]);
    set.await.unwrap();
    let before = running.left("tokens").await;
    let mut call = chat(4_000);
    call["stream"] = true.into();
    let events = running.provider.next(Reply::stream());
    let response = running.begin(CHAT, &call).await;
    assert_eq!(response.status(), 200, "{target:?} {tokens}");
    let reserved = before - running.left("tokens").await;
    drop((events, response));
    (running, reserved)
}

/// The file's number was taken: less than that in force was refused for good, of more was reserved too
/// little.
#[tokio::test]
async fn a_call_is_cut_down_to_what_is_in_force_for_its_key() {
    for target in [of_key(), of_policy()] {
        let (running, less) = reserved(target.clone(), 500).await;
        assert_eq!(less, 500, "{target:?}");
        running.stop().await;
        let (running, more) = reserved(target.clone(), 200_000).await;
        assert!((4_000..5_000).contains(&more), "{target:?}: {more}");
        running.stop().await;
    }
}

/// One key's override says nothing of others.
#[tokio::test]
async fn an_override_of_another_key_cuts_nothing_down() {
    let other = OverrideTarget::everything()
        .of_policy("llm")
        .of_key("credential-0000000000000000");
    let (running, reserved) = reserved(other, 10).await;
    assert!(
        (900..=1_000).contains(&reserved),
        "all that the file grants: {reserved}"
    );
    running.stop().await;
}
