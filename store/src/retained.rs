//! States of limits that the plan at hand does not know.
//!
//! While limits change, some servers of a store decide by a newer plan and some by an
//! older one, and a row goes to and fro between them. What the plan at hand does not know
//! of a row, the row *retains*, with the rule that it was written by, so that a server
//! that knows it goes on where the last one left it: otherwise the limit would begin anew
//! with every request at a server that is behind.
//!
//! A change of limits still forgets the limits that it removes, of every row that was not
//! written since. One that was is another server's, which goes on by the older limits.
//!
//! So much and no more: [`MOST_RETAINED`] states, each until it equals "never seen". A
//! store of one process has no server that is behind, and retains nothing.

use tidegate_core::{Bounds, DecisionTime, DecodeError, LeaseTerm, Rule, State, Timestamp, codec};

use crate::bytes::Reader;
use crate::bytes::plan::{decode_rule, encode_rule};
use crate::command::{KeyCommand, Verb};
use crate::decide::{self, Row};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::plan::{Plan, PlanLimit};
use crate::reply::Reply;

/// So many states a row retains; of more, the one that is spent first is given up.
pub const MOST_RETAINED: usize = 16;

/// The state of a limit that the plan at hand does not know.
#[derive(Clone, PartialEq, Debug)]
pub struct Retained {
    /// The limit's number.
    pub uid: u32,
    /// The rule that the state was written by.
    pub rule: Rule,
    /// The state.
    pub state: State,
}

impl Retained {
    /// From when on it equals "never seen".
    #[must_use]
    pub fn forget_at(&self) -> Timestamp {
        self.rule.forget_at(&self.state)
    }
}

/// Carries the rows of one level over from the plan that wrote them, as
/// [`adopt_row`](decide::adopt_row) does, between servers of which one is behind the other:
/// what `plan` does not know goes to `retained`, and what it knows comes from there.
#[must_use]
pub fn carry_row(
    (plan, old): (&Plan, &Plan),
    level: usize,
    row: &mut [State],
    retained: &mut Vec<Retained>,
    now: Timestamp,
    calendars: &[Option<Bounds>],
) -> Row {
    let unknown = unknown_to(plan, old, level, row);
    let mut carried = decide::adopt_row(plan, old, level, row, now, calendars);
    for (state, new) in carried.iter_mut().zip(plan.range(level)) {
        let limit = &plan.limits()[new];
        let known = retained.iter().position(|state| state.uid == limit.uid);
        let Some(known) = known.map(|at| retained.remove(at)) else {
            continue;
        };
        if !knows(old, level, limit.uid) {
            let calendar = calendars.get(new).copied().flatten();
            *state = known.state;
            limit
                .rule
                .adopt(state, &known.rule, &DecisionTime { now, calendar });
        }
    }
    retained.retain(|state| !unknown.iter().any(|newer| newer.uid == state.uid));
    retained.extend(unknown);
    retained.retain(|state| state.forget_at() > now);
    while retained.len() > MOST_RETAINED {
        let first = retained.iter().enumerate();
        let first = first.min_by_key(|(_, state)| state.forget_at());
        let first = first.map_or(0, |(at, _)| at);
        retained.remove(first);
    }
    carried
}

/// What `row` has of limits that `plan` does not.
fn unknown_to(plan: &Plan, old: &Plan, level: usize, row: &mut [State]) -> Vec<Retained> {
    let limits = old.limits()[old.range(level)].iter().zip(row);
    let unknown = limits
        .filter(|(limit, state)| !state.is_fresh() && !knows(plan, level, limit.uid))
        .map(|(limit, state)| Retained {
            uid: limit.uid,
            rule: limit.rule,
            state: std::mem::take(state),
        });
    unknown.collect()
}

fn knows(plan: &Plan, level: usize, uid: u32) -> bool {
    let is = |limit: &PlanLimit| limit.uid == uid;
    plan.limits()[plan.range(level)].iter().any(is)
}

/// As [`decide::apply`], on rows of which each retains something too: the end of a lease
/// gives its slots back there, a renewal holds them longer, and a reset forgets the rest.
///
/// # Errors
/// As [`decide::apply`].
pub fn apply<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    retained: &mut [Vec<Retained>],
    ledger: &mut Ledger<O>,
    owner: O,
) -> Result<Reply, StoreError> {
    if retained.iter().all(Vec::is_empty) {
        return decide::apply(command, rows, ledger, owner);
    }
    let term = |id| {
        let record = ledger.get(id)?;
        Some(LeaseTerm {
            id,
            expires_at: record.granted.expires_at,
        })
    };
    let held = match command.verb {
        Verb::End { id, .. } | Verb::Renew { id, .. } => term(id),
        _ => None,
    };
    let reply = decide::apply(command, rows, ledger, owner)?;
    match (command.verb, held) {
        (Verb::End { .. }, Some(term)) => each(retained, command.now, |rule, state| {
            rule.release(state, term, command.now);
        }),
        (Verb::Renew { until, .. }, Some(term)) => each(retained, command.now, |rule, state| {
            rule.renew(state, term, until, command.now);
        }),
        (Verb::Reset, _) => reset(command, retained, ledger),
        _ => {}
    }
    Ok(reply)
}

