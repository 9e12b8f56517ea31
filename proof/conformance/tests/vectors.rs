//! The core against the tables of `proof/vectors`, whose README says how they
//! are read. The suite plays them to every store.

use tidegate_conformance::vectors;

#[test]
fn every_vector_is_answered_as_written() {
    let played = vectors::on_the_core();
    assert!(
        played.steps >= 160,
        "only {} steps were found",
        played.steps
    );
}
