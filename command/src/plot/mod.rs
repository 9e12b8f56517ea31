//! Pictures of a replay: demand, what was admitted and the limit, over time.
//!
//! `series` says what is drawn, one panel for each limit; `level` computes how
//! full a window is; `scale` finds round numbers for axes; `svg` and `text`
//! draw. Everything is computed from the decisions alone, and the same
//! decisions give the same bytes.

mod level;
mod scale;
mod series;
mod svg;
mod text;

pub use series::{Picture, Window};
pub use svg::draw_svg;
pub use text::{draw_text, plot_width};
