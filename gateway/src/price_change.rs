//! What other prices change, setting by setting.

use std::fmt;

use tidegate::Unit;
use tidegate_llm::{Price, Prices};

/// Prices are told as files have them: to a millionth.
const MILLIONTHS: Unit = Unit::decimal(6);

/// One thing that other prices change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PriceChange {
    /// The model, or the beginning of names of models and `*`.
    pub model: String,
    /// Which price of it, as files call it; nothing if the model is there or gone as a whole.
    pub setting: Option<&'static str>,
    /// What a million tokens cost before, as files say it; nothing if it was not said.
    pub was: Option<String>,
    /// What they cost from then on; nothing if it is not said.
    pub becomes: Option<String>,
    /// Whether the model had a price before.
    pub was_there: bool,
    /// Whether it has one from then on.
    pub is_there: bool,
    /// Whether the price of this model is another's to say, so that nothing changes for calls.
    pub is_hidden: bool,
}

impl PriceChange {
    /// What leads from `old` to `new`, in the order of names; prices that `hides` tells go before
    /// both.
    #[must_use]
    pub fn between(old: &Prices, new: &Prices, hides: &Prices) -> Vec<Self> {
        let gone = old.iter().filter(|(model, _)| new.get(model).is_none());
        let gone = gone.map(|(model, _)| (model, old.get(model), None));
        let others = new
            .iter()
            .map(|(model, price)| (model, old.get(model), Some(price)));
        let mut all: Vec<_> = gone.chain(others).collect();
        all.sort_by_key(|(model, ..)| *model);
        let changes = all
            .into_iter()
            .flat_map(|(model, old, new)| of(model, old, new));
        let hidden = |change: Self| Self {
            is_hidden: hides.of(&change.model).is_some(),
            ..change
        };
        changes.map(hidden).collect()
    }

    /// A sign for it, as in a diff.
    #[must_use]
    pub const fn sign(&self) -> char {
        match (self.was_there, self.is_there) {
            (false, _) => '+',
            (true, false) => '-',
            (true, true) => '~',
        }
    }
}

impl fmt::Display for PriceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} price {}", self.sign(), self.model)?;
        if let Some(setting) = self.setting {
            let said =
                |price: &Option<String>| price.clone().unwrap_or_else(|| "nothing".to_owned());
            write!(
                f,
                ": {setting} {} -> {}",
                said(&self.was),
                said(&self.becomes)
            )?;
        }
        match self.is_hidden {
            true => f.write_str(" (not in force: --price says otherwise)"),
            false => Ok(()),
        }
    }
}

/// What changes of one model.
fn of(model: &str, old: Option<Price>, new: Option<Price>) -> Vec<PriceChange> {
    let whole = PriceChange {
        model: model.to_owned(),
        setting: None,
        was: None,
        becomes: None,
        was_there: old.is_some(),
        is_there: new.is_some(),
        is_hidden: false,
    };
    let (Some(old), Some(new)) = (old, new) else {
        return vec![whole];
    };
    let pairs = settings(old).into_iter().zip(settings(new));
    let differ = pairs.filter(|((_, was), (_, becomes))| was != becomes);
    let change =
        |((setting, was), (_, becomes)): ((_, Option<u64>), (_, Option<u64>))| PriceChange {
            setting: Some(setting),
            was: was.map(written),
            becomes: becomes.map(written),
            ..whole.clone()
        };
    differ.map(change).collect()
}

/// What a price says, as files call it.
const fn settings(price: Price) -> [(&'static str, Option<u64>); 4] {
    [
        ("input", Some(price.input)),
        ("cached-input", price.cache_read),
        ("cache-write", price.cache_write),
        ("output", Some(price.output)),
    ]
}

/// As somebody would write it: `2.5`, not `2.500000`.
fn written(price: u64) -> String {
    let text = MILLIONTHS.show(price).to_string();
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(all: &[(&str, u64, Option<u64>)]) -> Prices {
        let one = |&(model, input, cache_read): &(&str, u64, Option<u64>)| {
            let price = Price {
                input,
                cache_read,
                output: 10_000_000,
                ..Price::default()
            };
            (model.to_owned(), price)
        };
        all.iter().map(one).collect()
    }

    fn told(old: &Prices, new: &Prices, hides: &Prices) -> Vec<String> {
        let changes = PriceChange::between(old, new, hides);
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_price_that_is_another_is_told_and_whether_it_is_in_force() {
        let old = prices(&[("b", 2_500_000, None), ("gone", 1, None), ("same", 7, None)]);
        let new = prices(&[
            ("a", 1, None),
            ("b", 250_000_000, Some(125_000)),
            ("same", 7, None),
        ]);
        let none = Prices::default();
        let all = [
            "+ price a",
            "~ price b: input 2.5 -> 250",
            "~ price b: cached-input nothing -> 0.125",
            "- price gone",
        ];
        assert_eq!(told(&old, &new, &none), all);
        assert_eq!(told(&new, &new, &none), Vec::<String>::new());
        let hidden = told(&old, &new, &prices(&[("b", 1, None)]));
        assert_eq!(hidden[0], "+ price a");
        assert_eq!(
            hidden[1],
            "~ price b: input 2.5 -> 250 (not in force: --price says otherwise)"
        );
    }
}
