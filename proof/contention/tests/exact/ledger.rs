//! What the processes say that they were granted.

use crate::{BURST, RATE, SLOTS};

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
pub struct Ledger {
    /// Units of the rate: when one was asked for, and when it was granted.
    units: Vec<(i64, i64)>,
    held: Vec<Held>,
}

impl Ledger {
    pub fn read(&mut self, text: &str) {
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
    pub fn keeps_to_the_rate(&mut self) {
        self.units.sort_unstable();
        // When each was granted that was asked for from `from` on.
        let mut by = Vec::with_capacity(self.units.len());
        for &(from, granted) in self.units.iter().rev() {
            by.insert(by.partition_point(|other| *other < granted), granted);
            for (granted, until) in (1_u64..).zip(&by) {
                let most = BURST + RATE * (until - from) as u64 / 1_000_000 + 1;
                assert!(granted <= most, "{granted} granted, of {most}");
            }
        }
        let granted = self.units.len() as u64;
        println!("{granted} units granted");
        assert!(granted > BURST, "it goes on");
    }

    pub fn holds_no_more_slots_than_there_are(&self) {
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

    pub fn fences_grow(&mut self) {
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
