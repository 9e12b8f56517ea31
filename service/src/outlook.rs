//! What a forecast says.

use tidegate_core::Forecast;

/// What a forecast says, of one member if it is about a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outlook {
    /// The pool's member.
    pub member: Option<String>,
    /// Each limit by name.
    pub limits: Vec<(String, Forecast)>,
}
