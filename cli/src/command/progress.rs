//! A bar on standard error for what takes long, if someone is looking.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Below this, the work is over before a bar could be read.
const LONG: u64 = 200_000;

/// How far the work is.
pub struct Progress {
    bar: ProgressBar,
    done: u64,
}

impl Progress {
    /// For work of a known amount; hidden if it is little or nobody looks.
    pub fn of(total: u64, what: &'static str, wanted: bool) -> Self {
        if !wanted || total < LONG || !std::io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
                done: 0,
            };
        }
        let bar = ProgressBar::new(total).with_message(what);
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta} left");
        Self {
            bar: style
                .map(|style| bar.clone().with_style(style))
                .unwrap_or(bar),
            done: 0,
        }
    }

    /// For work whose amount nobody knows beforehand.
    pub fn counting(what: &'static str, wanted: bool) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
                done: 0,
            };
        }
        let style = ProgressStyle::with_template("{msg} {human_pos}");
        let bar = ProgressBar::no_length().with_message(what);
        Self {
            bar: style
                .map(|style| bar.clone().with_style(style))
                .unwrap_or(bar),
            done: 0,
        }
    }

    /// One step more; the bar itself moves now and then.
    pub fn tick(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(10_000) {
            self.bar.set_position(self.done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
