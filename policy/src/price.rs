//! What tokens of models cost, by the name of the model.
//!
//! ```toml
//! [price]
//! gpt-5      = { input = "1.25", cached-input = "0.125", output = "10" }
//! "claude-*" = { input = 3, cached-input = "0.30", cache-write = "3.75", output = 15 }
//! ```

use tidegate::Unit;

use super::fault::Faults;
use super::fields::Field;
use super::models::{self, OfModel, Sort};

const SORT: Sort = Sort {
    table: "`[price]`",
    one: "a price",
    several: "prices",
    example: "`{ input = \"1.25\", output = \"10\" }`",
};

/// Prices are written to a millionth.
const MILLIONTHS: Unit = Unit::decimal(6);

/// What tokens of a model cost: millionths of a currency's unit for a million tokens. For 2.50
/// dollars that is 2,500,000.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ModelPrice {
    /// A model, and its dated versions; or with `*` at its end all whose names begin so.
    pub model: String,
    /// Of the prompt.
    pub input: u64,
    /// Of what came out of a cache; `None`: as the prompt.
    pub cached_input: Option<u64>,
    /// Of what was written into a cache; `None`: as the prompt.
    pub cache_write: Option<u64>,
    /// Of the answer.
    pub output: u64,
}

/// The prices of `[price]`.
pub(super) fn read(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<ModelPrice> {
    let models = models::read(field, &SORT, faults);
    let prices = models.iter().filter_map(|model| price(model, faults));
    prices.collect()
}

fn price(model: &OfModel<'_>, faults: &mut Faults<'_>) -> Option<ModelPrice> {
    let mut cost = |field: &Option<Field<'_>>| {
        let field = field.as_ref()?;
        Some(models::decimal(field, &SORT, MILLIONTHS, faults))
    };
    let [input, cached_input, cache_write, output] = model.settings.each_ref().map(&mut cost);
    let input = needed("input", input, &model.entry, faults);
    let output = needed("output", output, &model.entry, faults);
    Some(ModelPrice {
        model: model.entry.name.to_owned(),
        input: input?,
        cached_input: cached_input.flatten(),
        cache_write: cache_write.flatten(),
        output: output?,
    })
}

/// What has to be written; of what was written wrong that is told already.
fn needed(
    name: &str,
    written: Option<Option<u64>>,
    entry: &Field<'_>,
    faults: &mut Faults<'_>,
) -> Option<u64> {
    if written.is_none() {
        let message = format!("the price of `{}` has no `{name}`", entry.name);
        let help = format!("write what a million tokens cost, such as `{name} = \"1.25\"`");
        faults.add(&entry.key_span, message, help);
    }
    written.flatten()
}

#[cfg(test)]
mod tests {
    use super::super::parse_config;
    use super::*;

    const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 1, per = '1s' }\n";

    #[test]
    fn prices_stand_beside_policies() {
        let text = format!(
            "{POLICY}[price]\ngpt-5 = {{ input = '1.25', cached-input = '0.125', output = 10 }}\n\
             'claude-*' = {{ input = 3, cache-write = '3.75', output = 15 }}\nfree = {{ input = 0, output = 0 }}\n"
        );
        let config = parse_config("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let price =
            |model: &str, [input, output]: [u64; 2], cached_input, cache_write| ModelPrice {
                model: model.to_owned(),
                input,
                cached_input,
                cache_write,
                output,
            };
        let expected = [
            price("gpt-5", [1_250_000, 10_000_000], Some(125_000), None),
            price("claude-*", [3_000_000, 15_000_000], None, Some(3_750_000)),
            price("free", [0, 0], None, None),
        ];
        assert_eq!(config.prices, expected);
    }

    #[test]
    fn each_fault_of_a_price_is_told_with_its_line_and_what_to_write() {
        let text = "[price]\na = { input = 1.25, output = '10' }\nb = { input = '1' }\n\
                    c = { input = '-1', output = '0.0000001' }\n'*-mini' = { input = 1, output = 1 }\n\
                    d = { in = 1, input = 1, output = 1 }\ne = 3\n";
        let errors = parse_config("t.toml", &format!("{text}{POLICY}")).unwrap_err();
        let told = |fault: &super::super::Fault| (fault.line, fault.message.clone());
        let told: Vec<_> = errors.faults().iter().map(told).collect();
        let lines: Vec<_> = told.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 4, 5, 6, 7], "{told:#?}");
        let text = errors.to_string();
        for part in [
            "write it in quotes",
            "the price of `b` has no `output`",
            "a beginning and `*`",
            "did you mean `input`?",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    /// The help of each fault, with its message.
    fn told(prices: &str) -> Vec<String> {
        let text = format!("{POLICY}[price]\n{prices}\n");
        let errors = parse_config("t.toml", &text).expect_err("a faulty file");
        let one = |fault: &super::super::Fault| format!("{} = {}", fault.message, fault.help);
        errors.faults().iter().map(one).collect()
    }

    /// What to write was another price, which was taken where it was copied.
    #[test]
    fn a_price_that_is_not_in_quotes_is_told_with_the_same_price_in_quotes() {
        assert_eq!(
            told("a = { input = 2.5, output = 10 }"),
            ["`input` is a fraction that is not in quotes = write it in quotes: `input = \"2.5\"`"]
        );
        assert_eq!(
            told("a = { input = nan, output = 10 }"),
            [
                "`input` is a fraction that is not in quotes = write a decimal in quotes, such as `input = \"1\"`"
            ]
        );
    }

    #[test]
    fn a_price_that_is_too_fine_is_told_how_fine_it_may_be() {
        let help = "a price has at most six digits behind the point";
        assert_eq!(
            told("a = { input = '0.0000001', output = 10 }"),
            [format!("`input` is 0.0000001, which is too fine = {help}")]
        );
        assert_eq!(
            told("a = { input = 0.0000001, output = 10 }"),
            [format!("`input` is 0.0000001, which is too fine = {help}")]
        );
    }

    /// Three faults, none of which named the dot.
    #[test]
    fn a_model_with_a_dot_that_is_not_in_quotes_is_one_fault_which_says_what_to_write() {
        let expected = |written: &str| {
            format!(
                "a dot in a name without quotes begins a table = write `\"{written}\" = {{ ... }}`"
            )
        };
        let prices = "{ input = 1, output = 1 }";
        assert_eq!(told(&format!("gpt-4.1 = {prices}")), [expected("gpt-4.1")]);
        let two = format!("gpt-4.1.2 = {prices}\ngpt-4.5 = {prices}");
        assert_eq!(told(&two), [expected("gpt-4.1.2"), expected("gpt-4.5")]);
        assert_eq!(told("[price.o1.x]\ninput = 1"), [expected("o1.x")]);
    }

    /// It was told how a limit is written.
    #[test]
    fn a_star_in_a_name_without_quotes_is_one_fault_which_says_what_to_write() {
        let written = "write a name with `*` in quotes: `\"claude-*\" = { ... }`";
        let faults = told("claude-* = { input = 1, output = 1 }");
        let [fault] = &faults[..] else {
            panic!("{faults:#?}")
        };
        assert!(fault.ends_with(written), "{fault}");
    }
}
