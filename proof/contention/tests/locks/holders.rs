//! What becomes of a permit when its holder is killed, stands still or goes on.

use std::time::Duration;

use tidegate::LeaseId;
use tidegate::lock::{LeasedPermit, LeasedSemaphore};
use tidegate::{Clock, LeaseError, Timestamp};
use tidegate_conformance::Register;
use tidegate_conformance::postgres_server::PostgresServer;

use crate::holder::Holder;
use crate::servers::{on_each, process, semaphore};

/// Long enough for any machine.
pub const LONG: Duration = Duration::from_secs(120);

pub fn acquire(gpus: &LeasedSemaphore) -> LeasedPermit {
    let permit = gpus.acquire_within(LONG).wait().expect("an answer");
    permit.expect("it is free by then")
}

pub fn is_full(gpus: &LeasedSemaphore) -> bool {
    gpus.try_acquire().wait().expect("an answer").is_none()
}

/// Kleppmann's hole, closed: between its look at the clock and its write a holder
/// may stand still for any time, and only the fence tells that it did.
#[test]
fn a_paused_holders_late_write_is_refused_by_a_store_that_checks_the_fence() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let register = Register::new(&server);
    let ttl = Duration::from_secs(2);
    let mut holder = Holder::start(&server.url(), ttl);
    let first: u64 = holder.ask("acquire").parse().expect("a fence");
    assert_eq!(holder.ask("write before"), "true");
    // It was sure when it looked.
    let paused = holder.pause();
    let second = acquire(&semaphore(&server.url(), 1, Duration::from_secs(60)));
    assert!(second.fence() > first);
    assert!(register.write(second.fence(), "second"));
    holder.tell("write late");
    drop(paused);
    assert_eq!(holder.hears(), "false", "its write is refused");
    assert_eq!(register.value(), "second");
    assert_eq!(holder.ask("sure"), "false");
    let loss = holder.ask("lost");
    assert!(loss.starts_with("Some("), "{loss}");
    let told = holder.ask("release");
    assert!(told.starts_with("Some(Err("), "{told}");
    assert!(
        second.confirm().wait().expect("an answer"),
        "the slot is the second's"
    );
    holder.kill();
}

/// How long after its instant a slot may be granted, by the server's clock: who waits
/// asks at that instant, or else two seconds later at the latest (PostgreSQL's net), and
/// asking takes a loaded machine a while.
pub const LATE: Duration = Duration::from_secs(2 + 4);

/// By the server's clock, so that it is nobody's fault how long an answer is under way:
/// a refusal names the instant, and a fence is the microsecond of its grant.
/// Elsewhere what a crashed worker had reserved was lost (LiteLLM #27639), or never expired (TensorZero).
#[test]
fn the_slot_of_a_holder_that_is_killed_is_back_within_its_ttl() {
    on_each(|server| {
        let (url, ttl) = (server.url(), Duration::from_secs(2));
        let mut holder = Holder::start(&url, ttl);
        let first: u64 = holder.ask("acquire").parse().expect("a fence");
        let gpus = semaphore(&url, 1, ttl);
        let clock = Clock::system();
        holder.kill();
        let killed = clock.now();
        let told = gpus.set().peek("all", 1).wait().expect("an answer");
        // A machine that stands still for a ttl finds it free.
        let free_at = told.not_until().unwrap_or(killed);
        let next = acquire(&gpus);
        assert!(next.fence() > first);
        let granted_at = Timestamp::from_micros(next.fence() as i64);
        let after = |at: Timestamp| at.since(killed).as_duration();
        let (free, granted) = (after(free_at), after(granted_at));
        println!("{url}: to be free {free:?} after the kill, granted {granted:?}; ttl {ttl:?}");
        assert!(free <= ttl, "{free:?}");
        assert!(granted <= ttl + LATE, "{granted:?}");
    });
}

/// Nobody waits for the answer to a release by a permit that is dropped; the process
/// does, when it lets go of the store.
#[test]
fn what_a_process_lets_go_of_as_it_ends_is_given_back_at_once() {
    const SLOTS: u64 = 5;
    on_each(|server| {
        let url = server.url();
        let gpus = semaphore(&url, SLOTS, LONG);
        for _ in 0..10 {
            let mut process = process("leave", &url, SLOTS, LONG);
            assert!(process.status().expect("a process").success());
            assert_eq!(gpus.available().wait().expect("an answer"), SLOTS, "{url}");
            let permit = gpus.try_acquire().wait().expect("an answer");
            let released = permit.expect("nobody is first").release();
            released.wait().expect("held to the end");
        }
    });
}

/// For several ttls, while another tries; on a thread of the semaphore's.
#[test]
fn a_permit_is_held_for_as_long_as_it_is_renewed() {
    on_each(|server| {
        let (url, ttl) = (server.url(), Duration::from_secs(6));
        let (gpus, others) = (semaphore(&url, 1, ttl), semaphore(&url, 1, ttl));
        let permit = acquire(&gpus);
        let lost = permit.lost().wait_within(ttl * 2 + ttl / 4);
        assert_eq!(lost, None, "nobody has ended it");
        assert!(is_full(&others));
        permit.release().wait().expect("held to the end");
        drop(acquire(&others));
    });
}

#[test]
fn nobody_gives_back_by_another_id() {
    on_each(|server| {
        let url = server.url();
        let gpus = semaphore(&url, 1, LONG);
        let others = semaphore(&url, 1, LONG);
        let permit = acquire(&gpus);
        let wrong: LeaseId = "0123456789abcdef0123456789abcdef".parse().expect("an id");
        let unknown = Err(LeaseError::Unknown);
        assert_eq!(others.release(wrong).wait(), unknown);
        assert!(is_full(&others));
        let id = permit.id();
        others.release(id).wait().expect("whoever knows the id may");
        let next = acquire(&others);
        assert_eq!(permit.confirm().wait(), Ok(false));
        assert!(permit.release().wait().is_err(), "it says that it was lost");
        assert_eq!(
            next.confirm().wait(),
            Ok(true),
            "and takes nothing from the next"
        );
    });
}
