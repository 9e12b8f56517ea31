//! A lock of a fleet: one holder at a time, renewed while it is held, given back when its
//! holder dies, with a fence for what it guards.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin distributed_lock                       # in this process
//! cargo run -p tidegate-examples --bin distributed_lock redis://127.0.0.1     # in a fleet
//! ```

use std::error::Error;
use std::time::Duration;

use tidegate::lock::LeasedMutex;

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = LeasedMutex::builder("accounts").ttl(Duration::from_secs(10));
    if let Some(url) = std::env::args().nth(1) {
        builder = builder.store(tidegate_url::open(&url)?.store);
    }
    let accounts = builder.build()?;

    let alice = accounts.of("alice");
    let Some(permit) = alice.lock_within(Duration::from_secs(5)).wait()? else {
        println!("another process has held it for 5 s");
        return Ok(());
    };
    println!("held, fence {}", permit.fence());
    assert!(alice.try_lock().wait()?.is_none(), "one holder at a time");

    // ... write, and say the fence: what stores it refuses a smaller one. Look whether the
    // lock is still surely held before a step that cannot be undone:
    if permit.is_held() {
        println!("surely held for {:?} more", Duration::from_secs(10));
    }
    permit.release().wait()?;
    println!("given back");
    Ok(())
}
