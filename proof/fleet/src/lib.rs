//! Tidegate as a fleet uses it: real servers, two at a time on one store, asked every verb
//! of every protocol. It stands above the servers, and sees what their users see.
//!
//! | room | holds |
//! |---|---|
//! | [`stores`] | a row for each store |
//! | [`talk`] | a row for each protocol; one [`Call`](talk::Call) and one [`Answer`](talk::Answer) in all of them |
//! | [`questions`] | what is asked, a room for each question with a row for each verb or case |
//! | [`question`] | what one is, and where it says what became of its rows |
//! | [`table`] | the cells, what became of each, the page; `open.txt` names those that are known to fail |
//! | [`measured`] | how long answers take while a store stands still: `cargo xtask paused` |
//! | [`server`], [`house`], [`mod@program`] | a server's process, a store with its servers, the program under test |
//!
//! # To add
//!
//! - **a store**: a row in [`stores`], with how it is opened.
//! - **a protocol**: a file in `talk/` that says a [`Call`](talk::Call) and reads an
//!   [`Answer`](talk::Answer), and a row in [`talk::PROTOCOLS`].
//! - **a verb**: a word in [`talk::Verb`], what each protocol makes of it (`speaks` says which
//!   do), what the library answers (`talk/library.rs`), and a row in `questions/answers/`; in
//!   the other questions where it can wait, be retried, or be set.
//! - **a case**: a row in the table of its question.
//! - **a question**: a file in `questions/` and a line in [`questions::QUESTIONS`].
//!
//! Then `cargo xtask fleet` runs the table and writes `TABLE.md`; what fails is printed with the
//! reason. `TIDEGATE_FLEET="redis woken"` runs that store's cells of that question alone, and
//! `TIDEGATE=path` names another program, to which an older commit was built, say.
//!
//! No cell measures how fast anything is: it counts what was granted, goes by the order in which
//! things happen, and waits for them with far more patience than they need. Policies grant per
//! 400 days, so that nothing comes back meanwhile.

pub mod house;
pub mod measured;
pub mod program;
pub mod question;
pub mod questions;
pub mod server;
pub mod stores;
pub mod table;
pub mod talk;
