//! Processes that come, hold, and are killed: no more hold than there are slots,
//! and no slot is lost.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::process::{Child, Stdio};
use std::time::Duration;

use tidegate::Select;
use tidegate::lock::LeasedSemaphore;
use tidegate::{LONGEST_PAGE, PageOf};

use crate::holders::acquire;
use crate::servers::{on_each, process, semaphore};

const SLOTS: u64 = 3;
const PROCESSES: u32 = 5;
const GRANTS: usize = 150;

/// Longer than any process stands still for want of a processor; short enough to
/// see the slots of the killed ones come back.
const TTL: Duration = Duration::from_secs(15);

fn start(url: &str, number: u32, out: &PipeWriter) -> Child {
    let mut process = process("reacquire", url, SLOTS, TTL);
    process.args(["--number", &number.to_string()]);
    process.stdin(Stdio::piped());
    process.stdout(out.try_clone().expect("a pipe"));
    process.spawn().expect("a process")
}

/// Who holds, as far as all have said.
#[derive(Default)]
struct Seen {
    holders: Vec<u32>,
    grants: usize,
    most: usize,
    fences: HashSet<u64>,
}

impl Seen {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let number: u32 = words[0].parse().expect("a number");
        match words[1] {
            "+" => {
                let fence: u64 = words[2].parse().expect("a fence");
                assert!(self.fences.insert(fence), "two have one fence");
                self.holders.push(number);
                self.grants += 1;
                self.most = self.most.max(self.holders.len());
            }
            // Given back, or its process is gone.
            _ => self.holders.retain(|holder| *holder != number),
        }
        assert!(self.holders.len() <= SLOTS as usize, "{:?}", self.holders);
    }

    fn a_holder_among(&self, processes: &[(u32, Child)]) -> Option<usize> {
        let holds = |(number, _): &(u32, Child)| self.holders.contains(number);
        processes.iter().position(holds)
    }
}

#[test]
fn no_slot_is_taken_twice_and_none_is_lost_while_processes_come_and_go() {
    on_each(|server| {
        let url = server.url();
        let gpus = semaphore(&url, SLOTS, TTL);
        let (reader, mut out) = pipe().expect("a pipe");
        let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
        let mut processes: Vec<_> = (0..PROCESSES).map(|n| (n, start(&url, n, &out))).collect();
        let (mut seen, mut next) = (Seen::default(), PROCESSES);
        while seen.grants < GRANTS {
            seen.hear(&lines.next().expect("a line"));
            assert!(gpus.available().wait().expect("an answer") <= SLOTS);
            if seen.grants >= GRANTS / 3 * (1 + (next - PROCESSES) as usize)
                && let Some(at) = seen.a_holder_among(&processes)
            {
                // In the middle of its hold, or of whatever it does by now.
                let (number, mut killed) = processes.swap_remove(at);
                killed.kill().expect("it was there");
                killed.wait().expect("it ends");
                let gone = format!("{number} -\n");
                out.write_all(gone.as_bytes()).expect("a pipe");
                processes.push((next, start(&url, next, &out)));
                next += 1;
            }
        }
        drop(out);
        // They end when their input does.
        let stop = |(_, process): &mut (u32, Child)| drop(process.stdin.take());
        processes.iter_mut().for_each(stop);
        lines.for_each(|line| seen.hear(&line));
        for (_, process) in &mut processes {
            process.wait().expect("it ends");
        }
        let (held, free) = settled(&gpus);
        assert_eq!(held + free, SLOTS);
        let (grants, most) = (seen.grants, seen.most);
        println!("{url}: {grants} grants, at most {most} at once, {held} left by the killed");
        // Those of the killed come back, too.
        drop(acquire(&gpus.many(SLOTS)));
    });
}

/// How many are held by the leases that the server lists, and how many are free;
/// both at one time: none expires between.
fn settled(gpus: &LeasedSemaphore) -> (u64, u64) {
    let held = || listed(gpus);
    loop {
        let (before, free) = (held(), gpus.available().wait().expect("an answer"));
        if before == held() {
            return (before, free);
        }
    }
}

fn listed(gpus: &LeasedSemaphore) -> u64 {
    let (mut count, mut after) = (0, None::<Vec<u8>>);
    loop {
        let page = gpus.set().list_leases(PageOf {
            select: Select::All,
            after: after.as_deref(),
            most: LONGEST_PAGE,
        });
        let page = page.wait().expect("a list");
        count += page.items.len() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => return count,
        }
    }
}
