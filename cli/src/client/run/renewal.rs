//! Renews a lease while the command runs.

use std::time::Duration;

use tidegate::internal::Pace;
use tokio::time::{Instant, sleep, timeout_at};

use super::leases::{Held, Leases, Renewal};

/// Why it is lost if nobody says anything else.
const SILENT: &str = "no answer before it had expired";

/// Renews `held` each time a third of its length has passed, and answers why it
/// is lost, if it ever is. While nobody answers, it is not lost before it must
/// have expired.
pub async fn renew(leases: &impl Leases, held: &Held, ttl: Duration) -> String {
    let mut sure_until = held.sure_until;
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let mut pace = Pace::new(ttl);
    // Of a lease that was waited for, most may have passed: then at once.
    let mut pause = pace.answered(left(sure_until));
    let mut is_first = true;
    loop {
        sleep(pause).await;
        // A store that hangs is not waited for longer than the lease surely lasts.
        let by = match is_first {
            true => sure_until.max(Instant::now() + ttl / 3),
            false => sure_until,
        };
        is_first = false;
        let sent = timeout_at(by, leases.renew(held)).await;
        pause = match sent.unwrap_or_else(|_| Renewal::Unsure(SILENT.to_owned())) {
            Renewal::Lost(why) => return why,
            Renewal::Until(until) => {
                sure_until = until;
                pace.answered(left(until))
            }
            Renewal::Unsure(why) if Instant::now() >= sure_until => return why,
            Renewal::Unsure(why) => {
                if pace.is_answered() {
                    eprintln!("tidegate run: the lease is not renewed: {why}; trying again");
                }
                pace.unanswered(left(sure_until))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::client::exit::Outcome;

    const TTL: Duration = Duration::from_secs(30);

    /// Answers a script, and notes when it was asked.
    struct Script {
        begun: Instant,
        answers: RefCell<Vec<Option<bool>>>,
        sent_ms: RefCell<Vec<u128>>,
    }

    impl Leases for Script {
        async fn acquire(&self) -> Outcome<Held> {
            Ok(Held {
                id: "x".to_owned(),
                fence: 1,
                sure_until: self.begun + TTL,
            })
        }

        async fn renew(&self, _: &Held) -> Renewal {
            let now = Instant::now();
            let sent = now.duration_since(self.begun).as_millis();
            self.sent_ms.borrow_mut().push(sent);
            match self.answers.borrow_mut().pop() {
                Some(Some(true)) => Renewal::Until(now + TTL),
                Some(Some(false)) => Renewal::Lost("ended".to_owned()),
                _ => Renewal::Unsure("away".to_owned()),
            }
        }

        async fn end(&self, _: &Held, _: bool) -> Outcome<()> {
            Ok(())
        }
    }

    /// Says nothing, ever.
    struct Silent;

    impl Leases for Silent {
        async fn acquire(&self) -> Outcome<Held> {
            std::future::pending().await
        }

        async fn renew(&self, _: &Held) -> Renewal {
            std::future::pending().await
        }

        async fn end(&self, _: &Held, _: bool) -> Outcome<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_store_that_hangs_it_is_known_when_the_lease_has_expired() {
        let begun = Instant::now();
        let held = Held {
            id: "x".to_owned(),
            fence: 1,
            sure_until: begun + TTL,
        };
        assert_eq!(renew(&Silent, &held, TTL).await, SILENT);
        assert_eq!(begun.elapsed(), TTL);
    }

    async fn play(mut answers: Vec<Option<bool>>) -> (String, Vec<u128>) {
        answers.reverse();
        let script = Script {
            begun: Instant::now(),
            answers: RefCell::new(answers),
            sent_ms: RefCell::default(),
        };
        let held = script.acquire().await.unwrap();
        let why = renew(&script, &held, TTL).await;
        (why, script.sent_ms.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_at_each_third_until_it_is_ended() {
        let (why, sent) = play(vec![Some(true), Some(true), Some(false)]).await;
        assert_eq!(
            (why.as_str(), sent),
            ("ended", vec![10_000, 20_000, 30_000])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_answers_it_is_lost_only_when_it_has_expired() {
        let (why, sent) = play(vec![Some(true)]).await;
        assert_eq!(why, "away");
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
