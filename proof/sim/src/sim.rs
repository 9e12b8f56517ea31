//! The provider itself: a state, to which calls and time are given. It reads no clock and does no
//! I/O; what it draws depends on its seed and on the number of the call alone.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::Timestamp;

use crate::account::{Account, Share};
use crate::answer::Answer;
use crate::call::{Call, Shape};
use crate::headers::{self, Header};
use crate::ledger::Entry;
use crate::limit::{Limit, Standing, Unit};
use crate::refusal::{Refusal, Why};
use crate::settings::{Charging, Pace, Settings};

/// A provider knows so many accounts; the credential of a further one is refused.
pub const MOST_ACCOUNTS: usize = 4_096;

/// What a call is answered.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// It is admitted. Whoever writes the answer says what was [produced](Sim::produced) and how it
    /// [ended](Sim::end).
    Answer(Answer, Vec<Header>),
    /// It is refused, or failed.
    Refusal(Refusal),
}

/// How an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Written to its end.
    Whole,
    /// Broken off by the provider.
    Broken,
    /// Its client went away.
    Cut,
}

/// Sees a decision: when, of which call, and what.
type See = dyn FnMut(Timestamp, &Call, &Reply) + Send;

/// Who sees each decision as it is made.
struct Witness(Box<See>);

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// A provider.
#[derive(Debug)]
pub struct Sim {
    witness: Option<Witness>,
    settings: Settings,
    seed: u64,
    began: Timestamp,
    calls: u64,
    accounts: BTreeMap<String, Account>,
    open: HashMap<u64, Open>,
}

/// An admitted call that is under way.
#[derive(Debug)]
struct Open {
    account: String,
    bound: Option<u64>,
    produced: u64,
}

impl Sim {
    /// A provider that begins now.
    #[must_use]
    pub fn new(settings: Settings, seed: u64, now: Timestamp) -> Self {
        Self {
            witness: None,
            settings,
            seed,
            began: now,
            calls: 0,
            accounts: BTreeMap::new(),
            open: HashMap::new(),
        }
    }

    /// Each decision is shown to `witness` as it is made: when, of which call, and what.
    #[must_use]
    pub fn seen_by(
        mut self,
        witness: impl FnMut(Timestamp, &Call, &Reply) + Send + 'static,
    ) -> Self {
        self.witness = Some(Witness(Box::new(witness)));
        self
    }

    /// When it began.
    #[must_use]
    pub const fn began(&self) -> Timestamp {
        self.began
    }

    /// What it is like.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What each account has really done.
    pub fn ledger(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.accounts
            .iter()
            .map(|(name, account)| (&**name, &account.entry))
    }

    /// Where the limits of an account stand in truth, whatever headers say.
    pub fn standings(&mut self, now: Timestamp, account: &str) -> Vec<Standing> {
        self.at(now, account)
            .map_or_else(Vec::new, |account| account.standings(now))
    }

    /// Decides a call.
    pub fn ask(&mut self, now: Timestamp, name: &str, call: &Call) -> Reply {
        let id = self.calls;
        self.calls += 1;
        let reply = match self.decide(now, name, call, id) {
            Ok(answer) => {
                let headers = self.headers(now, name, id);
                Reply::Answer(answer, headers)
            }
            Err(why) => Reply::Refusal(self.refuse(now, name, call.shape, id, &why)),
        };
        if let Some(Witness(witness)) = &mut self.witness {
            witness(now, call, &reply);
        }
        reply
    }

    /// A call that makes no sense.
    pub fn bad(
        &mut self,
        now: Timestamp,
        name: &str,
        shape: Shape,
        status: u16,
        message: String,
    ) -> Refusal {
        let id = self.calls;
        self.calls += 1;
        if let Some(account) = self.at(now, name) {
            account.entry.calls += 1;
        }
        self.refuse(now, name, shape, id, &Why::Bad(status, message))
    }

    /// So many more tokens of an answer have come.
    pub fn produced(&mut self, now: Timestamp, id: u64, tokens: u64) {
        let charging = self.settings.charging;
        let price = self.settings.price.1;
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        open.produced += tokens;
        let as_it_comes = charging == Charging::Used || open.bound.is_none();
        let Some(account) = self.accounts.get_mut(&open.account) else {
            return;
        };
        account.entry.output_tokens += tokens;
        account.entry.spent += u128::from(tokens) * u128::from(price);
        if as_it_comes {
            account.charge(now, |unit| match unit {
                Unit::Tokens | Unit::Output => tokens,
                Unit::Requests | Unit::Input => 0,
            });
        }
    }

