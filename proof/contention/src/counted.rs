//! What several sets have used, which is counted: one process of many uses them, another tells what
//! came of it. Of each set every way of the stores is taken: a single bucket, buckets and slots,
//! a window beside them, limits that give back what expires, and two levels.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Admission, Algorithm, Amount, Limit, LimitSet, OnFailure, PageOf, Request, Select, Store,
    Timestamp,
};

use crate::common::Trouble;

/// The limit that every set has: more than a test uses, and so slow that none comes back meanwhile.
const UNITS: (&str, Amount) = ("units", 50_000);
const CALLS: (&str, Amount) = ("calls", 1_000_000_000);
const SLOTS: (&str, Amount) = ("slots", 3);
const DAY: Duration = Duration::from_secs(86_400);
/// Behind every hour that a test sees.
const END: i64 = 4_102_444_800_000_000;
/// So often it is looked whether slots are back, for a minute at least.
const MOST_LOOKS: u32 = 3_000;
/// The longest that a killed process keeps something.
const TTL: Duration = Duration::from_millis(200);

/// Uses what is counted until it is killed, and says so: `asks SET MOST` before, `used SET UNITS` after
#[derive(Debug, clap::Args)]
pub struct Use {
    /// The store that they all ask
    #[arg(long)]
    store: String,
    /// Another for each process
    #[arg(long)]
    seed: u64,
}

/// Says `told SET LIMIT TAKEN COUNTED`, by the limits and by what is counted, once nothing is held
#[derive(Debug, clap::Args)]
pub struct Tell {
    /// The store that they all asked
    #[arg(long)]
    store: String,
}

/// A set of which usage is counted.
struct Counted {
    name: &'static str,
    key: &'static str,
    set: LimitSet,
    has_slots: bool,
    gives_back: bool,
}

fn counted(url: &str) -> Result<Vec<Counted>, Trouble> {
    let store: Arc<dyn Store> = tidegate_url::open(url)?.store;
    let units = || Limit::rate(UNITS.0, 1, DAY).burst(UNITS.1);
    let calls = || Limit::calls(CALLS.0, CALLS.1, 400 * DAY).algorithm(Algorithm::FixedWindow);
    let slots = || Limit::concurrency(SLOTS.0, SLOTS.1);
    let back = |limit: Limit| limit.on_failure(OnFailure::Refund);
    let sets = [
        ("bucket", vec![units()]),
        ("buckets", vec![units(), slots()]),
        ("windows", vec![units(), calls(), slots()]),
        ("refunds", vec![back(units()), back(calls()), slots()]),
        (
            "levels",
            vec![units().at_level("user"), calls().at_level("org")],
        ),
    ];
    let made = sets.into_iter().map(|(name, limits)| {
        let is_deep = name == "levels";
        let mut builder = LimitSet::builder().name(name).limits(limits);
        if is_deep {
            builder = builder.levels(["org", "user"]);
        }
        let builder = builder.keep_usage(30 * DAY).store(Arc::clone(&store));
        Ok(Counted {
            name,
            key: if is_deep { "o/u" } else { "k" },
            set: builder.build()?,
            has_slots: ["buckets", "windows", "refunds"].contains(&name),
            gives_back: name == "refunds",
        })
    });
    made.collect()
}

#[expect(clippy::disallowed_methods, reason = "other processes go on meanwhile")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

impl Use {
    pub fn run(&self) -> Result<(), Trouble> {
        let sets = counted(&self.store)?;
        let mut dice = fastrand::Rng::with_seed(self.seed);
        let say = |word: &str, name: &str, units: Amount| {
            std::io::stdout().write_all(format!("{word} {name} {units}\n").as_bytes())
        };
        loop {
            let one = &sets[dice.usize(..sets.len())];
            let amount = dice.u64(1..5);
            say("asks", one.name, amount + 3)?;
            let used = one.use_some(amount, &mut dice)?;
            say("used", one.name, used)?;
            // So that a test of some seconds does not use up what there is.
            pause(Duration::from_millis(1));
        }
    }
}

