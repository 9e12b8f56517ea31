//! The fair queue: laws of its order, what each gets, and those who wait in it.

mod laws;
mod shares;
mod waiting;
