//! RESET, POLICIES.

use tidegate_service::Call;

use super::named::{entity_alone, policy, whose};
use crate::error::Fault;
use crate::parse::Arguments;

pub(in crate::command) fn reset(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let whose = whose(arguments, entity_alone(arguments, 3)?)?;
    Ok(Call::Reset(policy(arguments)?, whose))
}

/// Those that the caller may observe, by name.
pub(in crate::command) fn policies(_: Arguments<'_>) -> Result<Call<'_>, Fault> {
    Ok(Call::Policies)
}
