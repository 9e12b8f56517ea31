//! `tidegate top`: what a server does, kept up to date.
//!
//! | room | holds |
//! |---|---|
//! | [`Top`] | its options, and what is asked of the server for it |
//! | `perform` | shows it, on a terminal or as text |
//! | `exposition` | the server's metrics, read |
//! | `sample` | what they say of each policy at one moment |
//! | `quantile` | how long the longest of a hundred has waited |
//! | `frame` | what has happened between two moments |
//! | `plain` | a frame as text |
//! | `screen` | frames on a terminal (the feature `screen`) |

mod exposition;
mod frame;
mod options;
mod perform;
mod plain;
mod quantile;
mod sample;
#[cfg(feature = "screen")]
mod screen;

pub use options::Top;
