//! Three limits taken together, a lease, and what was really used.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin quickstart
//! ```

use std::time::Duration;

use tidegate::{Admission, Error, Limit, LimitSet, Request};

fn main() -> Result<(), Error> {
    let minute = Duration::from_secs(60);
    let set = LimitSet::new([
        Limit::calls("rpm", 300, minute),
        Limit::rate("tpm", 10_000, minute),
        Limit::concurrency("running", 2),
    ])?;

    // All three or none: one call, 4,000 tokens, one slot. On a thread `.wait()`, in a
    // task `.await`.
    let mut leases = Vec::new();
    for request in 1..=3 {
        match set.try_acquire("acme/alice", 4_000).wait()? {
            Admission::Granted(lease) => {
                println!("request {request}: granted until {}", lease.expires_at());
                leases.push(lease);
            }
            Admission::Refused(decision) => {
                let limit = decision.binding().unwrap_or("another request");
                println!("request {request}: refused by {limit}");
            }
        }
    }

    // The first used fewer tokens than it had reserved: the rest comes back, and its slot.
    leases[0].settle(1_200).wait()?;
    let now = set.peek("acme/alice", 1).wait()?;
    for standing in now.standings() {
        println!("{:>8}: {:>6} left", standing.0, standing.1.remaining);
    }

    // Who may wait is served in order, as soon as it fits.
    let patient = Request::from(3_000).within(Duration::from_secs(2));
    let admission = set.acquire("acme/alice", patient).wait()?;
    println!(
        "a request that may wait: granted = {}",
        admission.granted().is_some()
    );
    Ok(())
}
