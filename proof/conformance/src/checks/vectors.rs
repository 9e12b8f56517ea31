//! The tables of `proof/vectors`, answered as written.

use crate::subject::{Skipped, Subject};
use crate::vectors;

/// The steps of the one table that no store can be told; the README says why.
const CORE_ONLY: usize = 4;

/// In each way in which a store can be asked so: played several times over, the tables
/// have many more steps than lines.
pub(super) fn every_vector_is_answered_as_written(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let played = vectors::on_a_store(subject);
    println!("{played:?}");
    assert!(
        played.steps >= 300,
        "only {} steps were played",
        played.steps
    );
    assert_eq!(
        played.core_only, CORE_ONLY,
        "steps that no store can be told"
    );
    Ok(())
}
