//! RESET, POLICIES.

use tidegate_service::Call;

use super::named::{key, policy};
use crate::error::Fault;
use crate::parse::Arguments;

pub(in crate::command) fn reset(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    Ok(Call::Reset(policy(arguments)?, key(arguments).into()))
}

/// Those that the caller may observe, by name.
pub(in crate::command) fn policies(_: Arguments<'_>) -> Result<Call<'_>, Fault> {
    Ok(Call::Policies)
}
