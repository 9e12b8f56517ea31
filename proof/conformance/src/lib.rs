//! One suite for every store.
//!
//! | room | holds |
//! |---|---|
//! | [`model`] | limits as lists of grants, with no cleverness |
//! | [`walk`] | random commands run on a store and on the model, compared at every step |
//! | [`lone`] | the same for a set of one bucket: by key, by handles, by leases |
//!
//! A store's own test is a small file: it says how to open the store and calls
//! [`walk::agrees_with_the_model`] and [`lone::agrees_with_the_model`].
//! Deliberately absent: any store.

pub mod lone;
pub mod model;
pub mod walk;
