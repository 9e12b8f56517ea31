//! How much tokens of models count, by the name of the model.
//!
//! ```toml
//! [token-weight]
//! "anthropic.claude-*" = { output = 5 }
//! "claude-3-haiku*"    = { cached-input = 1 }
//! ```

use tidegate::Unit;

use super::fault::Faults;
use super::fields::Field;
use super::models::{self, OfModel, Sort};

const SORT: Sort = Sort {
    table: "`[token-weight]`",
    one: "a weight",
    several: "weights",
    example: "`{ output = 5 }`",
};

/// Weights are written to a millionth.
const MILLIONTHS: Unit = Unit::decimal(6);

/// What a token counts that has the weight 1.
const ONE: u64 = 1_000_000;

/// The most that a token counts.
const MOST: u64 = 1_000;

/// How much tokens of a model count: millionths of a token, at most a thousand tokens; `None`: as the
/// provider counts them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ModelWeight {
    /// A model, and its dated versions; or with `*` at its end all whose names begin so.
    pub model: String,
    /// Of the prompt.
    pub input: Option<u64>,
    /// Of what came out of a cache.
    pub cached_input: Option<u64>,
    /// Of what was written into a cache.
    pub cache_write: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
}

/// The weights of `[token-weight]`.
pub(super) fn read(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<ModelWeight> {
    let models = models::read(field, &SORT, faults);
    models.iter().map(|model| weight(model, faults)).collect()
}

fn weight(model: &OfModel<'_>, faults: &mut Faults<'_>) -> ModelWeight {
    if model.settings.iter().all(Option::is_none) {
        let message = format!("the weight of `{}` says nothing", model.entry.name);
        let help = "write how much a token counts, such as `output = 5`";
        faults.add(&model.entry.key_span, message, help);
    }
    let mut counted = |field: &Option<Field<'_>>| counted(field.as_ref()?, faults);
    let [input, cached_input, cache_write, output] = model.settings.each_ref().map(&mut counted);
    ModelWeight {
        model: model.entry.name.to_owned(),
        input,
        cached_input,
        cache_write,
        output,
    }
}

/// How much one token counts.
fn counted(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<u64> {
    let weight = models::decimal(field, &SORT, MILLIONTHS, faults)?;
    if weight > MOST * ONE {
        let shown = MILLIONTHS.show(weight);
        let message = format!("`{}` is {shown}, which is out of range", field.name);
        let help = format!("write how many tokens one counts as, 0 to {MOST}");
        faults.add(&field.span, message, help);
        return None;
    }
    Some(weight)
}

#[cfg(test)]
mod tests {
    use super::super::parse_config;
    use super::*;

    const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 1, per = '1s' }\n";

    fn weights(text: &str) -> Vec<ModelWeight> {
        let text = format!("{POLICY}[token-weight]\n{text}\n");
        let config = parse_config("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        config.weights
    }

    /// The help of each fault, with its line and its message.
    fn told(text: &str) -> Vec<String> {
        let text = format!("[token-weight]\n{text}\n{POLICY}");
        let errors = parse_config("t.toml", &text).expect_err("a faulty file");
        let one = |fault: &super::super::Fault| {
            format!("{}: {} = {}", fault.line, fault.message, fault.help)
        };
        errors.faults().iter().map(one).collect()
    }

    #[test]
    fn weights_stand_beside_policies_and_say_what_differs() {
        let read = weights(
            "'anthropic.claude-*' = { output = 5, cached-input = '0.1' }\n\
             free = { input = 0, cached-input = 0, cache-write = 0, output = 0 }\n\
             most = { output = 1000 }",
        );
        let weight =
            |model: &str, [input, cached_input, cache_write, output]: [_; 4]| ModelWeight {
                model: model.to_owned(),
                input,
                cached_input,
                cache_write,
                output,
            };
        let expected = [
            weight(
                "anthropic.claude-*",
                [None, Some(100_000), None, Some(5_000_000)],
            ),
            weight("free", [Some(0); 4]),
            weight("most", [None, None, None, Some(1_000_000_000)]),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn each_fault_of_a_weight_is_told_with_its_line_and_what_to_write() {
        let faults = told(
            "a = { output = 0.5 }\nb = {}\nc = { output = '-1', input = '0.0000001' }\n\
             '*-mini' = { output = 5 }\nd = { outptu = 5, input = 1 }\ne = 3\n\
             f = { output = '1000.000001' }\ngpt-4.1 = { output = 5 }",
        );
        let starts = [
            "2: `output` is a fraction that is not in quotes = write it in quotes: `output = \"0.5\"`",
            "3: the weight of `b` says nothing = write how much a token counts, such as `output = 5`",
            "4: `input` is 0.0000001, which is too fine = a weight has at most six digits behind",
            "4: `output`: ",
            "5: `*-mini` is no name of models = write a model",
            "6: `outptu` is not a setting of a weight = did you mean `output`?",
            "7: ",
            "8: `output` is 1000.000001, which is out of range = write how many tokens one counts as",
            "9: a dot in a name without quotes begins a table = write `\"gpt-4.1\" = { ... }`",
        ];
        for start in starts {
            let is_told = faults.iter().any(|fault| fault.starts_with(start));
            assert!(is_told, "{start}: {faults:#?}");
        }
        assert_eq!(faults.len(), starts.len(), "{faults:#?}");
    }
}
