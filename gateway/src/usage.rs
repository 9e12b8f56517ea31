//! What is used, waited for and refused, by key and model, for a bounded number of pairs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, counter, describe_counter};
use tidegate_llm::{Price, Usage};

const TOKENS: &str = "tidegate_gateway_tokens_total";
const MONEY: &str = "tidegate_gateway_money_millionths_total";
const CALLS: &str = "tidegate_gateway_calls_total";
const WAITED: &str = "tidegate_gateway_waited_milliseconds_total";
const REFUSALS: &str = "tidegate_gateway_refusals_total";

/// What stands in place of a key and a model that have no figures of their own.
const OTHER: &str = "other";

/// The figures of each key and model.
pub struct ByKey {
    /// The most pairs with figures of their own.
    most: usize,
    known: Mutex<Known>,
    other: Arc<Figures>,
}

type ByModel = HashMap<Box<str>, Arc<Figures>>;

#[derive(Default)]
struct Known {
    by_key: HashMap<Box<[u8]>, ByModel>,
    pairs: usize,
}

/// The figures of one key and one model.
pub struct Figures {
    key: String,
    model: String,
    input: Counter,
    output: Counter,
    money: Counter,
    calls: Counter,
    waited: Counter,
}

impl ByKey {
    pub fn new(most: usize) -> Self {
        describe_counter!(TOKENS, "Tokens that calls have used, as providers say");
        describe_counter!(
            MONEY,
            "What calls have cost, in millionths, by the prices given"
        );
        describe_counter!(CALLS, "Calls that have used tokens");
        describe_counter!(WAITED, "How long calls have waited for their limits");
        describe_counter!(REFUSALS, "Calls that a limit has refused");
        Self {
            most,
            known: Mutex::default(),
            other: Arc::new(Figures::new(OTHER, OTHER)),
        }
    }

    /// The figures of a pair whose call a provider has charged: nobody makes up the names of such
    /// pairs.
    pub fn used(&self, key: &[u8], model: &str) -> Arc<Figures> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(figures) = known.get(key, model) {
            return figures;
        }
        if known.pairs >= self.most {
            return Arc::clone(&self.other);
        }
        let figures = Arc::new(Figures::new(&String::from_utf8_lossy(key), model));
        let models = known.by_key.entry(key.into()).or_default();
        models.insert(model.into(), Arc::clone(&figures));
        known.pairs += 1;
        figures
    }

    /// The figures of a pair, if it has any; else those of all others. A caller can say any model.
    pub fn of(&self, key: &[u8], model: &str) -> Arc<Figures> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(key, model);
        found.unwrap_or_else(|| Arc::clone(&self.other))
    }
}

impl Known {
    fn get(&self, key: &[u8], model: &str) -> Option<Arc<Figures>> {
        self.by_key.get(key)?.get(model).map(Arc::clone)
    }
}

impl Figures {
    fn new(key: &str, model: &str) -> Self {
        let labels = [("key", key.to_owned()), ("model", model.to_owned())];
        let tokens = |direction: &str| {
            let [key, model] = labels.clone();
            counter!(TOKENS, &[key, model, ("direction", direction.to_owned())])
        };
        Self {
            key: key.to_owned(),
            model: model.to_owned(),
            input: tokens("input"),
            output: tokens("output"),
            money: counter!(MONEY, &labels),
            calls: counter!(CALLS, &labels),
            waited: counter!(WAITED, &labels),
        }
    }

    /// A call has used so much.
    pub fn add(&self, usage: &Usage, price: Price) {
        self.calls.increment(1);
        self.input.increment(usage.prompt());
        self.output.increment(usage.output.unwrap_or(0));
        self.money.increment(price.of(usage));
    }

    /// A call has waited for so long, whether it was let through or not.
    pub fn waited(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.waited.increment(millis);
    }

    /// A limit of a policy has refused a call.
    pub fn refused(&self, policy: &str, limit: &str) {
        let labels = [
            ("key", self.key.clone()),
            ("model", self.model.clone()),
            ("policy", policy.to_owned()),
            ("limit", limit.to_owned()),
        ];
        counter!(REFUSALS, &labels).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_beyond_the_bound_share_the_figures_of_all_others() {
        let by_key = ByKey::new(2);
        let one = by_key.used(b"a", "m");
        let two = by_key.used(b"a", "n");
        assert!(Arc::ptr_eq(&by_key.used(b"b", "m"), &by_key.other));
        assert!(Arc::ptr_eq(&by_key.used(b"a", "m"), &one));
        assert!(Arc::ptr_eq(&by_key.of(b"a", "n"), &two));
        assert!(!Arc::ptr_eq(&one, &two));
    }

    #[test]
    fn a_name_that_a_caller_made_up_takes_no_place() {
        let by_key = ByKey::new(1);
        assert!(Arc::ptr_eq(&by_key.of(b"made", "up"), &by_key.other));
        assert!(!Arc::ptr_eq(&by_key.used(b"a", "m"), &by_key.other));
    }
}
