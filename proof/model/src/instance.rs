//! What is explored: limits, nodes, and what may go wrong.

use std::sync::Arc;

use tidegate_store::core::{Align, Amount, Bucket, Payment, Rule, Span, Window};
use tidegate_store::{Plan, PlanLimit};

/// A tick of the store's clock, in microseconds. Everything happens at one.
pub const TICK: u64 = 1_000;

/// How long the store remembers what has expired: longer than the way to any state.
const KEEP: Span = Span::from_secs(3_600);

/// The limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `capacity` in each window of so many ticks.
    Window {
        /// Units in a window.
        capacity: Amount,
        /// Ticks of a window.
        ticks: u32,
    },
    /// `rate` a tick, `burst` at once.
    Bucket {
        /// Units a tick.
        rate: Amount,
        /// Units at once.
        burst: Amount,
    },
}

impl Limit {
    /// The plan by which the store decides it.
    pub(crate) fn plan(self) -> Arc<Plan> {
        let rule = match self {
            Self::Window { capacity, ticks } => {
                let align = Align::Epoch(Span::from_micros(u64::from(ticks) * TICK));
                Window::new(capacity, align).map(Rule::Window)
            }
            Self::Bucket { rate, burst } => {
                Bucket::new(rate, Span::from_micros(TICK), burst).map(Rule::Bucket)
            }
        };
        let limit = PlanLimit {
            name: "limit".into(),
            uid: 0,
            rule: rule.expect("a limit that there is"),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive: None,
        };
        Arc::new(Plan::new(0, 1, vec![limit], KEEP))
    }

    /// The most that it lets in at once.
    #[must_use]
    pub const fn capacity(self) -> Amount {
        match self {
            Self::Window { capacity, .. } => capacity,
            Self::Bucket { burst, .. } => burst,
        }
    }
}

/// What of the tier is switched off, in the model: the product has no switch for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Off {
    /// A grant is good for its hold, whatever window was charged.
    Window,
    /// What is left of older grants is added to the newest.
    OneByOne,
    /// A grant that comes too late serves the request that waits for it.
    Late,
    /// A grant of a bucket is good for longer than its hold, as if a window of it went on.
    Hold,
    /// The time of a grant is counted from its answer.
    FromRequest,
    /// A grant is spent for as long as the store said, by a clock that may be slow.
    Thousandth,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The limit.
    pub limit: Limit,
    /// So many nodes.
    pub nodes: usize,
    /// What a grant asks for, at most the capacity.
    pub batch: Amount,
    /// What a request takes: one of these, at most the batch.
    pub costs: &'static [Amount],
    /// When all requests that wait take so much together a grant is asked for that covers
    /// them: one of these.
    pub waiting: &'static [Amount],
    /// So long is a grant held, in ticks.
    pub hold: u32,
    /// The most requests for grants and answers to them on the wire at once.
    pub in_flight: usize,
    /// The most returns on the wire at once. Others are lost.
    pub returns: usize,
    /// A history ends after so many ticks; with `None` it goes on for ever.
    pub ticks: Option<u32>,
    /// A clock is as fast as the store's, or loses a thousandth in each tick; with `false` it
    /// always does.
    pub drifts: bool,
    /// Messages are doubled.
    pub doubles: bool,
    /// Answers are given up, and nodes are killed.
    pub fails: bool,
    /// All is calm: a node asks only when a request needs a grant, that request is still there
    /// when it comes, and no tick passes while something is on the wire.
    pub is_calm: bool,
    /// What is switched off.
    pub off: Option<Off>,
}

impl Instance {
    /// Two nodes on a window of four units in two ticks: batches of two, held for a tick more
    /// than a window is long.
    #[must_use]
    pub const fn small() -> Self {
        Self {
            limit: Limit::Window {
                capacity: 4,
                ticks: 2,
            },
            nodes: 2,
            batch: 2,
            costs: &[1, 2],
            waiting: &[0],
            hold: 3,
            in_flight: 2,
            returns: usize::MAX,
            ticks: None,
            drifts: true,
            doubles: false,
            fails: true,
            is_calm: false,
            off: None,
        }
    }

    /// The most that a history may admit: in a window; or of a bucket, in any time beyond what
    /// its rate lets in during that.
    #[must_use]
    pub fn bound(&self) -> Amount {
        match self.limit {
            Limit::Window { capacity, .. } => capacity,
            Limit::Bucket { rate, burst } => burst + rate * Amount::from(self.hold),
        }
    }
}
