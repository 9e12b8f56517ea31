//! A lease renewed while it is held.

use std::future::Future;

use tidegate::internal::Pace;
use tokio::time::{Instant, timeout, timeout_at};

/// Why it is lost if nobody says anything else.
const SILENT: &str = "no answer before it had expired";

/// What came of a renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Renewal<L> {
    /// It surely lasts until then.
    Until(Instant),
    /// It is not ours any more.
    Lost(L),
    /// Nobody can tell, for this reason.
    Unsure(String),
}

/// Why it was not renewed any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lost<L> {
    /// Whoever renews it said so.
    Told(L),
    /// Nobody renewed it before it must have expired.
    NotRenewed(String),
}

/// Renews a lease each time a third of what it was granted or renewed for has passed, and answers
/// why it is lost, if it ever is. While nobody answers it is asked again, and is not lost before
/// it must have expired; `note` is told the first time why it is not renewed. What `asked` comes to
/// is renewed at once, with that in hand.
pub async fn keep_renewing<L, A, W: Future<Output = A>, F: Future<Output = Renewal<L>>>(
    mut sure_until: Instant,
    asked: impl Fn() -> W,
    renew: impl Fn(Option<A>) -> F,
    note: impl Fn(&str),
) -> Lost<L> {
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let mut pace = Pace::new(left(sure_until));
    let mut pause = pace.answered(left(sure_until));
    loop {
        let asked = timeout(pause, asked()).await.ok();
        // A server that hangs is not waited for longer than the lease surely lasts.
        let sent = timeout_at(sure_until, renew(asked)).await;
        pause = match sent.unwrap_or_else(|_| Renewal::Unsure(SILENT.to_owned())) {
            Renewal::Lost(why) => return Lost::Told(why),
            Renewal::Until(until) => {
                sure_until = until;
                pace = Pace::new(left(until));
                pace.answered(left(until))
            }
            Renewal::Unsure(why) if Instant::now() >= sure_until => return Lost::NotRenewed(why),
            Renewal::Unsure(why) => {
                if pace.is_answered() {
                    note(&why);
                }
                pace.unanswered(left(sure_until))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn of_a_store_that_hangs_it_is_known_when_the_lease_has_expired() {
        let begun = Instant::now();
        let silent = |_: Option<()>| pending::<Renewal<()>>();
        let lost = keep_renewing(begun + TTL, pending, silent, |_| {}).await;
        assert_eq!(lost, Lost::NotRenewed(SILENT.to_owned()));
        assert_eq!(begun.elapsed(), TTL);
    }

    /// Answers a script, and notes when it was asked.
    async fn play(mut answers: Vec<Option<bool>>) -> (Lost<&'static str>, Vec<u128>) {
        answers.reverse();
        let (begun, answers) = (Instant::now(), RefCell::new(answers));
        let sent_ms = RefCell::new(Vec::new());
        let renew = |_: Option<()>| {
            let now = Instant::now();
            let sent = now.duration_since(begun).as_millis();
            sent_ms.borrow_mut().push(sent);
            std::future::ready(match answers.borrow_mut().pop() {
                Some(Some(true)) => Renewal::Until(now + TTL),
                Some(Some(false)) => Renewal::Lost("ended"),
                _ => Renewal::Unsure("away".to_owned()),
            })
        };
        let why = keep_renewing(begun + TTL, pending, renew, |_| {}).await;
        (why, sent_ms.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_at_each_third_until_it_is_ended() {
        let (why, sent) = play(vec![Some(true), Some(true), Some(false)]).await;
        assert_eq!(why, Lost::Told("ended"));
        assert_eq!(sent, [10_000, 20_000, 30_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_at_once_when_that_is_asked_and_goes_on_from_there() {
        let begun = Instant::now();
        let (is_asked, sent) = (Cell::new(false), RefCell::new(Vec::new()));
        let asked = async || match is_asked.replace(true) {
            false => tokio::time::sleep(Duration::from_secs(1)).await,
            true => pending().await,
        };
        let renew = |asked: Option<()>| {
            let length = if asked.is_some() { 2 * TTL } else { TTL };
            sent.borrow_mut().push((begun.elapsed().as_secs(), length));
            std::future::ready(match begun.elapsed().as_secs() {
                0..30 => Renewal::Until(Instant::now() + length),
                _ => Renewal::Lost("ended"),
            })
        };
        let why = keep_renewing(begun + TTL, asked, renew, |_| {}).await;
        assert_eq!(why, Lost::Told("ended"));
        assert_eq!(sent.into_inner(), [(1, 2 * TTL), (21, TTL), (31, TTL)]);
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_answers_it_is_lost_only_when_it_has_expired() {
        let (why, sent) = play(vec![Some(true)]).await;
        assert_eq!(why, Lost::NotRenewed("away".to_owned()));
        assert_eq!(sent[..3], [10_000, 20_000, 21_000]);
        assert_eq!(sent.last(), Some(&40_000));
        assert!(sent.len() < 12, "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_back_in_time_keeps_the_lease() {
        let (_, sent) = play(vec![None, None, Some(true), Some(false)]).await;
        assert_eq!(sent, [10_000, 11_000, 13_000, 23_000]);
    }
}
