//! Eight processes at one hot key of a store: the rate never grants more than it
//! has, no more slots are held at once than there are, and fences grow.
//! `TIDEGATE_CROWD_SECONDS=60` for longer than two seconds.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate::{Limit, LimitSet};
use tidegate_conformance::Beyond;

const PROCESSES: usize = 8;
const RATE: u64 = 200;
const BURST: u64 = 50;
const SLOTS: u64 = 3;

/// What a process says of a slot: when it asked for it, and that it held it from one
/// instant to another.
struct Held {
    fence: u64,
    asked: i64,
    from: i64,
    until: i64,
}

/// What all processes say.
#[derive(Default)]
struct Ledger {
    /// Units of the rate: when one was asked for, and when it was granted.
    units: Vec<(i64, i64)>,
    held: Vec<Held>,
}

impl Ledger {
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split(' ');
            let kind = words.next();
            let numbers: Vec<i64> = words.map(|word| word.parse().expect("a number")).collect();
            match (kind, &numbers[..]) {
                (Some("rate"), &[asked, granted]) => self.units.push((asked, granted)),
                (Some("slot"), &[fence, asked, from, until]) => self.held.push(Held {
                    fence: fence as u64,
                    asked,
                    from,
                    until,
                }),
                _ => panic!("unknown: {line}"),
            }
        }
    }

    /// In whatever time: at most the burst and what came back meanwhile. Of what was
    /// asked for from one instant on, and granted by another, all was granted between.
    fn keeps_to_the_rate(&mut self) {
        self.units.sort_unstable();
        for (number, &(from, _)) in self.units.iter().enumerate() {
            let mut by: Vec<_> = self.units[number..].iter().map(|unit| unit.1).collect();
            by.sort_unstable();
            for (granted, until) in (1_u64..).zip(by) {
                let most = BURST + RATE * (until - from) as u64 / 1_000_000 + 1;
                assert!(granted <= most, "{granted} granted, of {most}");
            }
        }
        let granted = self.units.len() as u64;
        println!("{granted} units granted");
        assert!(granted > BURST, "it goes on");
    }

    fn holds_no_more_slots_than_there_are(&self) {
        let ends = self.held.iter().flat_map(|held| {
            // Who ends when another begins is gone by then.
            [(held.from, 1), (held.until, -1)]
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        let mut at_once = 0;
        for (_, change) in ends {
            at_once += change;
            assert!(at_once <= SLOTS as i64, "{at_once} slots at once");
        }
    }

    fn fences_grow(&mut self) {
        let mut fences: Vec<_> = self.held.iter().map(|held| held.fence).collect();
        fences.sort_unstable();
        let grants = fences.len();
        fences.dedup();
        assert_eq!(fences.len(), grants, "a fence was given twice");
        // Who asked after another was answered was granted after it.
        self.held.sort_unstable_by_key(|held| held.asked);
        let mut answered: Vec<_> = self.held.iter().map(|h| (h.from, h.fence)).collect();
        answered.sort_unstable();
        let (mut greatest, mut answered) = (0, answered.into_iter().peekable());
        for held in &self.held {
            while let Some((_, fence)) = answered.next_if(|(from, _)| *from < held.asked) {
                greatest = greatest.max(fence);
            }
            assert!(held.fence > greatest, "a later grant has a smaller fence");
        }
        println!("{grants} slots granted");
    }
}

/// Whatever else the machine does.
fn patient(store: &Beyond) -> String {
    format!("{}?deadline=60s", store.url)
}

fn process(store: &Beyond, seconds: &str) -> Child {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate-crowd"));
    process.args(["contend", "--store", &patient(store)]);
    process.args(["--seconds", seconds]);
    for (name, number) in [("--rate", RATE), ("--burst", BURST), ("--slots", SLOTS)] {
        process.args([name, &number.to_string()]);
    }
    process.stdout(Stdio::piped()).spawn().expect("it starts")
}

/// Between the grants: no sample sees more than there is. One now and then.
#[expect(clippy::disallowed_methods, reason = "nothing waits for it")]
fn sample(slots: &LimitSet) {
    let peeked = slots.peek("hot", 1).expect("a peek");
    let standing = peeked.standing("slots").expect("a standing");
    assert!(standing.remaining <= SLOTS);
    std::thread::sleep(Duration::from_millis(10));
}

fn is_exact(store: &Beyond) {
    let seconds = std::env::var("TIDEGATE_CROWD_SECONDS");
    let seconds = seconds.unwrap_or_else(|_| "2".to_owned());
    let own = tidegate_url::open(&patient(store))
        .expect("the store")
        .store;
    let limit = Limit::concurrency("slots", SLOTS);
    let slots = LimitSet::builder().name("slots").limit(limit).store(own);
    let slots = slots.build().expect("sound limits");
    let crowd: Vec<_> = (0..PROCESSES).map(|_| process(store, &seconds)).collect();
    let crowd = crowd
        .into_iter()
        .map(|child| std::thread::spawn(move || child.wait_with_output().expect("its ledger")));
    let crowd: Vec<_> = crowd.collect();
    while crowd.iter().any(|reading| !reading.is_finished()) {
        sample(&slots);
    }
    let mut ledger = Ledger::default();
    for reading in crowd {
        let output = reading.join().expect("it was read");
        assert!(output.status.success(), "a process failed");
        ledger.read(std::str::from_utf8(&output.stdout).expect("text"));
    }
    ledger.keeps_to_the_rate();
    ledger.holds_no_more_slots_than_there_are();
    ledger.fences_grow();
    let peeked = slots.peek("hot", 1).expect("a peek");
    let standing = peeked.standing("slots").expect("a standing");
    assert_eq!(standing.remaining, SLOTS, "all came back");
}

#[test]
fn eight_processes_get_what_a_redis_has_and_no_more() {
    Beyond::redis().iter().for_each(is_exact);
}

#[test]
fn eight_processes_get_what_a_postgresql_has_and_no_more() {
    Beyond::postgres().iter().for_each(is_exact);
}

#[test]
fn eight_processes_get_what_a_mariadb_has_and_no_more() {
    Beyond::mariadb().iter().for_each(is_exact);
}
