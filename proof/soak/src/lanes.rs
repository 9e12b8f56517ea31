//! The table of policies: every kind of limit, wide enough for whatever is asked of it and
//! too narrow for that, and everything that is done with a lease.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tidegate::Store;
use tidegate::{Algorithm, Clock, Limit, LimitSet, OnFailure, Period, Tier};

use crate::books::{Books, Narrow};
use crate::keys::Keys;
use crate::lane::{Lane, micros};
use crate::ledger::Shape;
use crate::people::{NAME, People};
use crate::tally::{Faults, Tally};
use crate::work::{Amounts, REMEMBERED, Work};

/// The period of all limits but those of the calendar: what is flat shows soon.
const SECOND: Duration = Duration::from_secs(1);
/// Where they are remembered for as long as by default, there are at most as many as are
/// ended in so many seconds.
const MOST_REMEMBERED: u64 = 5;
/// Of a table, each of which keeps its part of that.
const SHARDS: u64 = 64;
/// More than the few leases that a key of a moving population is asked for.
const WIDE: u64 = 10_000;
/// So many keys has a narrow policy.
const NARROW_KEYS: u64 = 4;
/// So many have those for which asks wait.
const WAITED_KEYS: u64 = 32;
/// So many have those whose windows last longer than any soak.
const CALENDAR_KEYS: u64 = 1_000;
/// So many keys are asked about where units are taken for them in advance.
const TIER_KEYS: u64 = 50;
/// How long an ask waits, where it does.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a lease is held that is asked for at the same time as others.
const HELD: Duration = Duration::from_millis(20);

const TOKENS: Amounts = &[("tokens", 100)];
const SEVENTY: Amounts = &[("tokens", 70)];
/// Of a postpaid limit more is used than was taken.
const MORE: Amounts = &[("tokens", 130)];
const THREE: Amounts = &[("tokens", 3)];
const TWO: Amounts = &[("tokens", 2)];
const NONE: Amounts = &[];

/// A policy, before it has a store.
struct Row {
    name: &'static str,
    limits: Vec<Limit>,
    levels: &'static [&'static str],
    keys: Keys,
    work: Work,
    taken: Amounts,
    used: Amounts,
    patience: Duration,
    hold: Duration,
    narrow: Vec<Narrow>,
    tier: Option<Tier>,
    /// Of a policy of entities, whose limits a service makes: how often an organisation may call.
    people: Option<u64>,
    /// How long and how many; as by default where it is not said.
    remember: Option<Duration>,
    most_remembered: Option<u64>,
}

impl Row {
    /// A limit of tokens that nobody is refused by.
    fn wide(name: &'static str, limits: impl Into<Vec<Limit>>) -> Self {
        Self {
            name,
            limits: limits.into(),
            levels: &[],
            keys: Keys::Moving,
            work: Work::Settle,
            taken: TOKENS,
            used: SEVENTY,
            patience: Duration::ZERO,
            hold: Duration::ZERO,
            narrow: Vec::new(),
            tier: None,
            people: None,
            remember: Some(REMEMBERED),
            most_remembered: None,
        }
    }

    /// A limit that is asked for more than it has.
    fn narrow(name: &'static str, limit: Limit, narrow: Narrow) -> Self {
        Self {
            keys: Keys::Fixed(NARROW_KEYS),
            taken: THREE,
            used: TWO,
            narrow: vec![narrow],
            ..Self::wide(name, [limit])
        }
    }

    /// Slots of which each ask takes one, too narrow for those who come while others hold.
    fn slots(name: &'static str, slots: u64) -> Self {
        Self {
            taken: NONE,
            used: NONE,
            hold: HELD,
            ..Self::narrow(name, Limit::concurrency("running", slots), held(slots))
        }
    }

    fn does(self, work: Work) -> Self {
        Self { work, ..self }
    }

    fn build(self, world: &World<'_>) -> Result<Lane, String> {
        let accounts = match self.keys {
            Keys::Fixed(keys) | Keys::Paths(keys) | Keys::Entities(keys) => keys,
            Keys::Moving | Keys::MovingPaths => 1,
        };
        let people = self
            .people
            .map(|calls| People::new(world.store, world.clock, (accounts, calls), REMEMBERED));
        let people = people.transpose()?;
        let set = match &people {
            Some(people) => people.set()?,
            None => self.set(world)?,
        };
        let is_narrow = !self.narrow.is_empty();
        let books = is_narrow.then(|| Arc::new(Books::new(self.narrow, accounts)));
        Ok(Lane {
            name: self.name,
            set,
            people,
            keys: self.keys,
            work: self.work,
            taken: self.taken,
            used: self.used,
            patience: self.patience,
            hold: self.hold,
            remembered_for_sure: self.most_remembered.map_or(u64::MAX, |most| most / SHARDS),
            books,
            tally: Tally::default(),
            faults: Arc::clone(world.faults),
            next: AtomicU64::new(0),
        })
    }

