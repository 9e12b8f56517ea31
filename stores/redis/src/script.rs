//! The files in `lua/`, as a library of functions that has all of them, and as
//! scripts, each with as many of them as a command can need: a server defines what
//! is in a script anew for every call, so less is faster.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::Plan;
use tidegate_store::core::Rule;

use crate::functions::Library;

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!("../lua/", $name, ".lua"))
    };
}

/// A file, or several, whose names are their own: a script has 200 local ones at most.
macro_rules! block {
    ($($name:literal),*) => {
        concat!("do\n", $(lua!($name),)* "end\n")
    };
}

/// The kernels, in the order of their numbers, each with what it needs. The others find
/// them in `kernels`.
const KERNELS: [&str; 5] = [
    block!("wide", "low_water", "bucket"),
    block!("window"),
    block!("ring"),
    block!("log"),
    block!("slots"),
];

const HEAD: &str = lua!("head");

/// What is kept of a row of plain limits.
const FLAT: &str = lua!("flat");

/// What was used, hour by hour.
const HOURS: &str = lua!("hours");

/// What is kept of a lease.
const RECORD: &str = lua!("record");

/// What most policies do, without all that is below.
const STRAIGHT: &str = lua!("straight");

/// What a late refund of a bucket gives back, without the bucket.
const LOW_WATER: &str = block!("wide", "low_water");

/// What else it needs of leases.
const STRAIGHT_LEASES: &str = concat!(lua!("record"), lua!("straight_leases"));

/// What every command needs.
const ROWS: &str = concat!(
    lua!("rule"),
    lua!("rows"),
    lua!("retained"),
    lua!("compose"),
    lua!("ledger"),
    lua!("usage"),
    lua!("retire"),
);

const LINE: &str = lua!("line");

/// The same, after what it may need.
const REST: &str = concat!(lua!("leases"), lua!("adopt"), lua!("main"),);

/// What a script ends with; a library says what of it may be called.
const CALL: &str = "return run(KEYS, ARGV)\n";

/// The same, of several commands.
const CALL_BATCH: &str = "return batch(KEYS, ARGV)\n";

/// The same, by the straight way.
const CALL_STRAIGHT: &str = "return straight(KEYS, ARGV)\n";

/// What a command needs of the script.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Needs {
    /// One bit for each kernel.
    kernels: u8,
    /// Those who wait.
    line: bool,
}

impl Needs {
    /// What can be met where limits have changed.
    pub(crate) const ALL: Self = Self {
        kernels: u8::MAX,
        line: false,
    };

    /// No kernel.
    pub(crate) const NONE: Self = Self {
        kernels: 0,
        line: false,
    };

    /// Those who wait.
    pub(crate) const LINE: Self = Self {
        kernels: 0,
        line: true,
    };

    /// What a command by `plan` needs.
    pub(crate) fn of(plan: &Plan) -> Self {
        let bits = plan
            .limits()
            .iter()
            .map(|limit| 1 << (kind(&limit.rule) - 1));
        Self {
            kernels: bits.fold(0, |all, bit: u8| all | bit),
            line: false,
        }
    }

    /// What a command needs that needs both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            kernels: self.kernels | other.kernels,
            line: self.line | other.line,
        }
    }

    /// The kernels from the number `first` on that are needed.
    fn kernels_from(self, first: usize) -> impl Iterator<Item = &'static str> {
        let needed = move |number: usize| self.kernels & (1 << number) != 0;
        let kernels = KERNELS.into_iter().enumerate().skip(first);
        let kernels = kernels.filter(move |&(number, _)| needed(number));
        kernels.map(|(_, kernel)| kernel)
    }

    /// The straight way of takes, or of leases, too, and of usage if it is counted: of buckets it
    /// has what it needs itself.
    fn straight(self, has_leases: bool, counts: bool) -> String {
        let (low_water, leases) = match has_leases {
            true => (LOW_WATER, STRAIGHT_LEASES),
            false => ("", ""),
        };
        let hours = if counts { HOURS } else { "" };
        let before = [HEAD, FLAT, hours, low_water]
            .into_iter()
            .chain(self.kernels_from(1));
        before.chain([leases, STRAIGHT, CALL_STRAIGHT]).collect()
    }

    fn source(self) -> String {
        let mut source = String::from(HEAD);
        source.extend(self.kernels_from(0));
        source.extend([FLAT, HOURS, RECORD, ROWS]);
        if self.line {
            source.push_str(LINE);
        }
        source.push_str(REST);
        source.push_str(CALL);
        source
    }
}

/// The number of a rule's kernel.
pub(crate) const fn kind(rule: &Rule) -> u8 {
    match rule {
        Rule::Bucket(_) => 1,
        Rule::Window(_) => 2,
        Rule::Ring(_) => 3,
        Rule::Log(_) => 4,
        Rule::Slots(_) => 5,
    }
}

/// A script, and the hash that the server knows it by; and the function that does
/// the same.
pub(crate) struct Script {
    pub(crate) source: String,
    pub(crate) hash: String,
    pub(crate) library: Arc<Library>,
    pub(crate) function: String,
}

impl std::fmt::Debug for Script {
    /// Without the text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Script").field(&self.hash).finish()
    }
}

impl Script {
    fn new(library: &Arc<Library>, entry: &str, source: String) -> Self {
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self {
            source,
            hash,
            library: Arc::clone(library),
            function: library.function(entry),
        }
    }
}

/// Several commands as one.
const BATCH: &str = lua!("batch");

/// What decides about one plain bucket.
const SINGLE_BUCKET: &str = lua!("single_bucket");