impl Counted {
    /// Uses some, in one of many ways: how many units that came to.
    fn use_some(&self, amount: Amount, dice: &mut fastrand::Rng) -> Result<Amount, Trouble> {
        let (set, key) = (&self.set, self.key);
        let named = [(UNITS.0, amount)];
        let way = dice.u8(..10);
        if way == 0 {
            set.debit(key, &named).wait()?;
            return Ok(amount);
        }
        if way <= 2 && !self.has_slots {
            let decision = set.check(key, &named).wait()?;
            return Ok(if decision.admitted() { amount } else { 0 });
        }
        let request = Request::from(&named).ttl(TTL);
        let Admission::Granted(mut lease) = set.try_acquire(key, request).wait()? else {
            return Ok(0);
        };
        let more = dice.u64(..4);
        match way {
            1 | 2 => lease.settle(&[(UNITS.0, amount - 1)]).wait()?,
            3 => lease.settle(&[(UNITS.0, amount + more)]).wait()?,
            4 => lease.cancel().wait()?,
            5 => {
                // Delivered twice, as by a queue that is not sure.
                let id = lease.detach();
                let used = [(UNITS.0, amount + more)];
                set.settle(key, id, &used).wait()?;
                set.settle(key, id, &used).wait()?
            }
            6 => {
                let to = [(UNITS.0, amount + more)];
                let is_live = !lease.is_expired();
                if !is_live || lease.overdraw(&to).wait().is_err() {
                    // On a busy machine it has expired: nothing was changed.
                    lease.detach();
                    return Ok(if self.gives_back { 0 } else { amount });
                }
                lease.release().wait()?
            }
            7 => {
                lease.detach();
                return Ok(if self.gives_back { 0 } else { amount });
            }
            8 => {
                // Later than it has expired.
                let id = lease.detach();
                pause(TTL);
                set.settle(key, id, &[(UNITS.0, amount + more)]).wait()?
            }
            _ => lease.release().wait()?,
        }
        .usage(UNITS.0)
        .map(|usage| usage.used)
        .ok_or_else(|| "no usage".into())
    }
}

impl Tell {
    pub fn run(&self) -> Result<(), Trouble> {
        for one in counted(&self.store)? {
            let mut looks = 0;
            while one.has_slots && one.standing(SLOTS.0)? < SLOTS.1 {
                looks += 1;
                if looks > MOST_LOOKS {
                    return Err("slots of killed processes did not come back".into());
                }
                pause(TTL / 10);
            }
            // Where there are no slots to go by.
            pause(TTL);
            // What is due is dealt with as something is asked.
            one.set.debit(one.key, &[(UNITS.0, 1)]).wait()?;
            println!("used {} 1", one.name);
            for (limit, capacity) in [UNITS, CALLS] {
                if one.set.limit(limit).is_err() {
                    continue;
                }
                let taken = capacity - one.standing(limit)?;
                println!("told {} {limit} {taken} {}", one.name, one.used(limit)?);
            }
        }
        Ok(())
    }
}

impl Counted {
    /// What is left of a limit.
    fn standing(&self, limit: &str) -> Result<Amount, Trouble> {
        let peeked = self.set.peek(self.key, &[(UNITS.0, 1)]).wait()?;
        peeked.remaining(limit).ok_or_else(|| "no standing".into())
    }

    /// What was used of a limit, by what is counted.
    fn used(&self, limit: &str) -> Result<Amount, Trouble> {
        let (from, to) = (Timestamp::from_micros(0), Timestamp::from_micros(END));
        let (mut used, mut after) = (0, None::<Vec<u8>>);
        loop {
            let page = PageOf {
                select: Select::All,
                after: after.as_deref(),
                most: 100,
            };
            let page = self.set.list_usage(page, from, to).wait()?;
            let its = page.items.iter().filter(|item| item.limit == limit);
            used += its.map(|item| item.amount).sum::<Amount>();
            after = page.next;
            if after.is_none() {
                return Ok(used);
            }
        }
    }
}
