//! The laws of the core (`core/tests`), on a store: over limits of every kind
//! with random pasts, counted by hand, never by asking the code under test to judge
//! itself.
//!
//! | room | holds |
//! |---|---|
//! | `kinds` | limits of every kind with small numbers |
//! | `key` | a key under some limits |
//! | `past` | steps of a random past |
//! | `instants` | instants that are exact, and keys that are as good as new |
//! | `clock` | clocks that step back |
//! | `exact` | what a bucket and a window admit, to the unit |
//! | `parts` | several limits, with shadows and postpaid ones |
//! | `held` | slots, conserved |
//! | `refunds` | what is given back |
//! | `versions` | several versions of a limit at once |
//!
//! What the [walks](crate::walk) and the [checks](crate::checks) show already is not
//! shown again: that a limit of each kind admits what a plain model admits, that all or
//! nothing is taken, that a refusal changes nothing, that what is given back in time
//! might never have been taken, and that raising a limit delays no one.

mod clock;
mod exact;
mod held;
mod instants;
mod key;
mod kinds;
mod parts;
mod past;
mod refunds;
mod versions;

use std::sync::Arc;

use tidegate::Store;

use crate::Subject;
use crate::rng::Rng;

/// Panics if the store breaks it. It has tables of its own.
type Law = fn(&Arc<dyn Store>, &mut Rng);

macro_rules! laws {
    ($($room:ident::$name:ident,)*) => {
        &[$((stringify!($name), $room::$name),)*]
    };
}

/// Every law by its name.
const LAWS: &[(&str, Law)] = laws![
    instants::the_instants_of_a_standing_and_of_a_refusal_are_exact,
    instants::stale_state_and_absent_state_decide_alike,
    clock::a_clock_that_steps_back_locks_nobody_up_for_longer_than_a_refill,
    clock::a_clock_that_steps_back_admits_nothing_more_over_a_history,
    exact::a_bucket_grants_the_floor_of_burst_plus_elapsed_times_rate,
    exact::in_each_window_exactly_the_capacity_is_admitted,
    parts::a_shadow_refuses_no_one_and_all_else_is_taken_or_nothing,
    parts::a_debit_is_charged_in_full_and_says_whether_more_may_start,
    held::held_and_free_are_the_capacity_and_fences_grow,
    refunds::what_was_given_back_might_never_have_been_taken,
    refunds::what_comes_back_too_late_is_nobodys,
    refunds::unused_leases_bank_no_burst,
    refunds::of_many_leases_nearly_all_comes_back_and_never_more,
    refunds::what_many_leases_give_back_is_never_too_much,
    versions::versions_asked_in_turn_admit_no_more_than_the_larger_alone,
    versions::a_server_that_does_not_know_a_limit_makes_the_others_admit_no_more,
];

/// The most rounds, each over random pasts of its own.
const MOST_ROUNDS: u32 = 20;

/// Walks that take about as long as a round of all laws.
const WALKS_A_ROUND: u32 = 100;

/// Holds every law against a store, in as many rounds as the subject bears.
///
/// # Panics
/// At the first answer that breaks one; which it was is printed before.
pub fn hold(subject: &Subject) {
    if let Err(reason) = subject.needs_the_callers_clock() {
        println!("skipped the laws: {reason}");
        return;
    }
    let rounds = subject.walks(MOST_ROUNDS * WALKS_A_ROUND) / WALKS_A_ROUND;
    let store = subject.fresh();
    for round in 0..rounds.max(1) {
        for (name, law) in LAWS {
            println!("round {round}: {name}");
            law(&store, &mut Rng::new(round.into()));
        }
    }
}