    /// Its limits, as a library has them.
    fn set(&self, world: &World<'_>) -> Result<LimitSet, String> {
        let mut set = LimitSet::builder()
            .name(self.name)
            .limits(self.limits.clone())
            .levels(self.levels.iter().copied())
            .clock(world.clock.clone())
            .store(Arc::clone(world.store));
        if let Some(remember) = self.remember {
            set = set.remember(remember);
        }
        if let Some(most) = self.most_remembered {
            set = set.max_remembered_leases(most as usize);
        }
        if let Some(tier) = &self.tier {
            set = set.tier(tier.clone());
        }
        set.build().map_err(|error| error.to_string())
    }
}

/// What policies are built in.
pub struct World<'a> {
    pub store: &'a Arc<dyn Store>,
    pub clock: &'a Clock,
    pub faults: &'a Arc<Faults>,
}

/// All policies, for so many asks a second in all.
///
/// # Errors
/// A store that cannot have them.
pub fn lanes(rate: u64, world: &World<'_>) -> Result<Vec<Lane>, String> {
    let mut rows = wide();
    // How many there are is known once they are made.
    let more = [done_with_leases, narrow, waiting];
    let count = more
        .iter()
        .fold(rows.len(), |count, rows| count + rows(1).len());
    let of_one = (rate / count as u64).max(1);
    rows.extend(more.iter().flat_map(|rows| rows(of_one)));
    rows.into_iter().map(|row| row.build(world)).collect()
}

fn tokens(amount: u64) -> Limit {
    Limit::rate("tokens", amount, SECOND)
}

/// Calls, tokens and slots at once.
fn three() -> [Limit; 3] {
    [
        Limit::calls("calls", WIDE, SECOND),
        tokens(WIDE),
        Limit::concurrency("running", WIDE),
    ]
}

/// Each kind of limit, where keys come and go.
fn wide() -> Vec<Row> {
    let by = |algorithm| tokens(WIDE).algorithm(algorithm);
    let levels = &["org", "team", "user"];
    let tree = [
        Limit::calls("calls", WIDE, SECOND).at_level("org"),
        tokens(WIDE).at_level("team"),
        Limit::concurrency("running", WIDE).at_level("user"),
    ];
    vec![
        Row::wide("bucket", [tokens(WIDE / 100).burst(WIDE)]),
        Row {
            used: MORE,
            ..Row::wide("bucket, postpaid", [tokens(WIDE).postpaid()])
        },
        Row::wide("window", [by(Algorithm::FixedWindow)]),
        Row::wide("first use", [by(Algorithm::FirstUseWindow)]),
        Row::wide("sliding", [by(Algorithm::SlidingWindow)]),
        Row::wide("log", [by(Algorithm::SlidingLog)]),
        Row {
            used: MORE,
            ..Row::wide(
                "budget, postpaid",
                [Limit::budget("tokens", WIDE, SECOND).postpaid()],
            )
        },
        Row {
            keys: Keys::Fixed(CALENDAR_KEYS),
            ..Row::wide(
                "calendar",
                [
                    Limit::budget("tokens", 1 << 50, Period::day("Europe/Berlin")),
                    Limit::calls("calls", 1 << 50, Period::month("UTC")),
                ],
            )
        },
        Row {
            taken: NONE,
            used: NONE,
            hold: HELD,
            ..Row::wide("slots", [Limit::concurrency("running", WIDE)])
        },
        Row::wide("three", three()),
        Row {
            tier: Some(Tier::leased(TOKENS[0].1 * 10)),
            keys: Keys::Fixed(TIER_KEYS),
            work: Work::Check,
            ..Row::wide("tier", [by(Algorithm::FixedWindow)])
        },
        Row {
            levels,
            keys: Keys::MovingPaths,
            ..Row::wide("ancestors", tree)
        },
    ]
}

/// Whatever may be done with a lease, on calls, tokens and slots at once.
fn done_with_leases(of_one: u64) -> Vec<Row> {
    // What is held comes back in any case.
    let refunded = three().map(|limit| match limit.is_concurrency() {
        true => limit,
        false => limit.on_failure(OnFailure::Refund),
    });
    vec![
        Row::wide("adjusted", three()).does(Work::Adjust),
        Row::wide("repeated", three()).does(Work::Repeat),
        Row::wide("renewed", three()).does(Work::Renew),
        Row::wide("abandoned", three()).does(Work::Abandon),
        Row {
            remember: None,
            most_remembered: Some((of_one * MOST_REMEMBERED).max(500)),
            ..Row::wide("by id", three()).does(Work::ById)
        },
        Row::wide("each end", refunded).does(Work::EndEachWay),
    ]
}

