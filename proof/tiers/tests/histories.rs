//! Bounds hold in seeded histories. `TIDEGATE_TIER_HISTORIES=100000` looks harder, as
//! `cargo xtask tiers` does.

use tidegate_tier_fleets::history;
use tidegate_tier_fleets::limits::Shape;
use tidegate_tier_fleets::report::Seen;

/// So many histories fit into some seconds of a build for tests.
const HISTORIES: u64 = 1_000;

#[test]
fn no_history_admits_more_than_the_stated_bound() {
    let count = std::env::var("TIDEGATE_TIER_HISTORIES").ok();
    let count = count.and_then(|count| count.parse().ok());
    let mut seen = Seen::default();
    for seed in 0..count.unwrap_or(HISTORIES) {
        let told = history::run(seed);
        let broken = told.nearest.iter().find(|(_, nearest)| !nearest.holds());
        assert!(broken.is_none(), "seed {seed}: {broken:?}");
        seen.note(&told);
    }
    println!("{seen}");
    // They are worth running: every kind comes to its bound, and all that may happen does.
    assert!(seen.changes > 0 && seen.kills > 0 && seen.most_nodes == 32);
    for shape in Shape::all(2) {
        let nearest = seen.nearest(shape.name());
        assert!(nearest.bound > 0, "{} is among them", shape.name());
    }
    for shape in ["fixed window", "calendar day"] {
        let nearest = seen.nearest(shape);
        assert_eq!(nearest.observed, nearest.bound, "{shape}");
    }
}
