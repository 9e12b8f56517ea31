//! The waiting of several processes in one line that a store keeps: one suite for
//! every store that does. A client is a process, or has a store of its own, with
//! connections of its own, as a process has.
//!
//! | room | shows |
//! |---|---|
//! | `turns` | eight processes are served in order of arrival, and each has its share |
//! | `order` | who comes first, is served first |
//! | `ends` | who gives up, dies, or is cut off |
//! | `changes` | limits that change while somebody waits |
//! | `pools` | requests that wait at several sets at once |
//! | `redis`, `postgres`, `mariadb` | what is asked of each server about its line |

mod changes;
mod ends;
mod mariadb;
mod order;
mod pools;
mod postgres;
mod redis;
mod turns;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tidegate::{Lease, Limit, LimitSet, Request};

/// Makes a test of each sentence for each server.
macro_rules! suite {
    ($($server:ident: $type:ty),*; $($room:ident::$name:ident)*) => {
        suite! { @each [$($server: $type),*] [$($room::$name)*] }
    };
    (@each [$($server:ident: $type:ty),*] $names:tt) => {
        $(suite! { @one $server: $type, $names })*
    };
    (@one $server:ident: $type:ty, [$($room:ident::$name:ident)*]) => {
        mod $server {
            $(
                #[test]
                fn $name() {
                    crate::$room::$name::<$type>();
                }
            )*
        }
    };
}

suite! {
    on_redis: crate::redis::Server, on_postgres: crate::postgres::Server,
    on_mariadb: crate::mariadb::Server;
    turns::processes_that_wait_for_one_slot_are_served_in_order_of_arrival
    order::who_is_next_is_served_when_the_lease_before_its_turn_expires
    order::who_waits_behind_an_answer_that_is_given_again_is_woken
    order::nobody_overtakes_who_waits
    order::nobody_takes_before_who_waits
    order::who_waits_below_a_root_keeps_back_whoever_needs_the_same
    order::who_waits_for_a_rate_is_served_at_its_instant_and_in_order
    order::many_that_wait_for_one_key_are_served
    ends::who_gives_up_leaves_the_line_at_once
    ends::a_lease_whose_waiter_is_gone_is_given_back
    ends::who_waits_is_told_when_its_process_closes
    ends::a_waiter_that_dies_loses_its_place_and_stops_nobody
    ends::who_waits_is_cut_off_and_waits_on
    ends::a_request_that_its_rates_cannot_admit_in_time_is_refused_at_once
    changes::who_waits_keeps_its_place_when_the_limits_change
    changes::a_request_that_waits_goes_by_the_newest_capacity
    changes::a_request_that_fits_no_newer_limit_leaves_the_line
    changes::what_a_request_was_granted_comes_back_though_the_limits_have_changed
    changes::a_request_that_waits_for_longer_than_its_calendars_say_asks_again
    pools::members_at_which_another_was_quicker_are_no_failures_of_the_store
}

/// The set that all clients have, and the key that is waited for: those of the
/// processes, too.
const SET: &str = "gpus";
const KEY: &str = "k";

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);

/// How long a test's store waits for an answer: a busy machine keeps it.
const DEADLINE: &str = "30s";

/// Somebody came into the line, or went; by what its place is known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Move {
    /// It has a place.
    Came(String),
    /// It has none any more.
    Went(String),
}

/// A server with lines, for one test.
trait Lines: Send + Sync + Sized + 'static {
    /// For how long the page of its store says that a place is kept, at most, whose
    /// process has died.
    const GIVEN_UP: Duration;

    /// A server, if this machine has one; else says that the test is skipped.
    fn start() -> Option<Self>;

    /// Its address as a store's URL.
    fn url(&self) -> String;

    /// How many stand in line for [`KEY`] of [`SET`].
    fn standing(&self) -> usize;

    /// Notes from now on who comes and goes, in order, until this is called.
    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>>;

    /// Cuts all connections of the stores.
    fn cut(&self);
}

/// What a client opens.
fn patient(server: &impl Lines) -> String {
    format!("{}?deadline={DEADLINE}", server.url())
}

/// A client of the server's, with connections of its own.
fn client(server: &impl Lines, limits: &[Limit]) -> LimitSet {
    let builder = LimitSet::builder().name(SET).store(opened(server));
    let set = builder.limits(limits.iter().cloned()).build();
    set.expect("a sound set")
}

fn opened(server: &impl Lines) -> Arc<dyn Store> {
    let opened = tidegate_url::open(&patient(server));
    opened.expect("a server").store
}

/// A client that is a process, and does what `verb` says with the one slot.
fn process(verb: &str, server: &impl Lines) -> Command {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate-contention"));
    process.args([verb, "--store", &patient(server)]);
    process
}

fn one_slot() -> [Limit; 1] {
    [Limit::concurrency("gpu", 1).ttl(2 * LONG)]
}

async fn acquire(set: &LimitSet, longest: Duration) -> Option<Lease> {
    let ask = Request::default().cost(1).within(longest);
    let admission = set.acquire(KEY, ask).await;
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
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(test(Arc::new(server)));
}
