//! What the limits of a set or a pool count of calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Limit, MAX_AMOUNT, Unit};
use tidegate_llm::price::in_units;
use tidegate_llm::{
    Cost, Counts, Estimator, Price, Prices, Provider, Usage, Weight, Weights, weight,
};

use crate::amount::{amount, number};
use crate::error::invalid;
use crate::limit;

/// At most one answer in twenty is longer than what was reserved for it.
const QUANTILE: u32 = 950;

/// What limits count of calls, what calls cost, and how long answers were.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct LlmMeter {
    /// Those that want an amount, each name once.
    measured: Vec<(Limit, Counts)>,
    /// Whether others count calls or slots.
    counts_calls: bool,
    prices: Prices,
    weights: Weights,
    provider: Option<Provider>,
    estimator: Mutex<Estimator>,
}

/// A price as Python has it: of prompts, of what came out of a cache, of what went into one, of
/// answers.
pub(super) type Written<'py> = (
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyAny>,
);

/// A weight as Python has it, in the same order.
pub(super) type WrittenWeight<'py> = (
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
);

impl LlmMeter {
    /// `members`: the limits of a set, or of each set of a pool.
    pub(super) fn of(
        py: Python<'_>,
        members: Vec<Vec<Bound<'_, PyAny>>>,
        counts: HashMap<String, String>,
        prices: HashMap<String, Written<'_>>,
        weights: HashMap<String, WrittenWeight<'_>>,
        provider: Option<&str>,
    ) -> PyResult<Self> {
        let provider = provider.map(str::parse::<Provider>).transpose();
        let provider = provider.map_err(|error| invalid(py, error.to_string()))?;
        let limits =
            |described: &Vec<Bound<'_, PyAny>>| described.iter().map(limit::limit).collect();
        let members: PyResult<Vec<Vec<Limit>>> = members.iter().map(limits).collect();
        let members = members?;
        let (mut measured, mut counts_calls) = (Vec::<(Limit, Counts)>::new(), false);
        for limit in members.iter().flatten() {
            if limit.is_counted() || limit.is_concurrency() {
                counts_calls = true;
                continue;
            }
            let is_same = |known: &Limit| known.name() == limit.name();
            if !members.iter().all(|limits| limits.iter().any(is_same)) {
                let words = format!("limit {:?} is not in every set of the pool", limit.name());
                return Err(invalid(py, words));
            }
            let counted = self::counts(py, limit, &counts)?;
            match measured.iter_mut().find(|(known, _)| is_same(known)) {
                Some((known, _)) if known.at_most() < limit.at_most() => known.clone_from(limit),
                Some(_) => {}
                None => measured.push((limit.clone(), counted)),
            }
        }
        let is_measured = |name: &&String| measured.iter().any(|(limit, _)| limit.name() == **name);
        if let Some(other) = counts.keys().find(|name| !is_measured(name)) {
            let words =
                format!("counts: no rate or budget {other:?}; calls and slots count themselves");
            return Err(invalid(py, words));
        }
        let counts_money = |(_, counts): &&(Limit, Counts)| *counts == Counts::Money;
        if let Some((limit, _)) = measured.iter().find(counts_money)
            && prices.is_empty()
        {
            let words = format!("limit {:?} counts money; give prices={{...}}", limit.name());
            return Err(invalid(py, words));
        }
        let prices = prices.into_iter().map(|(model, written)| {
            let price = price(&model, written)?;
            Ok((model, price))
        });
        let weights = weights.into_iter().map(|(model, written)| {
            let weight = weight_of(py, &model, &written)?;
            Ok((model, weight))
        });
        Ok(Self {
            measured,
            counts_calls,
            weights: weights.collect::<PyResult<Weights>>()?,
            prices: prices.collect::<PyResult<Prices>>()?,
            provider,
            estimator: Mutex::new(Estimator::new(QUANTILE)),
        })
    }

    pub(super) fn provider(&self, usual: Provider) -> Provider {
        self.provider.unwrap_or(usual)
    }