/// The same where what is used is counted.
const SINGLE_BUCKET_COUNTED: &str = concat!(lua!("hours"), lua!("single_bucket"));

/// The same as a function.
const SINGLE_BUCKET_FUNCTION: &str = concat!(
    "local function single_bucket(KEYS, ARGV)\n",
    lua!("single_bucket"),
    "end\n"
);

/// The files that are whole scripts, by name.
const WHOLE: [(&str, &str); 12] = [
    ("register", lua!("register")),
    ("restore", lua!("restore")),
    ("held", concat!(lua!("record"), lua!("held"))),
    ("used", concat!(lua!("hours"), lua!("flat"), lua!("used"))),
    ("is_seen", concat!(lua!("flat"), lua!("is_seen"))),
    ("root", lua!("root")),
    ("roots", lua!("roots")),
    ("define", concat!(lua!("kept"), lua!("define"))),
    ("defined", concat!(lua!("kept"), lua!("defined"))),
    ("definition", concat!(lua!("kept"), lua!("definition"))),
    ("page", concat!(lua!("kept"), lua!("page"))),
    ("events", concat!(lua!("kept"), lua!("events"))),
];

/// Those of them that only read.
const READ_ONLY: [&str; 5] = ["held", "is_seen", "defined", "definition", "events"];

/// The name of what all other files are.
const DECIDE: &str = "decide";

/// The names of those that decide, as the library has them, and of what they are there.
const FUNCTIONS: [(&str, &str); 4] = [
    (DECIDE, "run"),
    (SHORT, "straight"),
    (SINGLE, "single_bucket"),
    (TOGETHER, "batch"),
];

/// The name of the straight way.
const SHORT: &str = "straight";

/// The name of what decides about one plain bucket.
const SINGLE: &str = "single_bucket";

/// The name of what decides several commands.
const TOGETHER: &str = "batch";

/// All that decides.
fn definitions() -> String {
    let parts = [HEAD].into_iter().chain(KERNELS);
    let rest = [FLAT, HOURS, STRAIGHT_LEASES, STRAIGHT, ROWS, LINE, REST];
    let parts = parts.chain(rest);
    parts.chain([SINGLE_BUCKET_FUNCTION, BATCH]).collect()
}

/// All files as one library.
fn library(is_allowed: bool) -> Library {
    let definitions = definitions();
    let entries = FUNCTIONS.map(|(name, function)| (name, function.to_owned(), false));
    let mut entries = entries.to_vec();
    entries.extend(WHOLE.map(|(name, text)| {
        let function = format!("function(KEYS, ARGV)\n{text}end");
        (name, function, READ_ONLY.contains(&name))
    }));
    Library::new(&definitions, &entries, is_allowed)
}

/// The scripts that were needed so far.
#[derive(Debug)]
pub(crate) struct Scripts {
    library: Arc<Library>,
    made: Mutex<HashMap<Needs, Arc<Script>>>,
    /// Adds a revision to a table's plans.
    pub(crate) register: Script,
    /// Gives one back that was lost.
    pub(crate) restore: Script,
    /// Decides about one plain bucket.
    pub(crate) single_bucket: Script,
    /// The same, and counts what is used.
    pub(crate) single_bucket_counted: Script,
    /// Decides several commands of one root.
    pub(crate) batch: Script,
    /// Lists some of a root's leases.
    pub(crate) held: Script,
    /// Lists some of what was used under a root.
    pub(crate) used: Script,
    /// Says whether a row that is there is more than "never seen".
    pub(crate) is_seen: Script,
    /// Enters a root in the order of those under which something was used.
    pub(crate) root: Script,
    /// Lists some of those.
    pub(crate) roots: Script,
    /// Makes a change of a definition.
    pub(crate) define: Script,
    /// Tells what has changed of an owner's.
    pub(crate) defined: Script,
    /// Tells what is defined under a key.
    pub(crate) definition: Script,
    /// Lists definitions.
    pub(crate) page: Script,
    /// Lists events.
    pub(crate) events: Script,
}

impl Scripts {
    /// `functions`: whether the server may be asked to define them once.
    pub(crate) fn new(functions: bool) -> Self {
        let library = Arc::new(library(functions));
        let [
            register,
            restore,
            held,
            used,
            is_seen,
            root,
            roots,
            define,
            defined,
            definition,
            page,
            events,
        ] = WHOLE.map(|(name, text)| Script::new(&library, name, text.to_owned()));
        let together = [definitions().as_str(), CALL_BATCH].concat();
        Self {
            single_bucket: Script::new(&library, SINGLE, SINGLE_BUCKET.to_owned()),
            single_bucket_counted: Script::new(&library, SINGLE, SINGLE_BUCKET_COUNTED.to_owned()),
            batch: Script::new(&library, TOGETHER, together),
            library,
            made: Mutex::default(),
            register,
            restore,
            held,
            used,
            is_seen,
            root,
            roots,
            define,
            defined,
            definition,
            page,
            events,
        }
    }

    /// The straight way of takes, or of leases, too.
    pub(crate) fn straight(&self, needs: Needs, has_leases: bool, counts: bool) -> Script {
        Script::new(&self.library, SHORT, needs.straight(has_leases, counts))
    }

    pub(crate) fn get(&self, needs: Needs) -> Arc<Script> {
        let mut made = self.made.lock();
        let script = made.entry(needs).or_insert_with(|| {
            let script = Script::new(&self.library, DECIDE, needs.source());
            Arc::new(script)
        });
        Arc::clone(script)
    }
}
