//! What is done to a table, as data: made at random, shrunk, printed.

use std::fmt;

use tidegate_core::Amount;
use tidegate_store::{Detail, Select};

use super::plans::{MAX_LIMITS, PlanData};

/// Keys of one level: short, long, with a separator, and no text.
const FLAT: [&[u8]; 4] = [
    b"k",
    b"a key longer than twenty-two bytes",
    b"k/x",
    b"\x00\xff",
];
/// Keys with ancestors, ancestors by themselves, and paths of two entities.
const OF_TWO: [&[u8]; 8] = [
    b"a", b"a/b", b"a/c", b"a/b/x", b"z/b/x/y", b"z/\x00", b"/a/b", b"/z/b",
];
/// The same of three levels: one entity is at two places.
const OF_THREE: [&[u8]; 9] = [
    b"a", b"a/b", b"a/c", b"a/b/x", b"z/b/x/y", b"/a/b", b"/a/b/x", b"/a/c/x", b"/z/b/x",
];

/// Rows of those of two levels, some that are no keys here.
const ROWS_OF_TWO: [&[u8]; 7] = [b"a", b"a/b", b"a/b/x", b"z", b"z/b/x/y", b"/a/b", b"/z/b"];
/// The same of three levels.
const ROWS_OF_THREE: [&[u8]; 8] = [
    b"a", b"a/b", b"a/b/x", b"z", b"z/b", b"/a/b", b"/a//x", b"/z//x",
];

/// The keys that are used with a plan of so many levels.
pub(crate) const fn keys(levels: usize) -> &'static [&'static [u8]] {
    match levels {
        1 => &FLAT,
        2 => &OF_TWO,
        _ => &OF_THREE,
    }
}

/// Names of rows that may have limits of their own, and are listed.
pub(crate) const fn overridable(levels: usize) -> &'static [&'static [u8]] {
    match levels {
        1 => &FLAT,
        2 => &ROWS_OF_TWO,
        _ => &ROWS_OF_THREE,
    }
}

/// Amounts in the order of the plan's limits; more than there are limits.
pub(crate) type Amounts = Vec<Amount>;

/// A lease to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseData {
    pub(crate) id: u64,
    pub(crate) ttl: u64,
    pub(crate) idempotency: Option<[u8; 1]>,
    /// It may be partial.
    pub(crate) least: Option<[Amount; MAX_LIMITS]>,
}

/// How a lease is ended.
#[derive(Clone, Debug)]
pub(crate) enum EndingData {
    Settle(Vec<Option<Amount>>),
    Release,
    Fail(Vec<bool>),
    Cancel,
}

/// What a step does to one key.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Take {
        amounts: Amounts,
        lease: Option<LeaseData>,
        detail: Detail,
    },
    Debit(Amounts),
    Peek(Amounts),
    End {
        id: u64,
        ending: EndingData,
        remember: bool,
    },
    Renew {
        id: u64,
        ttl: u64,
    },
    Adjust {
        id: u64,
        to: Vec<Option<Amount>>,
        overdraw: bool,
        detail: Detail,
    },
    Reset,
    /// A take that is answered by its verdict alone.
    Admit(Amounts),
    /// The same on a plan of one limit.
    AdmitOne(Amount),
    /// As a handle does: by the key's atomic bucket, or by the table if that says so.
    ByBucket(Amount),
    Pin,
    Unpin,
    /// A peek by the plan before the newest.
    Outdated,
}

/// What is listed: all, or the row of that number, counted around, or what begins like the key
/// of that number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    All,
    Key(usize),
    Beginning(usize),
}

