//! Threads that do jobs within the limits of two accounts, whichever has room; an account
//! whose provider refuses is left alone for a while.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin worker_pool
//! ```

use std::time::Duration;

use tidegate::workers::{Retry, Workers};
use tidegate::{Error, Limit, LimitPool, LimitSet};

fn main() -> Result<(), Error> {
    let second = Duration::from_secs(1);
    let account = |calls| {
        LimitSet::new([
            Limit::calls("rps", calls, second),
            Limit::concurrency("running", 2),
        ])
    };
    let pool = LimitPool::builder()
        .weighted("eu", account(40)?, 2)
        .weighted("us", account(20)?, 1)
        .build()?;

    let workers = Workers::threads(4)
        .limits(pool.clone())
        .retry(Retry::times(2));
    let results = workers.run(1..=60, |worker, job| {
        // Waits for whichever account has room first. It is given back when the job ends.
        let admission = worker
            .limits
            .acquire("batch", ())
            .wait()
            .map_err(|e| e.to_string())?;
        let held = admission.granted().ok_or("refused")?;
        // ... the call to the provider. The first of a job in the US says 429:
        if held.member() == Some("us") && *job == 10 && worker.attempt() == 0 {
            held.cool_down(Duration::from_millis(200));
            return Err("429".to_owned());
        }
        Ok(held.member().unwrap_or("?").to_owned())
    })?;

    for name in ["eu", "us"] {
        let done = results
            .iter()
            .filter(|result| matches!(result, Ok(at) if at == name))
            .count();
        println!("{name}: {done} jobs");
    }
    let failed = results.iter().filter(|result| result.is_err()).count();
    println!("failed: {failed}");
    Ok(())
}
