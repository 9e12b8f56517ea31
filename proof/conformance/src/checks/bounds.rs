//! A store that is full says so, and forgets only what equals "never seen".

use tidegate_core::Amount;
use tidegate_store::{Ending, Reply, StoreError, Verb};

use super::fixture::{Fixture, budget, plan, rate, slots, table_name};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

const MAX_KEYS: usize = 6;
const MAX_LEASES: usize = 4;

/// A fixture at a store of few keys and leases.
fn bounded(
    subject: &Subject,
    max_keys: usize,
    levels: usize,
    rules: &[(usize, tidegate_core::Rule)],
) -> Result<Fixture, Skipped> {
    let store = subject.bounded_store(max_keys, MAX_LEASES)?;
    Ok(Fixture::remembering(
        &*store,
        &table_name(),
        plan(0, levels, rules),
    ))
}

/// What was sent to both, and how it went.
struct Twins {
    bounded: Fixture,
    unbounded: Fixture,
    rng: Rng,
    held: Vec<(Vec<u8>, u128)>,
    full: usize,
    answered: usize,
}

impl Twins {
    /// Asks the bounded store; and the other too, unless that one was full.
    fn execute(
        &mut self,
        execute: impl Fn(&Fixture) -> Result<Reply, StoreError>,
    ) -> Option<Reply> {
        match execute(&self.bounded) {
            Err(StoreError::KeysFull { max_keys: MAX_KEYS } | StoreError::LeasesFull { .. }) => {
                self.full += 1;
                None
            }
            answer => {
                self.answered += 1;
                assert_eq!(answer, execute(&self.unbounded));
                answer.ok()
            }
        }
    }

    fn step(&mut self) {
        let key = format!("{}/{}", self.rng.below(5), self.rng.below(4)).into_bytes();
        let amounts: Vec<Amount> = (0..4).map(|_| self.rng.below(4)).collect();
        match self.rng.below(12) {
            0..4 => {
                drop(self.execute(|fixture| fixture.decision(&key, &amounts).map(Reply::Decision)))
            }
            4..6 => self.lease(&key, &amounts),
            6 => drop(
                self.execute(|fixture| fixture.execute(&key, Verb::Debit { amounts: &amounts })),
            ),
            7 => drop(self.execute(|fixture| fixture.execute(&key, Verb::Reset))),
            8 => drop(
                self.execute(|fixture| fixture.execute(&key, Verb::Peek { amounts: &amounts })),
            ),
            9 => self.end(&amounts),
            _ => {
                let micros = self.rng.below(2_500) as i64;
                self.bounded.pass(micros);
                self.unbounded.pass(micros);
            }
        }
    }

    fn lease(&mut self, key: &[u8], amounts: &[Amount]) {
        let micros = self.rng.between(500, 4_000);
        let lease = |fixture: &Fixture| {
            let decision = fixture.lease_by(key, amounts, micros, None)?;
            Ok(Reply::Decision(decision))
        };
        if let Some(Reply::Decision(decision)) = self.execute(lease)
            && let Some(granted) = decision.lease
        {
            self.held.push((key.to_vec(), granted.id));
        }
    }

    fn end(&mut self, amounts: &[Amount]) {
        if self.held.is_empty() {
            return;
        }
        let at = self.rng.below(self.held.len() as u64) as usize;
        let (key, id) = self.held.swap_remove(at);
        let used: Vec<_> = amounts.iter().map(|&amount| Some(amount)).collect();
        self.execute(|fixture| {
            fixture
                .end(&key, id, Ending::Settle(&used))
                .map(Reply::Settled)
        });
    }
}

/// The unbounded one never forgets; so what the bounded one dropped must have
/// equalled "never seen".
pub(super) fn a_bounded_store_answers_as_an_unbounded_one_or_says_that_it_is_full(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let single_bucket = (1, vec![(0, rate(1, 4))]);
    let many = vec![
        (0, rate(2, 9)),
        (0, budget(8)),
        (1, rate(1, 4)),
        (1, slots(3)),
    ];
    for (levels, rules) in [single_bucket, (2, many)] {
        let mut twins = Twins {
            bounded: bounded(subject, MAX_KEYS, levels, &rules)?,
            unbounded: Fixture::new(subject, levels, &rules),
            rng: Rng::new(5),
            held: Vec::new(),
            full: 0,
            answered: 0,
        };
        (0..4_000).for_each(|_| twins.step());
        assert!(twins.full > 50, "it was full {} times", twins.full);
        assert!(twins.answered > 1_000, "{} answers", twins.answered);
    }
    Ok(())
}

/// Room for the ancestor alone: a step that finds none for the key charges
/// neither.
pub(super) fn a_store_that_is_full_halfway_up_a_hierarchy_changes_nothing(
    subject: &Subject,
) -> Result<(), Skipped> {
    let rules = [(0, rate(1, 9)), (1, rate(1, 9))];
    let fixture = bounded(subject, 3, 2, &rules)?;
    assert!(fixture.admits(b"a/x", &[9, 9]));
    let full = Err(StoreError::KeysFull { max_keys: 3 });
    for _ in 0..3 {
        assert_eq!(fixture.decision(b"b/x", &[1, 1]).map(|d| d.verdict), full);
        assert_eq!(
            fixture
                .lease_by(b"b/x", &[1, 1], 1_000, None)
                .map(|d| d.verdict),
            full
        );
        assert_eq!(fixture.left(b"b/x"), [9, 9]);
    }
    assert_eq!(fixture.left(b"a/x"), [0, 0]);
    assert!(fixture.admits(b"b", &[1]), "there is room for the ancestor");
    Ok(())
}

pub(super) fn no_more_leases_are_held_than_there_is_room_for(
    subject: &Subject,
) -> Result<(), Skipped> {
    let rules = [(0, rate(1, 100)), (0, slots(100))];
    let fixture = bounded(subject, 100, 1, &rules)?;
    let held: Vec<_> = (0..MAX_LEASES)
        .map(|_| fixture.hold(b"k", &[1, 1], 1_000_000))
        .collect();
    let before = fixture.standings(b"k");
    let full = Err(StoreError::LeasesFull {
        max_leases: MAX_LEASES,
    });
    for key in [b"k", b"l"] {
        let one_more = fixture.lease_by(key, &[1, 1], 1_000_000, None);
        assert_eq!(one_more.map(|decision| decision.verdict), full);
    }
    assert_eq!(fixture.standings(b"k"), before);
    assert_eq!(fixture.left(b"l"), [100, 100]);
    let verb = Verb::End {
        id: held[0].0,
        ending: Ending::Release,
        remember: false,
    };
    fixture.execute(b"k", verb).expect("held");
    fixture.hold(b"l", &[1, 1], 1_000_000);
    Ok(())
}