fn each(retained: &mut [Vec<Retained>], now: Timestamp, act: impl Fn(&Rule, &mut State)) {
    for Retained { rule, state, .. } in retained.iter_mut().flatten() {
        if rule.is_held() {
            rule.observe(state, &DecisionTime::at(now));
            act(rule, state);
        }
    }
}

fn reset<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    retained: &mut [Vec<Retained>],
    ledger: &mut Ledger<O>,
) {
    let Some(own) = retained.last_mut() else {
        return;
    };
    let uids: Vec<u32> = own.iter().map(|state| state.uid).collect();
    own.iter_mut().for_each(|known| known.state.reset());
    own.retain(|known| !known.state.is_fresh());
    decide::forget_charges(command, ledger, |uid| uids.contains(&uid));
}

/// Appends what a row retains: `n u32, n x (uid u32, rule, length u32, state)`.
pub fn encode_retained(retained: &[Retained], out: &mut Vec<u8>) {
    out.extend((retained.len() as u32).to_le_bytes());
    for known in retained {
        out.extend(known.uid.to_le_bytes());
        encode_rule(&known.rule, out);
        let mut state = Vec::new();
        codec::encode(&known.state, &mut state);
        out.extend((state.len() as u32).to_le_bytes());
        out.extend(state);
    }
}

/// Reads what a row retains.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_retained(reader: &mut Reader<'_>) -> Result<Vec<Retained>, DecodeError> {
    let count = reader.count(20)?;
    let mut retained = Vec::with_capacity(count.min(MOST_RETAINED));
    for _ in 0..count {
        let (uid, rule) = (reader.u32()?, decode_rule(reader)?);
        let state = codec::decode(reader.bytes()?)?;
        if !rule.fits(&state) {
            return Err(DecodeError::Corrupt("a state that is retained"));
        }
        retained.push(Retained { uid, rule, state });
    }
    Ok(retained)
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Bucket, Payment, Span};

    use super::*;

    /// Buckets of these numbers; the later ones drain more slowly.
    fn plan(version: u64, uids: impl Iterator<Item = u32>) -> Plan {
        let limit = |uid| {
            let period = Span::from_secs(u64::from(uid) + 1);
            PlanLimit {
                name: format!("limit {uid}").into(),
                uid,
                rule: Rule::Bucket(Bucket::new(1, period, 9).expect("a sound rate")),
                level: 0,
                payment: Payment::Prepaid,
                shadow: false,
                refund_on_expiry: false,
                adaptive: None,
            }
        };
        Plan::new(version, 1, uids.map(limit).collect(), Span::from_secs(60))
    }

    fn charged(plan: &Plan, now: Timestamp) -> Row {
        let mut row = decide::fresh_row(plan, 0);
        for (limit, state) in plan.limits().iter().zip(&mut row) {
            limit.rule.charge(state, 1, &DecisionTime::at(now), None);
        }
        row
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn uids(retained: &[Retained]) -> Vec<u32> {
        retained.iter().map(|known| known.uid).collect()
    }

    #[test]
    fn a_state_comes_back_as_it_went() {
        let (behind, ahead) = (plan(0, 0..1), plan(1, 0..3));
        let (mut row, mut retained) = (charged(&ahead, at(100)), Vec::new());
        let was = row.clone();
        let mut kept = carry_row((&behind, &ahead), 0, &mut row, &mut retained, at(100), &[]);
        assert_eq!(uids(&retained), [1, 2]);
        let back = carry_row((&ahead, &behind), 0, &mut kept, &mut retained, at(100), &[]);
        assert_eq!((back, retained), (was, Vec::new()));
    }

    #[test]
    fn what_is_spent_goes_and_of_too_many_what_is_spent_first() {
        let (behind, ahead) = (plan(0, 0..1), plan(1, 0..40));
        let carried = |seconds| {
            let (mut row, mut retained) = (charged(&ahead, at(100)), Vec::new());
            let plans = (&behind, &ahead);
            let _ = carry_row(plans, 0, &mut row, &mut retained, at(seconds), &[]);
            uids(&retained)
        };
        assert_eq!(carried(100), (24..40).collect::<Vec<_>>());
        assert_eq!(carried(135), (35..40).collect::<Vec<_>>());
        assert!(carried(1_000).is_empty());
    }

    #[test]
    fn what_is_retained_is_read_back_or_refused() {
        let ahead = plan(1, 0..3);
        let (mut row, mut retained) = (charged(&ahead, at(100)), Vec::new());
        let plans = (&plan(0, 0..1), &ahead);
        let _ = carry_row(plans, 0, &mut row, &mut retained, at(100), &[]);
        let mut bytes = Vec::new();
        encode_retained(&retained, &mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(decode_retained(&mut reader), Ok(retained));
        assert_eq!(reader.end(), Ok(()));
        for length in 0..bytes.len() {
            assert!(decode_retained(&mut Reader::new(&bytes[..length])).is_err());
        }
        // The first rule is of another kind than its state.
        let mut other = bytes.clone();
        other[8] = 5;
        assert!(decode_retained(&mut Reader::new(&other)).is_err());
    }
}
