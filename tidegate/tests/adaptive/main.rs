//! Limits learnt from how an upstream answers: each algorithm before a server in closed
//! form, and the library before an upstream with a queue.
//!
//! | room | holds |
//! |---|---|
//! | `chance` | numbers that are the same for the same seed |
//! | `server` | a server in closed form, always saturated |
//! | `drift` | so many windows later each limit is where it was |
//! | `steps` | a capacity or a latency that changes |
//! | `noise` | signals that vary by chance |
//! | `refusals` | upstreams that refuse, and limits of which little is used |
//! | `laws` | whatever the samples are |
//! | `picture` | the limits over time, drawn |
//! | `permits` | what a permit says, and when a limit changes |
//! | `upstream`, `queue` | through the library, in virtual time; several programs on one store |
//! | `layer` | the tower layer |

mod chance;
mod drift;
mod laws;
#[cfg(feature = "tower")]
mod layer;
mod noise;
mod permits;
mod picture;
mod queue;
mod refusals;
mod server;
mod steps;
mod upstream;

#[path = "../support/fleet.rs"]
mod fleet;

#[test]
fn the_pages_picture_is_what_the_example_draws() {
    let file = "../docs/library/adaptive-concurrency.svg";
    let shown = std::fs::read_to_string(file).expect("a picture");
    assert!(
        picture::draw() == shown,
        "run `cargo run -p tidegate --example adaptive_concurrency -- \
         docs/library/adaptive-concurrency.svg`"
    );
}
