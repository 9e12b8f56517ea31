//! The rounds: each spends the budget of a new key, with other faults.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::books::{Books, Made, name};
use crate::client::{Call, Habits, LONGEST};
use crate::front::{FRONTS, Front};
use crate::http::{self, Ended};
use crate::provider::{PRICE, Provider};

/// How many clients call at once.
pub const CLIENTS: usize = 16;

/// After so many calls something is killed.
const BETWEEN_FAULTS: usize = 150;

/// From how long on, and up to how long, a client stays away from who is away.
const AWAY: Duration = Duration::from_millis(100);
const LONGEST_AWAY: Duration = Duration::from_secs(3);

/// A round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// As the table names it, and its key.
    pub name: &'static str,
    /// What calls are like.
    pub habits: Habits,
    /// Whether processes are killed, and what they share.
    pub kills: bool,
    /// Whether what they share is killed.
    pub restarts: bool,
}

const fn round(name: &'static str, [leave, kills, restarts]: [bool; 3]) -> Round {
    let habits = Habits {
        bounded: true,
        leave,
    };
    Round {
        name,
        habits,
        kills,
        restarts,
    }
}

impl Round {
    /// What calls may have used beyond their reservations, in millionths of a dollar: nothing where
    /// they name a bound.
    #[must_use]
    pub const fn may_owe(&self) -> u64 {
        match self.habits.bounded {
            true => 0,
            false => CLIENTS as u64 * LONGEST * PRICE.1,
        }
    }
}

/// All of them.
pub const ROUNDS: &[Round] = &[
    round("calm", [false, false, false]),
    Round {
        habits: Habits {
            bounded: false,
            leave: false,
        },
        ..round("unbounded", [false, false, false])
    },
    round("leaving", [true, false, false]),
    round("killed", [false, true, false]),
    round("restarted", [false, false, true]),
    round("all", [true, true, true]),
];

/// What clients and faults share.
struct Course<'a> {
    habits: Habits,
    at: [SocketAddr; FRONTS],
    /// The fields that name key and call, by its number.
    fields: &'a [Vec<(&'static str, String)>],
    next: AtomicUsize,
    made: Mutex<Vec<Noted>>,
    told: Condvar,
    /// How often each process was killed.
    kills: [AtomicU64; FRONTS],
}

/// A call as its client notes it.
struct Noted {
    made: Made,
    client: usize,
    which: usize,
    /// How often its process had been killed when it began.
    life: u64,
}

/// Makes `calls` calls by [`CLIENTS`] at once, and sums up.
///
/// # Errors
/// If something does not start again, or does not tell.
pub fn run(
    round: &Round,
    calls: u64,
    front: &mut dyn Front,
    provider: &Provider,
) -> Result<Books, String> {
    let fields = (0..calls).map(|number| front.fields(round.name, &name(number)));
    let fields: Vec<_> = fields.collect();
    let course = Course {
        habits: round.habits,
        at: front.at(),
        fields: &fields,
        next: AtomicUsize::new(0),
        made: Mutex::default(),
        told: Condvar::new(),
        kills: [const { AtomicU64::new(0) }; FRONTS],
    };
    thread::scope(|scope| {
        let course = &course;
        for client in 0..CLIENTS {
            scope.spawn(move || course.client(client));
        }
        course.faults(round, front)
    })?;
    let made = course.made.into_inner();
    let made = settled(made.unwrap_or_else(PoisonError::into_inner), &course.kills);
    let spent = front.spent(round.name)?;
    Ok(Books::of(&made, &provider.ledger()?, spent))
}

impl Course<'_> {
    fn client(&self, client: usize) {
        let mut away = AWAY;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(fields) = self.fields.get(number) else {
                return;
            };
            let (which, number) = (number % FRONTS, number as u64);
            let life = self.kills[which].load(Ordering::SeqCst);
            let call = Call::draw(number, self.habits);
            let ended = http::call(self.at[which], &call.request(fields), call.leaves);
            let made = Made {
                number,
                reserved: call.reserved(),
                ended,
                is_unsettled: false,
            };
            lock(&self.made).push(Noted {
                made,
                client,
                which,
                life,
            });
            self.told.notify_all();
            away = match ended {
                Ended::Failed(_) | Ended::Unreached => (away * 2).min(LONGEST_AWAY),
                _ => AWAY,
            };
            if away > AWAY {
                pause(away);
            }
        }
    }

    /// Kills one after the other, by how many calls were made.
    fn faults(&self, round: &Round, front: &mut dyn Front) -> Result<(), String> {
        let mut turn = 0;
        while (round.kills || round.restarts) && self.await_calls((turn + 1) * BETWEEN_FAULTS) {
            let is_stores = round.restarts && (!round.kills || turn % 2 == 0);
            match is_stores {
                true => front.restart_store()?,
                false => {
                    let which = turn % FRONTS;
                    front.kill(which);
                    self.kills[which].fetch_add(1, Ordering::SeqCst);
                    front.start(which)?;
                }
            }
            turn += 1;
        }
        Ok(())
    }

    /// Whether so many calls will have been made; waits for them.
    fn await_calls(&self, count: usize) -> bool {
        if count >= self.fields.len() {
            return false;
        }
        let mut made = lock(&self.made);
        while made.len() < count {
            made = self.told.wait(made).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

/// A client comes back later to who is away.
#[expect(
    clippy::disallowed_methods,
    reason = "how long clients stay away decides nothing"
)]
fn pause(away: Duration) {
    thread::sleep(away);
}

/// The calls; each client's last one by a process before it was killed may not have been settled.
fn settled(noted: Vec<Noted>, kills: &[AtomicU64; FRONTS]) -> Vec<Made> {
    let mut last = HashMap::new();
    for (at, call) in noted.iter().enumerate() {
        if call.made.ended == Ended::Whole && call.life < kills[call.which].load(Ordering::SeqCst) {
            last.insert((call.client, call.which, call.life), at);
        }
    }
    let mut made: Vec<Made> = noted.into_iter().map(|call| call.made).collect();
    last.into_values()
        .for_each(|at| made[at].is_unsettled = true);
    made
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