    /// An answer has ended.
    pub fn end(&mut self, now: Timestamp, id: u64, end: End) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let Some(account) = self.accounts.get_mut(&open.account) else {
            return;
        };
        account.entry.open -= 1;
        match end {
            End::Whole => account.entry.whole += 1,
            End::Broken => account.entry.broken += 1,
            End::Cut => account.entry.cut_by_client += 1,
        }
        if let (Charging::Settled, Some(bound)) = (self.settings.charging, open.bound) {
            let unused = bound.saturating_sub(open.produced);
            account.refund(now, |unit| match unit {
                Unit::Tokens | Unit::Output => unused,
                Unit::Requests | Unit::Input => 0,
            });
        }
    }

    fn decide(&mut self, now: Timestamp, name: &str, call: &Call, id: u64) -> Result<Answer, Why> {
        let mut draws = self.draws(id, 0);
        let Settings {
            faults,
            charging,
            counts_refused,
            spend_cap,
            price,
            most_at_once,
            ..
        } = self.settings.clone();
        let is_full = most_at_once > 0 && self.open.len() as u64 >= most_at_once;
        let Some(account) = self.at(now, name) else {
            return Err(Why::Bad(401, "there are too many accounts".to_owned()));
        };
        account.entry.calls += 1;
        if let Some(status) = call.wish.status {
            return Err(Why::Failed(status));
        }
        if draws.random_bool(faults.fail) {
            return Err(Why::Failed(500));
        }
        if draws.random_bool(faults.overloaded) || is_full {
            return Err(Why::Overloaded);
        }
        if spend_cap.is_some_and(|cap| account.entry.spent >= u128::from(cap) * 1_000_000) {
            return Err(Why::Spent);
        }
        let taken = account.take(now, |unit| share(charging, unit, call));
        if let Err(bound) = taken {
            if counts_refused {
                account.charge(now, |unit| u64::from(unit == Unit::Requests));
            }
            return Err(Why::Limit(bound));
        }
        account.entry.admitted += 1;
        account.entry.open += 1;
        account.entry.input_tokens += call.prompt;
        account.entry.spent += u128::from(call.prompt) * u128::from(price.0);
        let open = Open {
            account: name.to_owned(),
            bound: call.bound,
            produced: 0,
        };
        self.open.insert(id, open);
        Ok(self.answer(now, call, id, &mut draws))
    }

    /// Draws how an admitted call is answered.
    fn answer(&self, now: Timestamp, call: &Call, id: u64, draws: &mut StdRng) -> Answer {
        let settings = &self.settings;
        let drawn = draws.random_range(settings.output.clone());
        let wanted = match &call.tool {
            _ if call.shape == Shape::Embeddings => 0,
            Some(tool) => Answer::pieces_of_tool(tool),
            None => call.wish.output.unwrap_or(drawn),
        };
        let tokens = call.bound.map_or(wanted, |bound| wanted.min(bound));
        let slow = if draws.random_bool(settings.faults.slow) {
            10
        } else {
            1
        };
        let (slots, pace) = self.serving(now);
        let mut pace = pace.times(slow);
        if slots > 0 {
            pace = pace.shared(self.open.len() as u64, slots);
        }
        if settings.jitter > 0.0 {
            let mut draws = self.draws(id, 3);
            let jitter = settings.jitter.min(1.0);
            pace = pace.stretched(draws.random_range(1.0 - jitter..=1.0 + jitter));
        }
        pace.first = call.wish.first.unwrap_or(pace.first);
        pace.gap = call.wish.gap.unwrap_or(pace.gap);
        // Each is drawn, so that a fault more changes no other draw.
        let breaks = settings
            .faults
            .breaks()
            .map(|(share, how)| (draws.random_bool(share), how));
        let drawn = breaks.iter().find(|(breaks, _)| *breaks);
        let drawn = drawn.map(|(_, how)| (draws.random_range(0..=tokens), *how));
        Answer {
            id,
            created: now,
            shape: call.shape,
            model: call.model.clone(),
            prompt: call.prompt,
            tokens,
            is_bounded: tokens < wanted,
            tool: call.tool.clone(),
            inputs: call.inputs,
            stream: call.stream,
            stream_usage: call.stream_usage,
            pace,
            broken: call
                .wish
                .broken
                .or(drawn)
                .filter(|(after, _)| *after <= tokens),
        }
    }

    /// How many answers at once come at which pace now.
    fn serving(&self, now: Timestamp) -> (u64, Pace) {
        let passed = now.since(self.began);
        let settings = &self.settings;
        let mut begun = settings.serving.iter().rev();
        let now = begun.find(|serving| serving.after <= passed);
        now.map_or((settings.slots, settings.pace), |now| (now.slots, now.pace))
    }

    fn refuse(&mut self, now: Timestamp, name: &str, shape: Shape, id: u64, why: &Why) -> Refusal {
        let told = self
            .draws(id, 2)
            .random_bool(self.settings.headers.retry_after);
        let dialect = self.settings.dialect;
        let mut refusal = Refusal::new(dialect, shape, why, told);
        refusal.headers.extend(self.headers(now, name, id));
        if let Some(account) = self.at(now, name) {
            let entry = &mut account.entry;
            match why {
                Why::Limit(bound) if bound.standing.limit.is_daily() => entry.refused_quota += 1,
                Why::Limit(_) => entry.refused_rate += 1,
                Why::Spent => entry.refused_spend += 1,
                Why::Failed(_) | Why::Overloaded => entry.failed += 1,
                Why::Bad(..) => entry.bad += 1,
            }
        }
        refusal
    }

    /// The rate-limit headers of an answer.
    fn headers(&mut self, now: Timestamp, name: &str, id: u64) -> Vec<Header> {
        let present = self.draws(id, 1).random_bool(self.settings.headers.present);
        let (dialect, how) = (self.settings.dialect, self.settings.headers);
        let Some(account) = self.at(now, name) else {
            return Vec::new();
        };
        let standings = account.told(now, how.lag);
        match present {
            true => headers::tell(dialect, &standings, now, how.rounding),
            false => Vec::new(),
        }
    }

    /// What is drawn for a call, for one purpose.
    fn draws(&self, id: u64, purpose: u64) -> StdRng {
        let mut seed = [0; 32];
        for (bytes, part) in seed.chunks_exact_mut(8).zip([self.seed, id, purpose]) {
            bytes.copy_from_slice(&part.to_le_bytes());
        }
        StdRng::from_seed(seed)
    }

    /// An account, with the capacities of now; `None` if there are too many.
    fn at(&mut self, now: Timestamp, name: &str) -> Option<&mut Account> {
        let limits = self.limits(now);
        if !self.accounts.contains_key(name) {
            if self.accounts.len() >= MOST_ACCOUNTS {
                return None;
            }
            let mut account = Account::new(&self.settings.limits);
            account.told(now, self.settings.headers.lag);
            self.accounts.insert(name.to_owned(), account);
        }
        let account = self.accounts.get_mut(name)?;
        account.change(now, &limits);
        Some(account)
    }

    /// The limits with the capacities that they have now.
    fn limits(&self, now: Timestamp) -> Vec<Limit> {
        let passed = now.since(self.began);
        let mut limits = self.settings.limits.clone();
        for change in self
            .settings
            .changes
            .iter()
            .filter(|change| change.after <= passed)
        {
            let to = change.limit;
            let is_meant = |limit: &&mut Limit| limit.unit == to.unit && limit.period == to.period;
            limits
                .iter_mut()
                .filter(is_meant)
                .for_each(|limit| limit.capacity = to.capacity);
        }
        limits
    }
}

/// What a call takes of a limit when it comes.
fn share(charging: Charging, unit: Unit, call: &Call) -> Share {
    let bound = match charging {
        Charging::Used => 0,
        _ => call.bound.unwrap_or(0),
    };
    let takes = match (unit, charging) {
        (Unit::Requests, _) => 1,
        (Unit::Input, _) => call.prompt,
        (Unit::Output, _) => bound,
        (Unit::Tokens, Charging::Larger) => call.prompt.max(bound),
        (Unit::Tokens, _) => call.prompt.saturating_add(bound),
    };
    // What is charged as it comes is let in while anything is left.
    let least = u64::from(call.shape != Shape::Embeddings);
    Share {
        needs: takes.max(least),
        takes,
    }
}
