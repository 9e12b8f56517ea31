//! What other prices and weights change, setting by setting.

use std::fmt;

use tidegate::Unit;
use tidegate_llm::{ByModel, Costs, Price, Prices, Weight};

/// They are told as files have them: to a millionth.
const MILLIONTHS: Unit = Unit::decimal(6);

/// What a file says of a model, by the names of its settings: millionths.
type Settings = [(&'static str, Option<u64>); 4];

/// One thing that other prices or weights change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CostChange {
    /// Where it stands in a file: `price` or `token-weight`.
    pub table: &'static str,
    /// The model, or the beginning of names of models and `*`.
    pub model: String,
    /// Which setting of it, as files call it; nothing if the model is there or gone as a whole.
    pub setting: Option<&'static str>,
    /// What a million tokens cost, or how many tokens one counted as before, as files say it; nothing
    /// if it was not said.
    pub was: Option<String>,
    /// What that is from then on; nothing if it is not said.
    pub becomes: Option<String>,
    /// Whether the model had a price, or a weight, before.
    pub was_there: bool,
    /// Whether it has one from then on.
    pub is_there: bool,
    /// Whether the price of this model is another's to say, so that nothing changes for calls.
    pub is_hidden: bool,
}

impl CostChange {
    /// What leads from `old` to `new`: prices, then weights, in the order of names; prices that `hides`
    /// tells go before both.
    #[must_use]
    pub fn between(old: &Costs, new: &Costs, hides: &Prices) -> Vec<Self> {
        let mut prices = changes("price", (&old.prices, &new.prices), of_price);
        for change in &mut prices {
            change.is_hidden = hides.of(&change.model).is_some();
        }
        let weights = changes("token-weight", (&old.weights, &new.weights), of_weight);
        [prices, weights].concat()
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

impl fmt::Display for CostChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.sign(), self.table, self.model)?;
        if let Some(setting) = self.setting {
            let said = |it: &Option<String>| it.clone().unwrap_or_else(|| "nothing".to_owned());
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

/// What changes of a table, in the order of names.
fn changes<T: Copy>(
    table: &'static str,
    (old, new): (&ByModel<T>, &ByModel<T>),
    settings: fn(T) -> Settings,
) -> Vec<CostChange> {
    let gone = old.iter().filter(|(model, _)| new.get(model).is_none());
    let gone = gone.map(|(model, one)| (model, Some(one), None));
    let others = new.iter();
    let others = others.map(|(model, one)| (model, old.get(model), Some(one)));
    let mut all: Vec<_> = gone.chain(others).collect();
    all.sort_by_key(|(model, ..)| *model);
    let all = all.into_iter();
    all.flat_map(|(model, old, new)| {
        let (old, new) = (old.map(settings), new.map(settings));
        of_model(table, model, old, new)
    })
    .collect()
}

/// What changes of one model.
fn of_model(
    table: &'static str,
    model: &str,
    old: Option<Settings>,
    new: Option<Settings>,
) -> Vec<CostChange> {
    let whole = CostChange {
        table,
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
    let pairs = old.into_iter().zip(new);
    let differ = pairs.filter(|((_, was), (_, becomes))| was != becomes);
    let change =
        |((setting, was), (_, becomes)): ((_, Option<u64>), (_, Option<u64>))| CostChange {
            setting: Some(setting),
            was: was.map(written),
            becomes: becomes.map(written),
            ..whole.clone()
        };
    differ.map(change).collect()
}

/// What a price says, as files call it.
const fn of_price(price: Price) -> Settings {
    [
        ("input", Some(price.input)),
        ("cached-input", price.cache_read),
        ("cache-write", price.cache_write),
        ("output", Some(price.output)),
    ]
}

/// What a weight says, as files call it.
const fn of_weight(weight: Weight) -> Settings {
    [
        ("input", weight.input),
        ("cached-input", weight.cache_read),
        ("cache-write", weight.cache_write),
        ("output", weight.output),
    ]
}

/// As somebody would write it: `2.5`, not `2.500000`.
fn written(millionths: u64) -> String {
    let text = MILLIONTHS.show(millionths).to_string();
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

    fn told(old: &Costs, new: &Costs, hides: &Prices) -> Vec<String> {
        let changes = CostChange::between(old, new, hides);
        changes.iter().map(ToString::to_string).collect()
    }

    fn priced(all: &[(&str, u64, Option<u64>)]) -> Costs {
        Costs {
            prices: prices(all),
            ..Costs::default()
        }
    }

    #[test]
    fn each_price_that_is_another_is_told_and_whether_it_is_in_force() {
        let old = priced(&[("b", 2_500_000, None), ("gone", 1, None), ("same", 7, None)]);
        let new = priced(&[
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

    #[test]
    fn each_weight_that_is_another_is_told_and_no_price_hides_it() {
        let weighed = |all: &[(&str, Option<u64>)]| {
            let weight = |output| Weight {
                output,
                ..Weight::default()
            };
            let one = |(model, output): &(&str, _)| ((*model).to_owned(), weight(*output));
            Costs {
                weights: all.iter().map(one).collect(),
                ..Costs::default()
            }
        };
        let old = weighed(&[("b", Some(5_000_000)), ("gone", None)]);
        let new = weighed(&[("a", None), ("b", Some(2_500_000))]);
        let all = [
            "+ token-weight a",
            "~ token-weight b: output 5 -> 2.5",
            "- token-weight gone",
        ];
        assert_eq!(told(&old, &new, &prices(&[("b", 1, None)])), all);
    }
}
