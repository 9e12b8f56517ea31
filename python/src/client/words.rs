//! Amounts and errors, in Python's words.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use tidegate::Unit;
use tidegate_client::{Error, Quantity};

use crate::amount::amount;
use crate::error::{exception, invalid};
use crate::request;

/// What an error of the client is in Python.
pub(super) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error {
        Error::InvalidRequest(_) => "InvalidRequest",
        Error::Never(_) => "ImpossibleRequest",
        Error::Unauthorized(_) => "Unauthorized",
        Error::Forbidden(_) => "Forbidden",
        Error::NotFound(_) => "UnknownPolicy",
        Error::Conflict(_) => "Conflict",
        Error::NamespaceDeleted(_) => "NamespaceDeleted",
        Error::LeaseEnded(_) => "LeaseEnded",
        Error::Busy(_) => "QueueFull",
        Error::Full(_) => "CapacityFull",
        Error::Unavailable(_) => "StoreUnavailable",
        Error::Timeout { .. } => "ServerTimeout",
        _ => "ServerUnavailable",
    };
    exception(py, name, (error.to_string(),))
}

/// Of a lease that the server does not know: it has ended.
pub(super) fn raised_of_lease(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::NotFound(_) => exception(py, "LeaseEnded", (error.to_string(),)),
        error => raised(py, error),
    }
}

/// Amounts by limit.
pub(super) fn quantities(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(String, Quantity)>> {
    let given = given.map(request::dictionary).transpose()?;
    let amounts = given.into_iter().flatten().map(|(name, number)| {
        let name: String = name.extract()?;
        let number = quantity(&name, &number)?;
        Ok((name, number))
    });
    amounts.collect()
}

/// A number, as an amount of a limit whose unit the server knows.
pub(super) fn quantity(limit: &str, number: &Bound<'_, PyAny>) -> PyResult<Quantity> {
    const FINEST: u8 = 9;
    let is_float = number.is_instance_of::<PyFloat>();
    if is_float && number.extract::<f64>()?.fract() != 0.0 {
        let parts = amount(limit, Unit::decimal(FINEST), number)?;
        let one = 10_u64.pow(FINEST.into());
        let written = format!("{}.{:09}", parts / one, parts % one);
        return Ok(Quantity::Decimal(written));
    }
    if is_float || number.is_instance_of::<PyInt>() {
        return Ok(Quantity::Whole(amount(limit, Unit::ONE, number)?));
    }
    // Of a `Decimal` without an exponent.
    let written = number.call_method1("__format__", ("f",));
    let text = match written {
        Ok(written) if !is_float => written.str()?,
        _ => number.str()?,
    };
    let parsed = text.to_cow()?.parse::<Quantity>();
    parsed.map_err(|why| invalid(number.py(), format!("the amount of {limit:?}: {why}")))
}

/// An amount as Python shows it: an `int` where it is whole, else a `float`.
pub(super) fn number(py: Python<'_>, quantity: &Quantity) -> PyResult<Py<PyAny>> {
    Ok(match quantity {
        Quantity::Whole(whole) => whole.into_pyobject(py)?.into_any().unbind(),
        Quantity::Decimal(text) => {
            let number: f64 = text.parse().unwrap_or(f64::NAN);
            number.into_pyobject(py)?.into_any().unbind()
        }
    })
}

/// In how many seconds it would be admitted.
pub(super) fn seconds(answer: &tidegate_client::Answer) -> Option<f64> {
    answer.retry_after.map(|wait| wait.as_secs_f64())
}
