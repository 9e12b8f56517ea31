//! Each algorithm of `tidegate::adaptive` before the simulated provider: what a step of its slots or of
//! its pace does to a limit, what noise does, and that none drifts but Gradient2, which goes up to its
//! maximum.
//!
//! | room | holds |
//! |---|---|
//! | `callers` | callers that always want more, in virtual time |
//! | `steps` | a provider that becomes another |
//! | `noise` | answers that are faster or slower by chance |
//! | `picture` | the limits over time, drawn |

mod callers;
mod noise;
mod picture;
mod steps;

#[test]
fn the_pages_picture_is_what_the_example_draws() {
    let file = "../../docs/library/adaptive-provider.svg";
    let shown = std::fs::read_to_string(file).expect("a picture");
    assert!(
        picture::draw() == shown,
        "run `cargo run -p tidegate-sim --example adaptive_provider -- \
         docs/library/adaptive-provider.svg`"
    );
}
