//! Waiting where the store keeps the line: asks of all processes stand in one,
//! and the store wakes whose turn it is.

use std::sync::Arc;

use rand::RngExt;
use tidegate_contract::KeyPath;
use tidegate_contract::{Detail, Patience, RemoteTable, Reply, StoreError, Terms, Verb};
use tidegate_core::{Span, Verdict};

use super::line::{PRIORITY_STEP, never_fits};
use crate::ask::Ask;
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::set::{Inner, View};

/// Takes a lease, and waits for it as long as the ask says. `None`: the store
/// keeps no line.
pub(crate) async fn acquire(
    set: &Arc<Inner>,
    key: &[u8],
    ask: &Ask<'_>,
) -> Option<Result<Admission, Error>> {
    let since = set.clock.now();
    let patience = Patience {
        turn: rand::rng().random(),
        ahead: Span::from_micros(u64::from(ask.priority) * PRIORITY_STEP as u64),
        longest: ask.within,
        since,
        retried: ask.retried,
    };
    let id = rand::rng().random();
    let turn = wait(set, key, ask, (id, &patience));
    let answer = match ask.is_patient() {
        // Who does not wait is none of the crowd.
        false => turn.await?,
        true => match set.crowd.join(patience.turn, set.lines.most()) {
            Err(full) => Err(full),
            Ok(member) => match member.unless_stopped(turn).await {
                Err(stopped) => Err(stopped),
                Ok(answer) => answer?,
            },
        },
    };
    Some(answer.map(|decision| told(set, key, ask, &patience, decision)))
}

async fn wait(
    set: &Arc<Inner>,
    key: &[u8],
    ask: &Ask<'_>,
    (id, patience): (u128, &Patience),
) -> Option<Result<Decision, Error>> {
    let send = |remote: &dyn RemoteTable, view: &View, path: &KeyPath<'_>| {
        let amounts = view.amounts(ask)?;
        view.check_reach(path, &amounts)?;
        let terms = Terms {
            id,
            expires_at: set.clock.now() + view.ttl(ask)?,
            idempotency: ask.idempotency,
        };
        let take = Verb::Take {
            amounts: &amounts,
            lease: Some(terms),
            detail: Detail::OnRefusal,
        };
        let sent = set.with_command(view, path, take, |take| remote.wait(take, patience));
        sent.ok_or_else(no_line)
    };
    let answer = match set.ask_later(key, send).await {
        Err(error) if error == no_line() => return None,
        Err(error) => return Some(Err(error)),
        Ok((Reply::Decision(answer), view)) => (answer, view),
        Ok(_) => return Some(Err(Error::Stopped)),
    };
    let (answer, view) = answer;
    if answer.verdict == Verdict::Never
        && let Ok(amounts) = view.amounts(ask)
    {
        return Some(Err(never_fits(&view, &amounts, &answer)));
    }
    Some(Ok(Decision::new(answer, view)))
}

/// Counts the answer.
fn told(
    set: &Arc<Inner>,
    key: &[u8],
    ask: &Ask<'_>,
    patience: &Patience,
    decision: Decision,
) -> Admission {
    set.counters.decided(decision.admitted());
    if ask.is_patient() {
        match decision.admitted() {
            true => set.counters.waited(set.clock.now().since(patience.since)),
            false => set.counters.timed_out(),
        }
    }
    super::admission(set, key, decision)
}

fn no_line() -> Error {
    StoreError::Unavailable("the store keeps no line".to_owned()).into()
}
