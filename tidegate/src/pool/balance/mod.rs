//! Who is tried first: one file for each way.
//!
//! A balancer puts members in order and takes nothing; the pool tries them in
//! that order, and the first that admits serves. Whoever cools down is not
//! among them.

mod balancer;
mod first_available;
mod kinds;
mod least_loaded;
mod random;
mod round_robin;
mod weighted;

pub use balancer::Balancer;
pub use kinds::Balance;
