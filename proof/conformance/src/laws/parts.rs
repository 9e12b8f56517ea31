//! Several limits of all kinds at once, some of them shadows, some postpaid.

use std::sync::Arc;

use tidegate_core::{Amount, Payment, Standing};
use tidegate_store::{Decision, Store, Verb};

use super::key::{Key, Limit};
use super::kinds::Kind;
use super::past::wait;
use crate::rng::Rng;

const LIMITS: usize = 4;
const ASKS: usize = 30;
const DEBITS: usize = 15;

/// What must fit is told from the standings before. Who would have been refused by a
/// shadow is not charged there; of every other limit all is charged, or nothing.
pub(super) fn a_shadow_refuses_no_one_and_all_else_is_taken_or_nothing(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let limits = limits(rng);
    let mut key = Key::under(store, &limits);
    for _ in 0..ASKS {
        key.now += wait(rng, &limits[0].kind);
        let amount = |limit: &Limit| rng.below(limit.kind.rule.capacity() + 1);
        let amounts: Vec<_> = limits.iter().map(amount).collect();
        let before = key.decide(Verb::Peek { amounts: &amounts });
        let (after, taken) = key.take_all(&amounts, 3_000);
        assert_eq!(taken.is_some(), after.verdict.admitted());
        assert_eq!(before.verdict, after.verdict);
        compare(&limits, &amounts, &before, &after);
    }
}

/// The work is done: what was used is charged to shadows as well, and the answer is
/// whether a unit more may start, of what was used. (Slots are held by leases alone.)
pub(super) fn a_debit_is_charged_in_full_and_says_whether_more_may_start(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let limits = limits(rng);
    let mut key = Key::under(store, &limits);
    for _ in 0..DEBITS {
        key.now += wait(rng, &limits[0].kind);
        let amount = |limit: &Limit| rng.below(limit.kind.rule.capacity() + 1);
        let amounts: Vec<_> = limits.iter().map(amount).collect();
        let before = key.decide(Verb::Peek { amounts: &amounts });
        let after = key.decide(Verb::Debit { amounts: &amounts });
        let how = format!("{amounts:?} of {limits:?}: {before:?} became {after:?}");
        let mut may_start = true;
        for (nth, limit) in limits.iter().enumerate() {
            let (old, new) = (standing(&before, nth), standing(&after, nth));
            let held = limit.kind.rule.is_held();
            let charged = if held { 0 } else { amounts[nth] };
            assert_eq!(free(&old) - free(&new), charged.into(), "{nth}: {how}");
            may_start &= limit.shadow || amounts[nth] == 0 || new.remaining > 0;
        }
        assert_eq!(after.verdict.admitted(), may_start, "{how}");
    }
}

fn limits(rng: &mut Rng) -> Vec<Limit> {
    let mut kinds = Kind::all(rng, 64);
    let mut draw = |level| {
        let nth = rng.below(kinds.len() as u64) as usize;
        Limit {
            kind: kinds.remove(nth),
            level,
            payment: match rng.percent(30) {
                true => Payment::Postpaid,
                false => Payment::Prepaid,
            },
            shadow: rng.percent(30),
        }
    };
    (0..LIMITS).map(|nth| draw(nth * 2 / LIMITS)).collect()
}

fn compare(limits: &[Limit], amounts: &[Amount], before: &Decision, after: &Decision) {
    let fits = |nth: usize| {
        let must_fit = match limits[nth].payment {
            Payment::Prepaid => amounts[nth],
            Payment::Postpaid => amounts[nth].min(1),
        };
        must_fit <= standing(before, nth).remaining || must_fit == 0
    };
    let how = format!("{amounts:?} of {limits:?}: {before:?} became {after:?}");
    let mut refusing = (0..limits.len()).filter(|&nth| !fits(nth));
    let open = refusing.clone().all(|nth| limits[nth].shadow);
    assert_eq!(after.verdict.admitted(), open, "{how}");
    assert_eq!(
        after.shadowed,
        refusing.any(|nth| limits[nth].shadow),
        "{how}"
    );
    assert_eq!(after.binding.is_none(), open, "{how}");
    let binds = |nth: usize| !fits(nth) && !limits[nth].shadow;
    assert!(after.binding.is_none_or(binds), "{how}");
    for (nth, &amount) in amounts.iter().enumerate() {
        let charged = if open && fits(nth) { amount } else { 0 };
        let (old, new) = (standing(before, nth), standing(after, nth));
        assert_eq!(free(&old) - free(&new), i128::from(charged), "{nth}: {how}");
    }
}

fn standing(decision: &Decision, nth: usize) -> Standing {
    decision.standings[nth].expect("asked for")
}

/// What is free, less what is owed.
fn free(standing: &Standing) -> i128 {
    i128::from(standing.remaining) - i128::from(standing.debt)
}
