//! How many tokens a call will have, learnt from those before.
//!
//! What is reserved too small is a debt afterwards; what is reserved too large keeps others out.
//! The answer's length is taken from a histogram of earlier ones of the same model and key, at a
//! quantile that the caller states: among calls that are alike, a share of at most `1 - quantile`
//! has a longer answer than was reserved. (With `n` answers seen, the one of rank
//! `ceil(quantile * (n + 1))` is exceeded by the next with at most that chance, if their order
//! says nothing; a bucket's upper end stands for those within, at most a quarter above.)

use std::collections::HashMap;

use tidegate_core::{Amount, MAX_AMOUNT};

use crate::provider::Provider;
use crate::request::Request;
use crate::usage::Usage;

/// What is reserved for an answer of which nothing is known.
pub const FIRST_ANSWER: Amount = 512;

/// How many pairs of model and key are remembered; who has not called for the longest time is
/// forgotten first.
pub const MOST_REMEMBERED: usize = 8_192;

/// After so many answers the older half of the weight is dropped.
const WEIGHT: u32 = 1_024;

/// Four to each power of two.
const BUCKETS: usize = 4 * 54;

/// Learns; by model and key.
#[derive(Debug)]
pub struct Estimator {
    /// In thousandths.
    quantile: u32,
    young: HashMap<Vec<u8>, History>,
    old: HashMap<Vec<u8>, History>,
}

/// What was reserved for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// For the prompt.
    pub input: Amount,
    /// For the answer.
    pub output: Amount,
}

impl Reserved {
    /// One at least of each kind that the call may use: what it takes nothing of is not charged at
    /// its end either.
    #[must_use]
    pub fn at_least_one(self, is_prompt_alone: bool) -> Self {
        Self {
            input: self.input.max(1),
            output: self.output.max(u64::from(!is_prompt_alone)),
        }
    }

    /// What to take of a limit that grants `at_most` at once and counts `amount` of a use. An
    /// estimate locks nobody out of a small limit: of one that holds less, all of it is taken,
    /// unless the prompt alone is more than it ever grants.
    #[must_use]
    pub fn within(self, at_most: Amount, amount: impl Fn(&Usage) -> Amount) -> Amount {
        let prompt = amount(&self.with_answer(0));
        amount(&self.with_answer(self.output))
            .min(at_most)
            .max(prompt)
    }

    /// How many tokens of the answer are paid for by `taken` of a limit that counts `amount` of a use,
    /// which is no less of a longer answer: at most those that were estimated.
    #[must_use]
    pub fn covered(self, taken: Amount, amount: impl Fn(&Usage) -> Amount) -> Amount {
        let covers = |output| amount(&self.with_answer(output)) <= taken;
        if covers(self.output) {
            return self.output;
        }
        let (mut most, mut beyond) = (0, self.output);
        while most + 1 < beyond {
            let middle = most.midpoint(beyond);
            match covers(middle) {
                true => most = middle,
                false => beyond = middle,
            }
        }
        most
    }

    fn with_answer(self, output: Amount) -> Usage {
        Usage {
            input: Some(self.input),
            output: Some(output),
            ..Usage::default()
        }
    }
}

#[derive(Clone, Debug)]
struct History {
    answers: Box<[u16; BUCKETS]>,
    seen: u32,
    /// What prompts had, and what they were measured as.
    had: u64,
    measured: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            answers: Box::new([0; BUCKETS]),
            seen: 0,
            had: 0,
            measured: 0,
        }
    }
}

