//! Numbers of Python as amounts of a limit, and back.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};
use tidegate::{Amount, Unit};

use crate::error::invalid;

/// `number` of `unit`: a whole number, a float, or what is written as one (`Decimal`).
///
/// # Errors
/// `InvalidRequest`: negative, not a number, more than 2^53 - 1 units, no multiple of the
/// unit.
pub(crate) fn amount(limit: &str, unit: Unit, number: &Bound<'_, PyAny>) -> PyResult<Amount> {
    let py = number.py();
    let explained =
        |words: &dyn std::fmt::Display| invalid(py, format!("the amount of {limit:?}: {words}"));
    if number.is_instance_of::<PyBool>() {
        return Err(explained(&"a number is needed, not a bool"));
    }
    if number.is_instance_of::<PyFloat>() {
        let number = number.extract()?;
        let number = whole_units(unit, number).unwrap_or(number);
        return unit.exact(number).map_err(|error| explained(&error));
    }
    if let Ok(whole) = number.extract::<u64>() {
        return unit.ones(whole).map_err(|error| explained(&error));
    }
    let text = number.str()?;
    unit.parse(&text.to_cow()?)
        .map_err(|error| explained(&error))
}

/// Checks the amount of a limit that is infinite: any that is 0 or more.
///
/// # Errors
/// `InvalidRequest`: negative, not a number, infinite.
pub(crate) fn check(limit: &str, number: &Bound<'_, PyAny>) -> PyResult<()> {
    let amount = match number.is_instance_of::<PyBool>() {
        true => None,
        false => number.extract::<f64>().ok(),
    };
    match amount {
        Some(amount) if amount >= 0.0 && amount.is_finite() => Ok(()),
        _ => {
            let shown = number.repr()?;
            let words =
                format!("the amount of {limit:?}: a number of 0 or more is needed, not {shown}");
            Err(invalid(number.py(), words))
        }
    }
}

/// An amount as Python shows it: an `int` where the unit is 1, else a `float`.
pub(crate) fn number(py: Python<'_>, unit: Unit, amount: Amount) -> PyResult<Py<PyAny>> {
    Ok(match unit == Unit::ONE {
        true => amount.into_pyobject(py)?.into_any().unbind(),
        false => {
            let places = i32::from(unit.places());
            let number = amount as f64 / 10_f64.powi(places);
            number.into_pyobject(py)?.into_any().unbind()
        }
    })
}

/// `number`, as so many whole units as it is but for what floats leave behind: `0.1 + 0.2`
/// is 0.3. `None`: it is finer, or no number.
fn whole_units(unit: Unit, number: f64) -> Option<f64> {
    let one = 10_f64.powi(unit.places().into());
    let units = number * one;
    let whole = units.round();
    let is_whole = (units - whole).abs() <= 1e-9 * units.abs().max(1.0);
    // Also what is 0, and has a sign.
    is_whole.then_some(whole / one + 0.0)
}
