//! How much a token counts. Quotas of some providers count tokens of the answer several times, and
//! those out of a cache in part or not at all.

use tidegate_core::{Amount, MAX_AMOUNT};

use crate::by_model::ByModel;
use crate::usage::Usage;

/// What one token counts that has no weight, in millionths of a token.
pub const ONE: Amount = 1_000_000;

/// The most that one token can count: a thousand.
pub const MOST: Amount = 1_000 * ONE;

/// What one token of each kind counts, in millionths of a token; `None`: as the provider counts it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Weight {
    /// Of the prompt; else 1.
    pub input: Option<Amount>,
    /// Of the prompt, out of a cache; else as the prompt, or nothing where the provider counts
    /// nothing of it.
    pub cache_read: Option<Amount>,
    /// Of the prompt, written into a cache; else as the prompt.
    pub cache_write: Option<Amount>,
    /// Of the answer, reasoning included; else 1.
    pub output: Option<Amount>,
}

/// Weights by model.
pub type Weights = ByModel<Weight>;

/// Which tokens of a call are weighed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Prompt,
    Answer,
    Both,
}

impl Weight {
    /// How many tokens that part of a use counts as, rounded up once; `cached_is_free` if the provider
    /// counts nothing of what comes out of a cache.
    pub(crate) fn of(&self, usage: &Usage, part: Part, cached_is_free: bool) -> Amount {
        let weighed = match part {
            Part::Prompt => self.prompt(usage, cached_is_free),
            Part::Answer => self.answer(usage),
            Part::Both => self.prompt(usage, cached_is_free) + self.answer(usage),
        };
        let tokens = weighed.div_ceil(u128::from(ONE));
        Amount::try_from(tokens).map_or(MAX_AMOUNT, |tokens| tokens.min(MAX_AMOUNT))
    }

    /// Millionths of a token.
    fn prompt(&self, usage: &Usage, cached_is_free: bool) -> u128 {
        let input = self.input.unwrap_or(ONE);
        let cached = if cached_is_free { 0 } else { input };
        weigh(usage.input, input)
            + weigh(usage.cache_read, self.cache_read.unwrap_or(cached))
            + weigh(usage.cache_write, self.cache_write.unwrap_or(input))
    }

    fn answer(&self, usage: &Usage) -> u128 {
        weigh(usage.output, self.output.unwrap_or(ONE))
    }
}

fn weigh(tokens: Option<Amount>, weight: Amount) -> u128 {
    u128::from(tokens.unwrap_or(0)) * u128::from(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        input: Some(1_000),
        cache_read: Some(2_000),
        cache_write: Some(300),
        output: Some(41),
        reasoning: Some(20),
    };

    #[test]
    fn without_a_weight_a_token_is_a_token() {
        let of = |part, free| Weight::default().of(&USAGE, part, free);
        assert_eq!(of(Part::Both, false), USAGE.total());
        assert_eq!(of(Part::Prompt, false), 3_300);
        assert_eq!(of(Part::Prompt, true), 1_300);
        assert_eq!(of(Part::Answer, true), 41);
    }

    #[test]
    fn each_kind_of_token_counts_by_its_weight_and_the_sum_is_rounded_up_once() {
        let weight = Weight {
            cache_read: Some(100_000),
            cache_write: Some(1_250_000),
            output: Some(5 * ONE),
            ..Weight::default()
        };
        assert_eq!(
            weight.of(&USAGE, Part::Both, false),
            1_000 + 200 + 375 + 205
        );
        // What is written goes before what the provider counts.
        assert_eq!(weight.of(&USAGE, Part::Prompt, true), 1_575);
        let fine = Usage {
            cache_read: Some(1),
            cache_write: Some(1),
            ..Usage::default()
        };
        assert_eq!(weight.of(&fine, Part::Both, false), 2, "1.35");
    }

    #[test]
    fn what_is_of_a_cache_weighs_as_the_prompt_does() {
        let weight = Weight {
            input: Some(ONE / 2),
            ..Weight::default()
        };
        assert_eq!(weight.of(&USAGE, Part::Prompt, false), 1_650);
        assert_eq!(weight.of(&USAGE, Part::Prompt, true), 650);
    }

    #[test]
    fn the_largest_use_at_the_largest_weight_is_the_largest_amount() {
        let all = Some(MAX_AMOUNT);
        let usage = Usage {
            input: all,
            cache_read: all,
            cache_write: all,
            output: all,
            reasoning: None,
        };
        let weight = Weight {
            input: Some(MOST),
            output: Some(MOST),
            ..Weight::default()
        };
        assert_eq!(weight.of(&usage, Part::Both, false), MAX_AMOUNT);
    }
}
