//! The answer to a call: what it tells is taken over, and what others have used is charged.

use std::sync::Arc;

use tidegate::{Limit, Timestamp};
use tidegate_llm::learnt::{Came, Elsewhere};
use tidegate_llm::{Counts, Signals, Unit};
use tidegate_service::{Call, Number, Question, ServiceError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::debit::{Debit, Debits};
use super::limit::LearntLimit;
use crate::held::{Held, Whose};
use crate::inner::{Inner, TOLD_WITHIN};
use crate::settings::Settings;

/// The answer to a call came, at `now`.
pub async fn answered(
    gateway: &Arc<Inner>,
    held: &mut Held,
    came: Came,
    signals: &Signals,
    now: Timestamp,
) {
    let sent = held.counted();
    let mut debits = Debits::new();
    for (limit, granted) in &sent.limits {
        let by_store = |at| sent.by_store(granted, at);
        let unit = gateway.settings.unit_of(limit.limit());
        let (elsewhere, news) = limit.answered((granted, came), (signals, unit), now, by_store);
        if let Some(news) = news {
            gateway.learning.tell(limit.name(), news);
            gateway.learning.prepare(held.active());
        }
        if let Some(elsewhere) = elsewhere {
            let amount = charge(gateway, held.whose(), limit, elsewhere);
            debits.push(Debit::new(limit.limit().name(), granted.amount(), amount));
        }
    }
    let by = Instant::now() + TOLD_WITHIN;
    for debit in &mut debits {
        let _ = timeout_at(by, debit.carried_out()).await;
    }
    held.debited(debits);
}

/// Charges what others have used, unless another gateway has: how much this one does. It goes on if
/// the caller is gone.
fn charge(
    gateway: &Arc<Inner>,
    whose: Whose,
    limit: &Arc<LearntLimit>,
    elsewhere: Elsewhere,
) -> JoinHandle<u64> {
    let (inner, limit) = (Arc::clone(gateway), Arc::clone(limit));
    let task = async move {
        let charged = charged(&inner, &whose, &limit, elsewhere).await;
        charged.unwrap_or_else(|error| {
            warn!(
                policy = &*whose.active.policy().name,
                member = whose.member.as_deref(),
                limit = limit.limit().name(),
                %error,
                "use of the provider's account by others could not be charged; the limit may admit too much until the next answer"
            );
            0
        })
    };
    gateway.tasks.spawn(task)
}

async fn charged(
    gateway: &Inner,
    whose: &Whose,
    limit: &LearntLimit,
    elsewhere: Elsewhere,
) -> Result<u64, ServiceError> {
    let Some(_turn) = limit.turn().await else {
        return Ok(0);
    };
    let (amount, standing) = limit.count(&gateway.service, elsewhere).await?;
    if amount > 0 {
        let amounts = [(limit.limit().name(), Number::Units(amount))];
        let question = Question {
            policy: &whose.active.policy().name,
            whose: whose.key[..].into(),
            member: whose.member.as_deref(),
            amounts: amounts.into_iter().collect(),
            ..Question::default()
        };
        let call = Call::Debit(question);
        gateway.service.call(&whose.caller, call).await?;
    }
    if let Some(standing) = standing {
        limit.charged(amount, &standing);
    }
    Ok(amount)
}

impl Settings {
    /// What the provider calls what a limit counts; nothing of money.
    fn unit_of(&self, limit: &Limit) -> Option<Unit> {
        if limit.is_counted() {
            return Some(Unit::Requests);
        }
        Some(match self.counts(limit.name())? {
            Counts::Tokens => Unit::Tokens,
            Counts::Input => Unit::InputTokens,
            Counts::Output => Unit::OutputTokens,
            Counts::Money => return None,
        })
    }
}
