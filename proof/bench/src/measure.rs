//! Laps in turns: every contender runs once in each round, so whatever disturbs
//! the machine disturbs all of them, and a ratio is taken inside its round.

use crate::options::Options;
use std::time::{Duration, Instant};

/// Something measured: runs an operation `n` times and says how long it took.
pub struct Contender {
    pub name: &'static str,
    lap: Box<dyn FnMut(u64) -> Duration>,
}

impl Contender {
    /// A contender that times itself (threads, runtimes).
    pub fn timed(name: &'static str, lap: impl FnMut(u64) -> Duration + 'static) -> Self {
        Contender {
            name,
            lap: Box::new(lap),
        }
    }

    /// A contender on this thread. `run(n)` does `n` operations and returns how
    /// many were admitted, which must be all of them or none: a limiter that
    /// changes its mind half-way measures two things at once.
    pub fn new(
        name: &'static str,
        expect: Expect,
        mut run: impl FnMut(u64) -> u64 + 'static,
    ) -> Self {
        Contender::timed(name, move |n| {
            let start = thread_time();
            let admitted = run(n);
            let elapsed = thread_time() - start;
            expect.verify(name, admitted, n);
            elapsed
        })
    }

    /// Nanoseconds for one operation in a lap of `n`.
    fn nanoseconds(&mut self, n: u64) -> f64 {
        (self.lap)(n).as_nanos() as f64 / n as f64
    }

    /// The number of operations that fill a lap; finding it is also the warm-up.
    fn calibrate(&mut self, lap: Duration) -> u64 {
        let mut n = 1_u64;
        loop {
            let elapsed = (self.lap)(n);
            if elapsed * 4 >= lap {
                let scale = lap.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
                return ((n as f64 * scale) as u64).max(1);
            }
            n *= 2;
        }
    }
}

/// What every operation of a lap must have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Admitted,
    Refused,
}

impl Expect {
    pub fn verify(self, name: &str, admitted: u64, n: u64) {
        let expected = if self == Expect::Admitted { n } else { 0 };
        assert_eq!(
            admitted, expected,
            "{name}: of {n} operations {admitted} were admitted"
        );
    }
}

/// One round's figure for each contender, in their order.
pub type Round = Vec<f64>;

/// Runs all contenders in turns; each round starts with another one.
pub fn in_turns(options: &Options, contenders: &mut [Contender]) -> Vec<Round> {
    let laps: Vec<u64> = contenders
        .iter_mut()
        .map(|each| each.calibrate(options.lap))
        .collect();
    (0..options.rounds)
        .map(|round| one_round(round, contenders, &laps))
        .collect()
}

fn one_round(round: usize, contenders: &mut [Contender], laps: &[u64]) -> Round {
    let count = contenders.len();
    let mut figures = vec![0.0; count];
    for place in 0..count {
        let index = (round + place) % count;
        figures[index] = contenders[index].nanoseconds(laps[index]);
    }
    figures
}

/// Processor time of this thread. Laps on one thread are measured with it, so a
/// neighbour that takes the processor away does not count as the limiter's work.
pub fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the whole process, helper threads included.
pub fn process_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer for the whole call.
    let failed = unsafe { libc::clock_gettime(id, &mut time) };
    assert_eq!(failed, 0, "the system has no processor clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Keeps this thread on one of the process's processors, counted from 0.
/// Where there are fewer, it stays free.
pub fn stay_on_processor(index: usize) {
    // SAFETY: an all-zero set is a valid, empty one, and each call is given a
    // set that lives as long as the call.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &mut allowed);
        let mut processors = (0..size * 8).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed));
        if let Some(cpu) = processors.nth(index) {
            let mut chosen: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut chosen);
            libc::sched_setaffinity(0, size, &chosen);
        }
    }
}

/// Wall time of a piece of work.
pub fn wall<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