impl Estimator {
    /// That reserves too little for at most one call in `1000 / (1000 - quantile)`: 950 of 1,000
    /// is usual, at most 999 counts.
    #[must_use]
    pub fn new(thousandths: u32) -> Self {
        Self {
            quantile: thousandths.min(999),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// What to reserve for a call. Where the provider charges the bound that a call names, that;
    /// where it does not, the learnt length, which no bound exceeds.
    #[must_use]
    pub fn reserve(
        &self,
        provider: Provider,
        model: &str,
        key: &str,
        request: &Request,
    ) -> Reserved {
        let history = self.history(model, key);
        let bound = request.output_bound();
        let learnt = || {
            let one = history.map_or(FIRST_ANSWER, |history| history.answer(self.quantile));
            one.saturating_mul(request.answers).min(MAX_AMOUNT)
        };
        Reserved {
            input: history.map_or(request.prompt, |history| history.prompt(request.prompt)),
            output: match bound {
                Some(bound) if provider.charges_bound() => bound,
                Some(bound) => learnt().min(bound),
                None => learnt(),
            },
        }
    }

    /// Learns what a call has used.
    pub fn learn(&mut self, model: &str, key: &str, request: &Request, usage: &Usage) {
        let pair = pair(model, key);
        if let Some(history) = self.young.get_mut(&pair) {
            return history.learn(request, usage);
        }
        if self.young.len() >= MOST_REMEMBERED / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        let mut history = self.old.remove(&pair).unwrap_or_default();
        history.learn(request, usage);
        self.young.insert(pair, history);
    }

    fn history(&self, model: &str, key: &str) -> Option<&History> {
        let pair = pair(model, key);
        self.young.get(&pair).or_else(|| self.old.get(&pair))
    }
}

/// What a model and a key are remembered by: how long the first is keeps pairs apart.
fn pair(model: &str, key: &str) -> Vec<u8> {
    let length = model.len().to_be_bytes();
    [&length[..], model.as_bytes(), key.as_bytes()].concat()
}

impl History {
    fn learn(&mut self, request: &Request, usage: &Usage) {
        if let Some(output) = usage.output {
            let one = output.div_ceil(request.answers.max(1));
            self.answers[bucket(one)] += 1;
            self.seen += 1;
            if self.seen >= WEIGHT {
                self.halve();
            }
        }
        let (had, measured) = (usage.prompt(), request.prompt);
        // Beyond that it says nothing of texts: a file, a prompt kept by the provider.
        let alike = measured.saturating_mul(8) >= had && had.saturating_mul(8) >= measured;
        if had > 0 && measured > 0 && alike {
            self.had = self.had.saturating_add(had);
            self.measured = self.measured.saturating_add(measured);
            if self.measured > 1 << 24 {
                (self.had, self.measured) = (self.had / 2, self.measured / 2);
            }
        }
    }

    fn halve(&mut self) {
        for count in self.answers.iter_mut() {
            *count = count.div_ceil(2);
        }
        self.seen = self.answers.iter().map(|count| u32::from(*count)).sum();
    }

    /// The answer's length at the quantile; of few answers, twice the longest.
    fn answer(&self, quantile: u32) -> Amount {
        let rank = (u64::from(self.seen) + 1) * u64::from(quantile);
        let rank = rank.div_ceil(1_000);
        let mut below = 0;
        let mut longest = None;
        for (at, count) in self.answers.iter().enumerate() {
            below += u64::from(*count);
            if *count > 0 {
                longest = Some(upper_end(at));
                if below >= rank {
                    return upper_end(at);
                }
            }
        }
        longest.map_or(FIRST_ANSWER, |longest| {
            longest.saturating_mul(2).clamp(FIRST_ANSWER, MAX_AMOUNT)
        })
    }

    /// A prompt's length, by how others were measured.
    fn prompt(&self, measured: Amount) -> Amount {
        if self.measured == 0 {
            return measured;
        }
        let scaled = u128::from(measured) * u128::from(self.had);
        let scaled = scaled.div_ceil(u128::from(self.measured));
        Amount::try_from(scaled)
            .unwrap_or(MAX_AMOUNT)
            .min(MAX_AMOUNT)
    }
}

/// Which bucket has an amount: its highest bit, and the two below.
const fn bucket(amount: Amount) -> usize {
    let amount = if amount > MAX_AMOUNT {
        MAX_AMOUNT
    } else {
        amount
    };
    if amount < 4 {
        return amount as usize;
    }
    let high = amount.ilog2() as usize;
    let next = (amount >> (high - 2)) as usize & 3;
    4 * (high - 1) + next
}

/// The largest amount of a bucket.
const fn upper_end(bucket: usize) -> Amount {
    if bucket < 4 {
        return bucket as Amount;
    }
    let (high, next) = (bucket / 4 + 1, bucket % 4);
    let width = 1 << (high - 2);
    (4 + next as Amount) * width + width - 1
}

impl Provider {
    /// Whether the bound on an answer that a call names counts against the provider's own limits
    /// when it starts: as OpenAI, Azure and Bedrock say of theirs.
    #[must_use]
    pub const fn charges_bound(self) -> bool {
        matches!(
            self,
            Self::OpenAi | Self::AzureOpenAi | Self::Bedrock | Self::Generic
        )
    }

    /// What the provider's own limits count of a call that has used that: where they count the
    /// bound of all its answers when it begins, nothing of it comes back at its end. Never less than
    /// was used.
    #[must_use]
    pub fn counts(self, usage: &Usage, bound: Option<Amount>) -> Usage {
        let Some(bound) = bound else {
            return *usage;
        };
        let output = match self {
            // The larger of prompt and bound.
            Self::OpenAi => bound.saturating_sub(usage.prompt()),
            Self::AzureOpenAi => bound,
            _ => return *usage,
        };
        Usage {
            output: Some(output.max(usage.output.unwrap_or(0))),
            ..*usage
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::Price;
    use proptest::prelude::*;

    fn call(prompt: Amount, max_output: Option<Amount>) -> Request {
        Request {
            prompt,
            max_output,
            answers: 1,
            ..Request::default()
        }
    }

    fn used(input: Amount, output: Amount) -> Usage {
        Usage {
            input: Some(input),
            output: Some(output),
            ..Usage::default()
        }
    }

    proptest! {
        #[test]
        fn an_amount_is_in_its_bucket_and_at_most_a_quarter_below_its_end(amount in 0..=MAX_AMOUNT) {
            let end = upper_end(bucket(amount));
            prop_assert!(amount <= end && end - amount <= amount / 4);
            prop_assert!(bucket(amount) < BUCKETS);
        }

        /// What is taken of a limit pays for as much of the answer as it says, and for no more.
        #[test]
        fn what_is_taken_covers_what_it_pays_for(
            (input, output) in (0..2_000_u64, 0..5_000_u64),
            at_most in 0..10_000_u64,
            price in 0..3_000_000_u64,
        ) {
            let price = Price { input: 500_000, output: price, ..Price::default() };
            let (reserved, amount) = (Reserved { input, output }, |usage: &Usage| price.of(usage));
            let taken = reserved.within(at_most, amount);
            let covered = reserved.covered(taken, amount);
            prop_assert!(covered <= output);
            prop_assert!(amount(&used(input, covered)) <= taken);
            prop_assert!(covered == output || amount(&used(input, covered + 1)) > taken);
        }

        /// Of calls that are alike at most a twentieth has a longer answer than was reserved.
        #[test]
        fn too_little_is_reserved_no_more_often_than_stated(
            answers in prop::collection::vec(1u64..100_000, 2_000),
        ) {
            let mut estimator = Estimator::new(950);
            let request = call(100, None);
            let mut short = 0;
            for answer in answers {
                let reserved = estimator.reserve(Provider::Anthropic, "m", "k", &request);
                short += u32::from(reserved.output < answer);
                estimator.learn("m", "k", &request, &used(100, answer));
            }
            // 100 are expected; 5 standard deviations of 9.7 above.
            prop_assert!(short <= 150, "{short} of 2,000");
        }
    }

    #[test]
    fn a_bound_is_reserved_where_the_provider_charges_it() {
        let estimator = Estimator::new(950);
        let reserve = |provider, bound| estimator.reserve(provider, "m", "k", &call(7, bound));
        assert_eq!(reserve(Provider::OpenAi, Some(4_096)).output, 4_096);
        assert_eq!(reserve(Provider::OpenAi, None).output, FIRST_ANSWER);
        assert_eq!(
            reserve(Provider::Anthropic, Some(4_096)).output,
            FIRST_ANSWER
        );
        assert_eq!(
            reserve(Provider::Anthropic, Some(64)),
            Reserved {
                input: 7,
                output: 64
            }
        );
    }

    #[test]
    fn a_bound_stays_counted_where_the_provider_counts_it_when_the_call_begins() {
        let counted = |provider: Provider, bound| provider.counts(&used(30, 5), bound).total();
        assert_eq!(counted(Provider::OpenAi, Some(100)), 100);
        assert_eq!(counted(Provider::OpenAi, Some(20)), 35, "what was used");
        assert_eq!(counted(Provider::AzureOpenAi, Some(100)), 130);
        assert_eq!(counted(Provider::Anthropic, Some(100)), 35);
        assert_eq!(counted(Provider::Bedrock, Some(100)), 35);
        assert_eq!(counted(Provider::OpenAi, None), 35);
        let more = |provider: Provider| provider.counts(&used(10, 3_200), Some(1_000)).total();
        assert_eq!(more(Provider::OpenAi), 3_210);
        assert_eq!(more(Provider::AzureOpenAi), 3_210);
    }

    #[test]
    fn a_prompt_is_measured_as_those_before_turned_out() {
        let mut estimator = Estimator::new(950);
        estimator.learn("m", "k", &call(100, None), &used(150, 10));
        // A picture's bytes say nothing of a text's.
        estimator.learn("m", "k", &call(100, None), &used(9_000, 10));
        let reserved = estimator.reserve(Provider::Gemini, "m", "k", &call(1_000, None));
        assert_eq!(reserved.input, 1_500);
        let other = estimator.reserve(Provider::Gemini, "m", "other", &call(1_000, None));
        assert_eq!(other.input, 1_000);
    }

    #[test]
    fn no_more_pairs_are_remembered_than_the_bound_and_those_in_use_are() {
        let mut estimator = Estimator::new(950);
        for number in 0..3 * MOST_REMEMBERED {
            estimator.learn("m", "in use", &call(100, None), &used(200, 10));
            estimator.learn("m", &number.to_string(), &call(100, None), &used(200, 10));
        }
        assert!(estimator.young.len() + estimator.old.len() <= MOST_REMEMBERED);
        let reserved = estimator.reserve(Provider::Gemini, "m", "in use", &call(100, None));
        assert_eq!(reserved.input, 200);
    }
}