impl Of {
    pub(crate) fn select(self, levels: usize) -> Select<'static> {
        match self {
            Self::All => Select::All,
            Self::Key(number) => {
                let rows = overridable(levels);
                Select::Key(rows[number % rows.len()])
            }
            Self::Beginning(number) => {
                let key = keys(levels)[number];
                let length = if key[0] == b'/' { 1 + number % 3 } else { 1 };
                Select::Prefix(&key[..length])
            }
        }
    }
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Time passes.
    Pass(u64),
    /// The clock steps back.
    Back(u64),
    /// The limits change.
    Change(PlanData),
    /// The adaptive limits of that position, counted around, have this capacity now.
    Adapt(usize, Amount),
    /// Something is sent for the key of that number.
    Do(usize, Deed),
    /// Verbs for keys of those numbers, in one command.
    Batch(Vec<(usize, Deed)>),
    /// Keys and leases are listed, and counted.
    List(Of),
}

/// A first plan and what happens then.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) plan: PlanData,
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// How many commands it has: steps of the clock are no commands, each of a batch is one.
    pub(crate) fn commands(&self) -> usize {
        let commands = |step: &Step| match step {
            Step::Pass(_) | Step::Back(_) | Step::Adapt(..) => 0,
            Step::Change(_) | Step::Do(..) | Step::List(_) => 1,
            Step::Batch(items) => items.len(),
        };
        self.steps.iter().map(commands).sum()
    }

    /// Whether its clock steps back at times.
    pub(crate) fn wanders(&self) -> bool {
        let back = |step: &Step| matches!(step, Step::Back(_));
        self.steps.iter().any(back)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  plan  {}", self.plan)?;
        let keys = keys(self.plan.levels);
        for (number, step) in self.steps.iter().enumerate() {
            write!(f, "  {number:>4}  ")?;
            match step {
                Step::Pass(micros) => writeln!(f, "{micros}us pass")?,
                Step::Back(micros) => writeln!(f, "the clock steps back by {micros}us")?,
                Step::Change(plan) => writeln!(f, "change to {plan}")?,
                Step::Adapt(at, capacity) => {
                    writeln!(f, "limit {at}, if it is adaptive, has capacity {capacity}")?;
                }
                Step::Do(key, deed) => writeln!(f, "{:<10}  {deed}", keys[*key].escape_ascii())?,
                Step::Batch(items) => {
                    writeln!(f, "a batch")?;
                    for (key, deed) in items {
                        writeln!(f, "        {:<10}  {deed}", keys[*key].escape_ascii())?;
                    }
                }
                Step::List(of) => writeln!(f, "list {of:?}, and count")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Take {
                amounts,
                lease: None,
                detail,
            } => write!(f, "take {amounts:?}, detail {detail:?}"),
            Self::Take {
                amounts,
                lease: Some(lease),
                ..
            } => write!(f, "take {amounts:?} as {lease}"),
            Self::Debit(amounts) => write!(f, "debit {amounts:?}"),
            Self::Peek(amounts) => write!(f, "peek {amounts:?}"),
            Self::End {
                id,
                ending,
                remember,
            } => {
                let remembered = if *remember { ", remembered" } else { "" };
                write!(f, "end lease {id}: {ending:?}{remembered}")
            }
            Self::Renew { id, ttl } => write!(f, "renew lease {id} to {ttl}us from now"),
            Self::Adjust {
                id, to, overdraw, ..
            } => {
                let anyway = if *overdraw {
                    ", into debt if need be"
                } else {
                    ""
                };
                write!(f, "adjust lease {id} to {to:?}{anyway}")
            }
            Self::Reset => write!(f, "reset"),
            Self::Admit(amounts) => write!(f, "admit {amounts:?}"),
            Self::AdmitOne(amount) => write!(f, "admit one {amount}"),
            Self::ByBucket(amount) => write!(f, "admit by atomic bucket {amount}"),
            Self::Pin => write!(f, "pin"),
            Self::Unpin => write!(f, "unpin"),
            Self::Outdated => write!(f, "peek by the last plan but one"),
        }
    }
}

impl fmt::Display for LeaseData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {} for {}us", self.id, self.ttl)?;
        if let Some(least) = &self.least {
            write!(f, ", {least:?} at least")?;
        }
        match self.idempotency {
            Some([number]) => write!(f, ", idempotency key {number}"),
            None => Ok(()),
        }
    }
}
