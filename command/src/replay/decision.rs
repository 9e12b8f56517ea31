//! What became of each request.

use crate::args::{Reserve, Service};
use crate::subject::{Kind, Subject};
use crate::trace::{Request, Trace};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It started when it arrived.
    Admitted,
    /// It started later.
    Waited,
    /// It never started.
    Refused,
}

impl Outcome {
    /// The word in the decisions file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Waited => "waited",
            Self::Refused => "refused",
        }
    }
}

/// A request's fate; instants are microseconds since the trace's first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it started and ended, unless it was refused.
    pub ran: Option<(u64, u64)>,
    /// What became of it.
    pub outcome: Outcome,
    /// The limit that made it wait or refused it.
    pub binding: Option<usize>,
}

impl Decision {
    /// What becomes of a request that is not decided yet.
    pub const UNDECIDED: Self = Self {
        ran: None,
        outcome: Outcome::Refused,
        binding: None,
    };
}

/// What a request is charged by each limit, at its start and in the end.
#[derive(Clone, Debug)]
pub struct Charges {
    sources: Vec<Source>,
    reserve: Reserve,
    service: Service,
}

/// Where a limit's charge comes from, and whose keys it reaches.
#[derive(Clone, Copy, Debug)]
struct Source {
    cost: Cost,
    reach: usize,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    /// Always 1.
    One,
    /// The request's cost.
    Whole,
    /// The nth cost field that names a limit.
    Named(usize),
}

impl Charges {
    /// The charges of `limits`; `named` are the limits that have a cost field
    /// of their own, in the order of those fields.
    pub fn new(limits: &[Subject], named: &[&str], reserve: Reserve, service: Service) -> Self {
        let cost = |limit: &Subject| match limit.kind {
            Kind::Calls | Kind::Concurrency => Cost::One,
            Kind::Rate | Kind::Budget => {
                let own = named.iter().position(|name| *name == limit.name);
                own.map_or(Cost::Whole, Cost::Named)
            }
        };
        let source = |limit: &Subject| Source {
            cost: cost(limit),
            reach: limit.reach,
        };
        Self {
            sources: limits.iter().map(source).collect(),
            reserve,
            service,
        }
    }

    /// What limit `limit` is charged when `request` starts: at least 1 if it
    /// will use anything, for what reserves nothing is not limited.
    pub fn reserved(&self, limit: usize, request: &Request) -> u64 {
        let used = self.used(limit, request);
        let estimate = match (self.sources[limit].cost, self.reserve) {
            _ if request.depth < self.sources[limit].reach => 0,
            (Cost::One, _) | (_, Reserve::Total) => used,
            (_, Reserve::Context(more)) => request.context.unwrap_or(0).saturating_add(more),
            (_, Reserve::Always(amount)) => amount,
        };
        estimate.max(used.min(1))
    }

    /// What limit `limit` is charged for `request` in the end.
    pub fn used(&self, limit: usize, request: &Request) -> u64 {
        match self.sources[limit].cost {
            _ if request.depth < self.sources[limit].reach => 0,
            Cost::One => 1,
            Cost::Whole => request.cost.unwrap_or(0),
            Cost::Named(at) => request.named[at],
        }
    }

    /// How long `request` is served.
    pub fn service_us(&self, request: &Request) -> u64 {
        let generated = request.generated.unwrap_or(0);
        let tokens = generated.saturating_mul(self.service.per_token_us);
        self.service.first_us.saturating_add(tokens)
    }

    /// Whether any limit is charged the request's cost.
    pub fn needs_cost(&self) -> bool {
        self.sources
            .iter()
            .any(|source| matches!(source.cost, Cost::Whole))
    }
}

/// A trace played through limits.
#[derive(Debug)]
pub struct Run {
    /// What was asked.
    pub trace: Trace,
    /// By what it was limited.
    pub limits: Vec<Subject>,
    /// What it was charged.
    pub charges: Charges,
    /// What became of it, in the order of arrival.
    pub decisions: Vec<Decision>,
    /// How much of each limit was in use.
    pub usage: Vec<Usage>,
}

/// How much of a limit was in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The most at any instant.
    pub peak: u64,
    /// The key (or ancestor) that it was.
    pub peak_key: String,
    /// The mean over time and over all keys.
    pub mean: f64,
}

impl Run {
    /// When everything was over: the last end, or the last arrival.
    pub fn length(&self) -> u64 {
        let ends = self
            .decisions
            .iter()
            .filter_map(|decision| Some(decision.ran?.1));
        ends.max().unwrap_or(0).max(self.trace.length())
    }

    /// Each request with what became of it.
    pub fn pairs(&self) -> impl Iterator<Item = (&Request, &Decision)> {
        self.trace.requests.iter().zip(&self.decisions)
    }

    /// What the charged amounts count.
    pub fn unit(&self) -> &str {
        &self.trace.unit
    }
}
