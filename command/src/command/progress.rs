//! A bar on standard error for what takes long, if someone is looking.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps in memory: below this, the work is over before a bar could be read.
const LONG: u64 = 200_000;

/// The bar moves each time when so many are done.
const MOVES: u64 = 10_000;

/// The same of requests to a server.
const LONG_OF_REQUESTS: u64 = 200;

/// How far the work is.
pub struct Progress {
    bar: ProgressBar,
    done: u64,
    moves: u64,
}

impl Progress {
    /// For work of a known amount; hidden if it is little or nobody looks.
    pub fn of(total: u64, what: &'static str, wanted: bool) -> Self {
        Self::bar(total, what, wanted && total >= LONG, MOVES)
    }

    /// For so many requests to a server; hidden likewise.
    pub fn of_requests(total: u64, what: &'static str) -> Self {
        Self::bar(total, what, total >= LONG_OF_REQUESTS, 1)
    }

    fn bar(total: u64, what: &'static str, wanted: bool, moves: u64) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(total).with_message(what);
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta} left");
        Self {
            bar: style
                .map(|style| bar.clone().with_style(style))
                .unwrap_or(bar),
            done: 0,
            moves,
        }
    }

    /// For work whose amount nobody knows beforehand.
    pub fn counting(what: &'static str, wanted: bool) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let style = ProgressStyle::with_template("{msg} {human_pos}");
        let bar = ProgressBar::no_length().with_message(what);
        Self {
            bar: style
                .map(|style| bar.clone().with_style(style))
                .unwrap_or(bar),
            done: 0,
            moves: MOVES,
        }
    }

    fn hidden() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            done: 0,
            moves: MOVES,
        }
    }

    /// Prints while the bar is away.
    pub fn print<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// One step more; the bar itself moves now and then.
    pub fn tick(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(self.moves) {
            self.bar.set_position(self.done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
