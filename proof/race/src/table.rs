//! A row for each round.

use std::fmt::Write as _;

use crate::books::Books;

/// Above the rows.
pub const HEAD: &str = "\
round      calls  whole refused unknown unreached   ledger    store    unused  overspent     debt  phantom uncharged  nobody knows";

/// A row, in dollars.
#[must_use]
pub fn row(name: &str, books: &Books) -> String {
    let dollars =
        |millionths: u64| format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    let calls = books.whole + books.refused + books.unknown + books.unreached;
    let mut row = format!(
        "{name:<10} {calls:>5} {:>6} {:>7} {:>7} {:>9}",
        books.whole, books.refused, books.unknown, books.unreached
    );
    let sums = [
        books.used,
        books.spent,
        books.spent.saturating_sub(books.used),
        books.overspent(),
        books.debt(),
        books.phantom(),
        books.uncharged(),
    ];
    for sum in sums {
        let _ = write!(row, " {:>9}", dollars(sum));
    }
    let _ = write!(row, "  {} to {}", dollars(books.least), dollars(books.most));
    row
}

/// The row of a round that did not come to its end.
#[must_use]
pub fn ended(name: &str, why: &str) -> String {
    format!("{name:<10} no result: {why}")
}
