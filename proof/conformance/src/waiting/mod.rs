//! The waiting of several processes in one line that a store keeps: one suite for
//! every store that does. Each client has a store of its own, with connections of
//! its own, as a process has.
//!
//! | room | holds |
//! |---|---|
//! | [`Lines`] | what a store's test says of its server |
//! | `order` | who comes first, is served first |
//! | `ends` | who gives up, dies, or is cut off |
//! | `changes` | limits that change while somebody waits |
//!
//! [`waiting_suite`](crate::waiting_suite) makes a test of each.

mod changes;
mod ends;
mod order;

use std::sync::Arc;
use std::time::Duration;

use tidegate::contract::Store;
use tidegate::{Ask, Lease, Limit, LimitSet};

pub use changes::who_waits_keeps_its_place_when_the_limits_change;
pub use ends::{
    a_lease_whose_waiter_is_gone_is_given_back,
    a_waiter_that_dies_loses_its_place_and_stops_nobody, wait_as_a_process,
    who_gives_up_leaves_the_line_at_once, who_waits_is_cut_off_and_waits_on,
    who_waits_is_told_when_its_process_closes,
};
pub use order::{
    nobody_overtakes_who_waits, nobody_takes_before_who_waits,
    processes_that_wait_for_one_slot_are_served_in_order_of_arrival,
    who_is_next_is_served_when_the_lease_before_its_turn_expires,
    who_waits_behind_an_answer_that_is_given_again_is_woken,
    who_waits_below_a_root_keeps_back_whoever_needs_the_same,
    who_waits_for_a_rate_is_served_at_its_instant_and_in_order,
};

/// The set that all clients have. Those who wait do so for [`KEY`].
pub const SET: &str = "gpus";

/// The key that is waited for.
pub const KEY: &str = "k";

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);

/// Somebody came into the line, or went; by what its place is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Move {
    /// It has a place.
    Came(String),
    /// It has none any more.
    Went(String),
}

/// A server with lines, for one test.
pub trait Lines: Send + Sync + Sized + 'static {
    /// A server, if this machine has one; else says that the test is skipped.
    fn start() -> Option<Self>;

    /// Where it is.
    fn address(&self) -> String;

    /// A store on the server at `address`, with connections of its own and a
    /// deadline that a busy machine keeps.
    fn open(address: &str) -> Arc<dyn Store>;

    /// How many stand in line for [`KEY`] of [`SET`].
    fn standing(&self) -> usize;

    /// Notes from now on who comes and goes, in order, until this is called.
    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>>;

    /// Cuts all connections of the stores.
    fn cut(&self);
}

/// A client of the server's.
fn client<L: Lines>(server: &L, limits: &[Limit]) -> LimitSet {
    client_at::<L>(&server.address(), limits)
}

fn client_at<L: Lines>(address: &str, limits: &[Limit]) -> LimitSet {
    let builder = LimitSet::builder().name(SET).store(L::open(address));
    let set = builder.limits(limits.iter().cloned()).build();
    set.expect("a sound set")
}

fn one_slot() -> [Limit; 1] {
    [Limit::concurrency("gpu", 1).ttl(2 * LONG)]
}

async fn acquire(set: &LimitSet, longest: Duration) -> Option<Lease> {
    let ask = Ask::default().cost(1).within(longest);
    let admission = set.acquire_async(KEY, ask).await;
    admission.expect("an answer").granted()
}

/// The server is asked again and again: it says by itself when somebody stands.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs a test that waits, if there is a server.
fn run<L: Lines, T: Future<Output = ()>>(test: impl FnOnce(Arc<L>) -> T) {
    let Some(server) = L::start() else { return };
    runtime().block_on(test(Arc::new(server)));
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// Makes a test of each, for a type that is [`Lines`]. It makes `a_process_that_waits`
/// as well, which the tests run as a process of its own.
#[macro_export]
macro_rules! waiting_suite {
    ($lines:ty) => {
        $crate::waiting_suite! {
            $lines;
            processes_that_wait_for_one_slot_are_served_in_order_of_arrival
            who_is_next_is_served_when_the_lease_before_its_turn_expires
            who_waits_behind_an_answer_that_is_given_again_is_woken
            nobody_overtakes_who_waits
            nobody_takes_before_who_waits
            who_waits_below_a_root_keeps_back_whoever_needs_the_same
            who_waits_for_a_rate_is_served_at_its_instant_and_in_order
            who_gives_up_leaves_the_line_at_once
            a_lease_whose_waiter_is_gone_is_given_back
            who_waits_is_told_when_its_process_closes
            a_waiter_that_dies_loses_its_place_and_stops_nobody
            who_waits_is_cut_off_and_waits_on
            who_waits_keeps_its_place_when_the_limits_change
        }
        #[test]
        #[ignore = "it waits until it is killed"]
        fn a_process_that_waits() {
            $crate::waiting::wait_as_a_process::<$lines>();
        }
    };
    ($lines:ty; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::waiting::$name::<$lines>();
            }
        )*
    };
}
