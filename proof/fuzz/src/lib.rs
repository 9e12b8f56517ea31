//! Hostile input. Each file in `targets/` is one libFuzzer target; here is how
//! they make choices out of bytes.

mod feed;

pub use feed::Feed;
