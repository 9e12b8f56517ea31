//! So many windows later each limit is where it was, before a server that never changes and
//! is always saturated.
//!
//! Without a maximum, what others do there after 100, 1,000, 10,000 and 100,000 windows:
//! Netflix's Gradient2 85, 394, 7,585 and 79,585; Netflix's Vegas, whose probe takes the signal of the
//! moment for the shortest, 55, 61, 89 and 313; failsafe-go's limiter 28 to 54.

use std::time::Duration;

use tidegate::adaptive::Estimator;

use crate::server::{Run, SERVER};

const MARKS: [usize; 4] = [100, 1_000, 10_000, 100_000];

fn unbounded(estimator: Estimator) -> Estimator {
    estimator.within(1..=1 << 50).expect("a range")
}

/// The limit at each of the marks.
fn marks(mut run: Run) -> [u64; 4] {
    let limits = run.limits(MARKS[3], SERVER);
    MARKS.map(|mark| limits[mark - 1])
}

/// Its long average becomes that of the overload. So it is documented with its maximum as
/// its only bound.
#[test]
fn gradient2_drifts_as_its_source_does_and_within_its_maximum() {
    let free = unbounded(Estimator::gradient2());
    assert_eq!(marks(Run::windows(free, 0.0, 1)), [85, 394, 7_584, 79_584]);
    let mut bounded = Run::windows(Estimator::gradient2(), 0.0, 1);
    let limits = bounded.limits(10_000, SERVER);
    assert!(limits[1_000..].iter().all(|limit| *limit == 200));
}

/// It probes at half its limit, where the signal is without a queue.
#[test]
fn vegas_stays_where_it_is() {
    let mut run = Run::samples(unbounded(Estimator::vegas()), 0.0, 1);
    let limits = run.limits(100_000, SERVER);
    assert!(limits.iter().all(|limit| *limit <= 56));
    // It is at half of it while it probes, for a sample in some hundreds.
    let steady = limits[100..].iter().filter(|limit| **limit == 56).count();
    assert!(steady > 99_000, "{steady}");
}

#[test]
fn guarded_vegas_stays_where_it_is() {
    let mut run = Run::windows(unbounded(Estimator::guarded_vegas()), 0.0, 1);
    let limits = run.limits(100_000, SERVER);
    assert!(limits[50..].iter().all(|limit| *limit == 55));
}

/// 50 slots serve 75 within the time-out.
#[test]
fn aimd_goes_up_and_down_below_its_timeout() {
    let timeout = Duration::from_millis(15);
    let mut run = Run::samples(unbounded(Estimator::aimd(timeout)), 0.0, 1);
    let limits = run.limits(100_000, SERVER);
    assert!(limits[100..].iter().all(|limit| (68..=76).contains(limit)));
}
