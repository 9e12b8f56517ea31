//! Eight processes take turns at one slot.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, pipe};
use std::process::{Child, Stdio};
use std::sync::Arc;

use super::{LONG, Lines, Move, acquire, client, one_slot, process, run, until};

const PROCESSES: usize = 8;

/// How often the slot changes hands.
const GRANTS: usize = 1_000;

/// A turn, as its process says it: the instants are microseconds of one clock.
struct Turn {
    fence: i64,
    process: usize,
    granted: i64,
    released: i64,
}

impl Turn {
    fn read(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|word| word.parse().expect("a number"));
        let [process, fence, granted, released] =
            std::array::from_fn(|_| numbers.next().expect("four numbers"));
        Self {
            fence,
            process: process as usize,
            granted,
            released,
        }
    }
}

/// The order of grants is that of arrivals as the server has seen them, nobody has
/// the slot before the one before begins to give it back, and each process has at
/// least four fifths of its share.
pub(super) fn processes_that_wait_for_one_slot_are_served_in_order_of_arrival<L: Lines>() {
    run(|server: Arc<L>| async move {
        let own = client(&*server, &one_slot());
        let held = acquire(&own, LONG).await.expect("it is free");
        let end = server.watch();
        let (says, out) = pipe().expect("a pipe");
        let takers = (0..PROCESSES).map(|number| start(&*server, number, &out));
        let takers: Vec<_> = takers.collect();
        drop(out);
        until(|| server.standing() == PROCESSES).await;
        drop(held);
        let mut turns = watch(says, takers);
        check_order(end());
        turns.sort_unstable_by_key(|turn| turn.fence);
        turns.truncate(GRANTS);
        check_shares(&turns);
        check_holds(&turns);
    });
}

fn start(server: &impl Lines, number: usize, out: &PipeWriter) -> Child {
    let mut taker = process("take-turns", server);
    taker.args(["--number", &number.to_string()]);
    taker.stdin(Stdio::piped());
    taker.stdout(out.try_clone().expect("a pipe"));
    taker.spawn().expect("a process")
}

/// What they say until they have had enough turns, and while they end: each has a
/// last one when its input has ended.
fn watch(says: PipeReader, mut takers: Vec<Child>) -> Vec<Turn> {
    let lines = BufReader::new(says).lines();
    let mut lines = lines.map(|line| Turn::read(&line.expect("a line")));
    let mut turns: Vec<_> = lines.by_ref().take(GRANTS).collect();
    takers.iter_mut().for_each(|taker| drop(taker.stdin.take()));
    turns.extend(lines);
    for taker in &mut takers {
        assert!(taker.wait().expect("it ends").success());
    }
    turns
}

fn check_order(moves: Vec<Move>) {
    let (mut came, mut went) = (Vec::new(), Vec::new());
    for step in moves {
        match step {
            Move::Came(who) => came.push(who),
            Move::Went(who) => went.push(who),
        }
    }
    // On a busy machine some find the slot free, and need not wait.
    assert!(came.len() * 2 >= GRANTS, "{} came", came.len());
    assert_eq!(came, went, "order of grant, order of arrival");
}

fn check_shares(turns: &[Turn]) {
    for number in 0..PROCESSES {
        let share = turns.iter().filter(|turn| turn.process == number).count();
        let fair = share * PROCESSES * 10 >= GRANTS * 8;
        assert!(fair, "process {number} has {share}");
    }
}

/// By one clock, in the order of their fences; and how long the slot was nobody's.
fn check_holds(turns: &[Turn]) {
    let gap = |pair: &[Turn]| pair[1].granted - pair[0].released;
    let mut waits: Vec<_> = turns.windows(2).map(gap).collect();
    assert!(waits.iter().all(|&wait| wait >= 0), "two have the slot");
    // With its first a process's connection is new, and the server reads what it is
    // asked to execute.
    waits.drain(..PROCESSES);
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    println!(
        "from release to grant, {GRANTS} grants without the first {PROCESSES}: p50 {} us, p99 {} us",
        at(50),
        at(99)
    );
}