/// Each kind of limit, where two thirds of what is asked for are there.
fn narrow(of_one: u64) -> Vec<Row> {
    let capacity = (of_one * 4 / (3 * NARROW_KEYS)).max(3);
    let per = micros(SECOND);
    let rolling = |parts: u32| Shape::Rolling {
        per,
        grain: per / i64::from(parts),
    };
    let by = |algorithm| tokens(capacity).algorithm(algorithm);
    let of = |shape| account("tokens", shape, capacity);
    let burst = (capacity / 4).max(3);
    let bucket = Shape::Bucket {
        rate: capacity,
        per,
    };
    let bucket = account("tokens", bucket, burst);
    let postpaid = |narrow| Narrow {
        postpaid: true,
        ..narrow
    };
    let calls = (of_one * 2 / (3 * NARROW_KEYS)).max(1);
    let called = Narrow {
        taken: 1,
        used: 1,
        ..account("calls", Shape::Aligned(per), calls)
    };
    let people = Row {
        people: Some(calls),
        keys: Keys::Entities(NARROW_KEYS),
        ..Row::narrow(NAME, tokens(1), called).does(Work::ByEntity)
    };
    let calls = Limit::calls("calls", calls, SECOND).algorithm(Algorithm::FixedWindow);
    let above = [
        calls.clone().at_level("org"),
        tokens(WIDE * WIDE).at_level("user"),
    ];
    let three = [calls, tokens(WIDE * WIDE), Limit::concurrency("running", 2)];
    let levels = &["org", "team", "user"];
    vec![
        Row::narrow("narrow bucket", tokens(capacity).burst(burst), bucket),
        Row::narrow(
            "narrow bucket, postpaid",
            tokens(capacity).burst(burst).postpaid(),
            postpaid(bucket),
        ),
        Row::narrow(
            "narrow window",
            by(Algorithm::FixedWindow),
            of(Shape::Aligned(per)),
        ),
        Row::narrow(
            "narrow first use",
            by(Algorithm::FirstUseWindow),
            of(Shape::FirstUse(per)),
        ),
        Row::narrow(
            "narrow sliding",
            by(Algorithm::SlidingWindow).sub_windows(10),
            of(rolling(10)),
        ),
        Row::narrow(
            "narrow log",
            by(Algorithm::SlidingLog),
            of(rolling(1_000_000)),
        ),
        Row::narrow(
            "narrow budget, postpaid",
            Limit::budget("tokens", capacity, SECOND).postpaid(),
            postpaid(of(Shape::Aligned(per))),
        ),
        Row::slots("narrow slots", 2),
        Row {
            limits: three.to_vec(),
            narrow: vec![called, held(2)],
            taken: THREE,
            used: TWO,
            ..Row::slots("narrow three", 2)
        },
        Row {
            limits: above.to_vec(),
            levels,
            keys: Keys::Paths(NARROW_KEYS),
            narrow: vec![called],
            ..Row::narrow("narrow ancestors", tokens(1), called)
        },
        people,
    ]
}

/// Where asks wait for their turn: there is enough for all of them, a little later.
fn waiting(of_one: u64) -> Vec<Row> {
    let rate = (of_one * 4 / (3 * NARROW_KEYS)).max(1);
    let burst = (rate / 10).max(1);
    let bucket = Shape::Bucket {
        rate,
        per: micros(SECOND),
    };
    let bucket = Narrow {
        taken: 1,
        used: 1,
        ..account("tokens", bucket, burst)
    };
    vec![
        Row {
            keys: Keys::Fixed(WAITED_KEYS),
            patience: PATIENCE,
            ..Row::slots("waits for slots", 2)
        },
        Row {
            patience: PATIENCE,
            taken: &[("tokens", 1)],
            used: NONE,
            ..Row::narrow("waits for tokens", tokens(rate).burst(burst), bucket)
        },
    ]
}

fn account(limit: &'static str, shape: Shape, capacity: u64) -> Narrow {
    Narrow {
        limit,
        shape,
        capacity,
        postpaid: false,
        taken: THREE[0].1,
        used: TWO[0].1,
    }
}

fn held(slots: u64) -> Narrow {
    Narrow {
        taken: 1,
        used: 1,
        ..account("running", Shape::Slots, slots)
    }
}
