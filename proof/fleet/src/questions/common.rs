//! What questions have in common.

use std::thread;
use std::time::{Duration, Instant};

use crate::question::{Report, Row};
use crate::talk::PROTOCOLS;

/// How often something is looked at that tells nobody when it is so.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits until something is so, no longer than `longest`.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are looked at, which wake nobody here"
)]
pub(super) fn until(
    what: &str,
    longest: Duration,
    mut so: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let begun = Instant::now();
    while !so()? {
        if begun.elapsed() > longest {
            return Err(format!("not within {longest:?}: {what}"));
        }
        thread::sleep(GLANCE);
    }
    Ok(())
}

/// A row of this case for each protocol.
pub(super) fn in_each_protocol(case: &'static str) -> Vec<Row> {
    let row = |protocol: &'static str| Row { protocol, case };
    PROTOCOLS
        .iter()
        .map(|protocol| row(protocol.name))
        .collect()
}

/// One cell's work.
pub(super) type Work<'a> = Box<dyn FnOnce() -> Result<(), String> + Send + 'a>;

/// Does the work of many cells, so many at once.
pub(super) fn at_once(
    report: &Report<'_>,
    most: usize,
    work: Vec<(&'static str, &'static str, Work<'_>)>,
) {
    let mut work = work.into_iter();
    let work = std::sync::Mutex::new(&mut work);
    thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                loop {
                    let next = work.lock().map(|mut work| work.next());
                    let Ok(Some((protocol, case, does))) = next else {
                        break;
                    };
                    report.note(protocol, case, does());
                }
            });
        }
    });
}

/// An error that says what was expected.
pub(super) fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(what()),
    }
}
