//! Does with a lease what is to be done.

use std::time::Duration;

use tidegate::{LeaseError, LeaseId, Settlement};

use crate::lane::{Held, Lane, micros};
use crate::tally::{add, read};
use crate::work::{LONG, REMEMBERED, SHORT, Work};

/// One of so many that were left behind is settled after its end,
const LATE_ONES: u64 = 4;
/// which is so long after it was granted.
const TOO_LATE: Duration = Duration::from_millis(1_500);
/// So often is a lease renewed,
const RENEWALS: u32 = 4;
/// after so long each time,
const RENEWED: Duration = Duration::from_millis(200);
/// A share of it that is asked for on the way, and what it is overdrawn to.
const ADJUSTED: [u64; 2] = [200, 50];
const OVERDRAWN: u64 = 300;

impl Work {
    /// Asks for a lease, and does with it what is done here.
    pub async fn run(self, lane: &Lane, key: &str, account: u64, nth: u64) {
        match (self, &lane.people) {
            (Self::Repeat, _) => return repeat(lane, key, account, nth).await,
            (Self::Check, _) => return lane.check(key).await,
            (Self::ByEntity, Some(people)) => return lane.by_entity(people, key, account).await,
            _ => {}
        }
        let ask = match self {
            Self::Abandon => lane.said().ttl(SHORT),
            Self::Renew => lane.said().ttl(LONG),
            _ => lane.said(),
        };
        let Some(held) = lane.take(key, account, ask).await else {
            return;
        };
        match self {
            Self::Settle | Self::Repeat | Self::Check | Self::ByEntity => {
                if !lane.hold.is_zero() {
                    tokio::time::sleep(lane.hold).await;
                }
                lane.settle(key, held).await;
            }
            Self::Adjust => adjust(lane, key, held).await,
            Self::Renew => renew(lane, key, held).await,
            Self::Abandon => abandon(lane, key, held, nth).await,
            Self::ById => by_id(lane, key, held.lease.detach()).await,
            Self::EndEachWay => end(lane, key, held, nth).await,
        }
    }
}

async fn adjust(lane: &Lane, key: &str, mut held: Held) {
    let none = Duration::ZERO;
    for tokens in ADJUSTED {
        let to = [("tokens", tokens)];
        let adjusted = held.lease.adjust(&to);
        let adjusted = lane.answered("adjust", key, none, adjusted).await;
        let admitted = adjusted.map(|decision| decision.admitted());
        lane.expect_eq("adjust", key, admitted, Some(true));
    }
    let to = [("tokens", OVERDRAWN)];
    let overdrawn = held.lease.overdraw(&to);
    lane.answered("overdraw", key, none, overdrawn).await;
    lane.settle(key, held).await;
}

async fn repeat(lane: &Lane, key: &str, account: u64, nth: u64) {
    let word = nth.to_be_bytes();
    let ask = || lane.said().idempotency(&word);
    let Some(first) = lane.take(key, account, ask()).await else {
        return;
    };
    let (again, answer) = (lane.set.try_acquire(key, ask()), "acquire, again");
    let again = lane.answered(answer, key, Duration::ZERO, again).await;
    let Some(again) = again.and_then(|admission| admission.granted()) else {
        return lane.expect(answer, key, Err("it is refused".to_owned()));
    };
    lane.expect_eq(answer, key, again.is_repeated(), true);
    lane.expect_eq(answer, key, again.id(), first.lease.id());
    drop(again);
    lane.settle(key, first).await;
    if let Some(anew) = lane.take(key, account, ask()).await {
        lane.expect_eq("acquire, anew", key, anew.lease.is_repeated(), false);
        lane.settle(key, anew).await;
    }
}

async fn renew(lane: &Lane, key: &str, mut held: Held) {
    for _ in 0..RENEWALS {
        tokio::time::sleep(RENEWED).await;
        let renewed = held.lease.renew(LONG);
        lane.answered("renew", key, Duration::ZERO, renewed).await;
    }
    lane.settle(key, held).await;
}

/// What is settled after its end is charged all the same, while it is remembered.
async fn abandon(lane: &Lane, key: &str, held: Held, nth: u64) {
    let expires = held.lease.expires_at().as_micros();
    let id = held.lease.detach();
    if !nth.is_multiple_of(LATE_ONES) {
        return;
    }
    tokio::time::sleep(TOO_LATE).await;
    let asked = lane.now();
    let settled = lane.set.settle(key, id, lane.used).await;
    let known_until = expires + micros(REMEMBERED);
    match settled {
        Ok(settled) => {
            add(&lane.tally.ended);
            lane.expect_eq("settle, late", key, settled.expired(), asked >= expires);
        }
        // The machine itself was late.
        Err(LeaseError::Unknown) if lane.now() >= known_until => {}
        Err(error) => lane.expect("settle, late", key, Err(error.to_string())),
    }
}

async fn by_id(lane: &Lane, key: &str, id: LeaseId) {
    let told = |settled: &Settlement| settled.usage("tokens").map(|usage| usage.used);
    let ended = read(&lane.tally.ended);
    let first = lane.set.settle(key, id, lane.used);
    let first = lane
        .answered("settle, by id", key, Duration::ZERO, first)
        .await;
    let Some(first) = first else { return };
    add(&lane.tally.ended);
    lane.expect_eq("settle, by id", key, first.repeated(), false);
    match lane.set.settle(key, id, ()).await {
        Ok(again) => {
            lane.expect_eq("settle, again", key, again.repeated(), true);
            lane.expect_eq("settle, again", key, told(&again), told(&first));
        }
        // So many others may have ended meanwhile, where answers take their time.
        Err(LeaseError::Unknown) if read(&lane.tally.asked) - ended >= lane.remembered_for_sure => {
        }
        Err(error) => lane.expect("settle, again", key, Err(error.to_string())),
    }
}

async fn end(lane: &Lane, key: &str, mut held: Held, nth: u64) {
    let none = Duration::ZERO;
    let ended = match nth % 4 {
        0 => {
            lane.answered("cancel", key, none, held.lease.cancel())
                .await
        }
        1 => {
            lane.answered("release", key, none, held.lease.release())
                .await
        }
        2 => return drop(held),
        _ => return held.lease.fail(),
    };
    if ended.is_some() {
        add(&lane.tally.ended);
    }
}
