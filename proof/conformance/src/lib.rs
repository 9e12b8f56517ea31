//! One suite for every store.
//!
//! | room | holds |
//! |---|---|
//! | [`model`] | limits as lists of grants, with no cleverness |
//! | [`walk`] | random commands run on a store and on the model, compared at every step |
//!
//! A store's own test is a small file: it says how to open the store and calls
//! [`walk::agrees_with_the_model`]. Deliberately absent: any store.

pub mod model;
pub mod walk;