    pub(super) fn estimator(&self) -> MutexGuard<'_, Estimator> {
        self.estimator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What tokens of a model cost and count; `None`: it has no price, and a limit counts money.
    pub(super) fn cost(&self, model: &str) -> Option<Cost> {
        let price = self.prices.of(model);
        let mut measured = self.measured.iter();
        let is_needed = measured.any(|(_, counts)| *counts == Counts::Money);
        (price.is_some() || !is_needed).then(|| Cost {
            price: price.unwrap_or_default(),
            weight: self.weights.of(model).unwrap_or_default(),
        })
    }

    /// Whether calls that use no tokens count.
    pub(super) const fn counts_calls(&self) -> bool {
        self.counts_calls
    }

    /// An amount of each limit that wants one, in Python's words.
    pub(super) fn amounts<'py>(
        &self,
        py: Python<'py>,
        of: impl Fn(&Limit, Counts) -> u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let amounts = PyDict::new(py);
        for (limit, counts) in &self.measured {
            let units = of(limit, *counts);
            amounts.set_item(limit.name(), number(py, limit.amounts(), units)?)?;
        }
        Ok(amounts)
    }
}

/// What a limit counts of that use, in its unit.
pub(super) fn units(
    limit: &Limit,
    counts: Counts,
    provider: Provider,
    usage: &Usage,
    cost: &Cost,
) -> u64 {
    let amount = counts.of(provider, usage, cost);
    match counts {
        Counts::Money => in_units(amount, limit.amounts().places()),
        _ => limit.amounts().ones(amount).unwrap_or(MAX_AMOUNT),
    }
}

/// What a limit counts, by what is said of it, or by its name.
fn counts(py: Python<'_>, limit: &Limit, told: &HashMap<String, String>) -> PyResult<Counts> {
    let name = limit.name();
    let word = told.get(name).map_or(name, String::as_str);
    let counts = Counts::named(word).ok_or_else(|| {
        let words = format!(
            "what limit {name:?} counts is not known by its name; write counts={{{name:?}: \"tokens\"}}, \
             \"input-tokens\", \"output-tokens\" or \"money\""
        );
        invalid(py, words)
    })?;
    if counts == Counts::Money && limit.amounts() == Unit::ONE {
        let words = format!(
            "limit {name:?} counts money in whole numbers, and every call would cost 1; \
             give it places=6, or make it a Budget"
        );
        return Err(invalid(py, words));
    }
    Ok(counts)
}

/// Millionths of a million tokens' price.
fn millionths(model: &str, price: &Bound<'_, PyAny>) -> PyResult<u64> {
    amount(&format!("price of {model}"), Unit::decimal(6), price)
}

fn price(model: &str, written: Written<'_>) -> PyResult<Price> {
    let (input, cache_read, cache_write, output) = written;
    let optional = |price: Option<Bound<'_, PyAny>>| {
        let price = price.map(|price| millionths(model, &price));
        price.transpose()
    };
    Ok(Price {
        input: millionths(model, &input)?,
        cache_read: optional(cache_read)?,
        cache_write: optional(cache_write)?,
        output: millionths(model, &output)?,
    })
}

/// How much a token of a model counts.
fn token_weight(
    py: Python<'_>,
    model: &str,
    written: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<u64>> {
    let Some(written) = written else {
        return Ok(None);
    };
    let counted = amount(&format!("weight of {model}"), Unit::decimal(6), written)?;
    if counted > weight::MOST {
        let words = format!("weight of {model}: a token counts as 1000 tokens at most");
        return Err(invalid(py, words));
    }
    Ok(Some(counted))
}

fn weight_of(py: Python<'_>, model: &str, written: &WrittenWeight<'_>) -> PyResult<Weight> {
    let of = |one: &Option<_>| token_weight(py, model, one.as_ref());
    let (input, cache_read, cache_write, output) = written;
    Ok(Weight {
        input: of(input)?,
        cache_read: of(cache_read)?,
        cache_write: of(cache_write)?,
        output: of(output)?,
    })
}
