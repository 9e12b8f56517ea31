//! `CL.THROTTLE` and `THROTTLE` as their servers answer them.
//!
//! The rows are redis-cell's own, taken with its clock frozen; where ours
//! answers otherwise a row says why. `+n` moves the clock by microseconds.

mod support;

use std::time::Duration;
use support::TestServer;

/// What is asked, what is answered.
const CELL: &str = "
    a 15 30 60          [0,16,15,-1,2]
    a 15 30 60          [0,16,14,-1,4]
    # Neither asks for what there is not: nothing is taken.
    a 15 30 60 15       [1,16,14,2,4]
    a 15 30 60 0        [0,16,14,-1,4]
    fresh 15 30 60 0    [0,16,16,-1,0]

    z 0 1 2             [0,1,0,-1,2]
    z 0 1 2             [1,1,0,2,2]
    +1999999
    # A microsecond too early. redis-cell rounds less than a millisecond down,
    # and says to retry after 0 seconds what it would refuse again.
    z 0 1 2             [1,1,0,1,1]
    +1
    z 0 1 2             [0,1,0,-1,2]

    ql 4 10 60 5        [0,5,0,-1,30]
    ql 4 10 60          [1,5,0,6,30]
    +5999999
    ql 4 10 60          [1,5,0,1,25]
    +1
    ql 4 10 60          [0,5,0,-1,30]

    # More than there ever is.
    qg 4 10 60 6        [1,5,5,-1,0]
    qg 4 10 60 5        [0,5,0,-1,30]

    # Less than a second is a second.
    t 0 10 1            [0,1,0,-1,1]
    t 0 10 1            [1,1,0,1,1]

    # Two units each microsecond: redis-cell divides by zero, and answers the
    # largest number there is; and refuses more than one each nanosecond.
    f 10 2000000 1      [0,11,10,-1,1]
    g 1 2000000000 1    [0,2,1,-1,1]

    # Periods of which the count is no part: exact, to the microsecond.
    s 2 7 60            [0,3,2,-1,9]
    s 2 7 60            [0,3,1,-1,18]
    s 2 7 60            [0,3,0,-1,26]
    s 2 7 60            [1,3,0,9,26]
    +8571428
    s 2 7 60            [1,3,0,1,18]
    +1
    s 2 7 60            [0,3,0,-1,26]
";

/// What redis-cell gets wrong, and this refuses.
const BROKEN: &str = "
    # A refund that leaves a key behind for ever.
    k 15 30 60 -1                       -ERR quantity is not a number from 0 to 9007199254740991: '-1'
    # A limit of nothing, one unit of which is free.
    k -1 30 60                          -ERR max_burst is not a number from 0 to 9007199254740990: '-1'
    k 15 0 60                           -ERR count is not a number from 1 to 9007199254740991: '0'
    k 15 30 0                           -ERR period is not a number from 1 to 34560000: '0'
    k 15 30 -60                         -ERR period is not a number from 1 to 34560000: '-60'
    # These overflow there.
    k 9223372036854775807 30 60         -ERR max_burst is not a number from 0 to 9007199254740990: '9223372036854775807'
    k 15 30 60 9223372036854775807      -ERR quantity is not a number from 0 to 9007199254740991: '9223372036854775807'
    k 15 30 99999999999999999999        -ERR period is not a number from 1 to 34560000: '99999999999999999999'
    k 1.5 30 60                         -ERR max_burst is not a number from 0 to 9007199254740990: '1.5'
    k 15 30                             -ERR wrong number of arguments for 'CL.THROTTLE' command; it is CL.THROTTLE key max_burst count period [quantity]
";

/// throttlecrab: 1 is allowed, all of the burst is the limit, and the last two
/// fields are the other way round.
const CRAB: &str = "
    a 16 30 60          [1,16,15,2,0]
    a 16 30 60          [1,16,14,4,0]
    a 16 30 60 15       [0,16,14,4,2]
    a 16 30 60 0        [1,16,14,4,0]
    a 16 30 60 17       [0,16,14,4,-1]
    one 1 1 2           [1,1,0,2,0]
    one 1 1 2           [0,1,0,2,2]
    zero 0 1 2          -ERR max_burst is not a number from 1 to 9007199254740991: '0'
    k 15 30 60 -1       -ERR quantity is not a number from 0 to 9007199254740991: '-1'
";

fn play(command: &str, table: &str) {
    let server = TestServer::start();
    let mut client = server.client();
    let rows = table.lines().map(str::trim);
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        if let Some(micros) = row.strip_prefix('+') {
            server
                .time
                .advance(Duration::from_micros(micros.parse().unwrap()));
            continue;
        }
        let (call, reply) = row.split_once("  ").unwrap();
        assert_eq!(
            client.request(&format!("{command} {call}")),
            reply.trim(),
            "{row}"
        );
    }
}

#[test]
fn cl_throttle_is_answered_as_by_redis_cell() {
    play("CL.THROTTLE", CELL);
}

#[test]
fn what_redis_cell_gets_wrong_is_a_clean_error() {
    play("cl.throttle", BROKEN);
}

#[test]
fn throttle_is_answered_as_by_throttlecrab() {
    play("throttle", CRAB);
}

#[test]
fn both_ask_the_same_limit() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.request("CL.THROTTLE k 4 10 60 3"), "[0,5,2,-1,18]");
    assert_eq!(client.request("THROTTLE k 5 10 60 2"), "[1,5,0,30,0]");
    assert_eq!(client.request("CL.THROTTLE k 4 10 60"), "[1,5,0,6,30]");
    // Another rate is another limit.
    assert_eq!(client.request("CL.THROTTLE k 5 10 60"), "[0,6,5,-1,6]");
}
