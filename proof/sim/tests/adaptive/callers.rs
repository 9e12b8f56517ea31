//! Callers that always want more than a limit admits, before the simulated provider, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate::adaptive::{Estimator, Sample};
use tidegate::{Outcome, Timestamp};
use tidegate_core::Span;
use tidegate_llm::Provider;
use tidegate_sim::call::{Call, Shape};
use tidegate_sim::settings::{Pace, Serving, Settings};
use tidegate_sim::sim::{End, Reply, Sim};

/// A multiple of a minute.
const BEGIN: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// So many callers want something at once, always.
const CALLERS: u64 = 300;

/// A caller that was refused comes again after so long.
const AGAIN: Span = Span::from_millis(500);

/// What the provider is like for a while.
#[derive(Clone, Copy)]
pub struct Served {
    /// So many streams at once come at its pace; of more each is slower.
    pub slots: u64,
    /// Until the first token, in milliseconds.
    pub first: u64,
}

impl Served {
    const fn pace(self) -> Pace {
        Pace {
            first: Span::from_millis(self.first),
            gap: Span::from_millis(5),
        }
    }
}

/// 32 streams at once, with a first token after 100 ms and 5 ms between two.
pub const SERVED: Served = Served {
    slots: 32,
    first: 100,
};

/// What came of a while.
#[derive(Debug, Default)]
pub struct Went {
    /// The limit at the end of each second.
    pub limits: Vec<u64>,
    /// Streams that ended.
    pub answered: u64,
    /// Calls that the provider had no room for.
    pub refused: u64,
}

/// What is next, at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The first token of a stream comes, which took so many microseconds, with so many in flight.
    First { took: u64, in_flight: u64 },
    /// A stream of so many tokens ends.
    End { id: u64, tokens: u64 },
    /// A caller that was refused comes again.
    Again,
}

/// An estimator whose limit holds the callers back.
pub struct Callers {
    estimator: Estimator,
    sim: Sim,
    call: Call,
    now: Timestamp,
    next: BinaryHeap<Reverse<(Timestamp, u64, Next)>>,
    planned: u64,
    in_flight: u64,
    /// Who was refused and has not come again.
    away: u64,
}

impl Callers {
    /// Before a provider that is what `parts` say, each for so many seconds; its answers come faster or
    /// slower by up to `jitter` of their time.
    pub fn begin(estimator: Estimator, parts: &[(u64, Served)], jitter: f64, seed: u64) -> Self {
        let mut begins = 0;
        let serving = parts.iter().map(|(seconds, served)| {
            let after = Span::from_secs(begins);
            begins += seconds;
            Serving {
                after,
                slots: served.slots,
                pace: served.pace(),
            }
        });
        let settings = Settings {
            serving: serving.collect(),
            jitter,
            most_at_once: 128,
            output: 20..=60,
            ..Settings::of(Provider::OpenAi)
        };
        let (path, body) = ("/v1/chat/completions", br#"{"model":"m","stream":true}"#);
        Self {
            estimator,
            sim: Sim::new(settings, seed, BEGIN),
            call: Call::read(Shape::Chat, path, body, None).expect("a sound call"),
            now: BEGIN,
            next: BinaryHeap::new(),
            planned: 0,
            in_flight: 0,
            away: 0,
        }
    }

    /// Lets so many seconds pass.
    pub fn pass(&mut self, seconds: u64) -> Went {
        let mut went = Went::default();
        for _ in 0..seconds {
            self.pass_a_second(&mut went);
            went.limits.push(self.estimator.limit());
        }
        went
    }

    fn pass_a_second(&mut self, went: &mut Went) {
        let until = self.now + Span::from_secs(1);
        loop {
            while self.in_flight < self.estimator.limit() && self.in_flight + self.away < CALLERS {
                self.ask(went);
            }
            match self.next.pop() {
                Some(Reverse((at, _, next))) if at <= until => {
                    self.now = at;
                    self.comes(next, went);
                }
                later => {
                    self.next.extend(later);
                    break;
                }
            }
        }
        self.now = until;
    }

    /// A caller asks.
    fn ask(&mut self, went: &mut Went) {
        let in_flight = self.in_flight + 1;
        match self.sim.ask(self.now, "account", &self.call) {
            Reply::Answer(answer, _) => {
                self.in_flight = in_flight;
                let took = answer.pace.first;
                let first = Next::First {
                    took: took.as_micros(),
                    in_flight,
                };
                self.plan(took, first);
                let (id, tokens) = (answer.id, answer.tokens);
                self.plan(answer.pace.whole(tokens), Next::End { id, tokens });
            }
            Reply::Refusal(_) => {
                went.refused += 1;
                self.away += 1;
                self.plan(AGAIN, Next::Again);
                self.tell(0, in_flight, Outcome::Dropped);
            }
        }
    }

    fn comes(&mut self, next: Next, went: &mut Went) {
        match next {
            Next::First { took, in_flight } => self.tell(took, in_flight, Outcome::Succeeded),
            Next::End { id, tokens } => {
                self.sim.produced(self.now, id, tokens);
                self.sim.end(self.now, id, End::Whole);
                self.in_flight -= 1;
                went.answered += 1;
            }
            Next::Again => self.away -= 1,
        }
    }

    fn plan(&mut self, after: Span, next: Next) {
        self.planned += 1;
        let at = self.now + after;
        self.next.push(Reverse((at, self.planned, next)));
    }

    fn tell(&mut self, micros: u64, in_flight: u64, outcome: Outcome) {
        self.estimator.observe(&Sample {
            at: self.now,
            signal: Duration::from_micros(micros),
            in_flight,
            outcome,
        });
    }
}
