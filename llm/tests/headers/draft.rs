//! The fields of the IETF draft, and what came before them.

use tidegate_core::Span;
use tidegate_llm::headers::MOST_OBSERVATIONS;
use tidegate_llm::{Provider, Signals, Unit};

use super::{read, rows};

#[test]
fn the_fields_of_the_draft_are_read_in_every_form_that_they_had() {
    let present = [
        (
            "ratelimit-policy",
            "\"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
        ),
        ("ratelimit", "\"burst\";r=50;t=30"),
        ("ratelimit", "\"daily\";r=999;pk=:dHJpYWwxMjEzMjM=:"),
    ];
    let signals = read(Provider::Generic, &present);
    assert_eq!(
        rows(&signals),
        [
            ("burst", Unit::Requests, Some(100), Some(50), Some(30_000)),
            ("daily", Unit::Requests, Some(1_000), Some(999), None),
        ]
    );
    let own = [
        (
            "ratelimit-policy",
            "\"tpm\";q=9000;w=60;tidegate-qu=\"units\", open;q=5;qu=\"concurrent-requests\"",
        ),
        ("ratelimit", "open;r=4, \"tpm\""),
    ];
    assert_eq!(
        rows(&read(Provider::Generic, &own)),
        [
            ("tpm", Unit::Other, Some(9_000), None, None),
            ("open", Unit::Other, Some(5), Some(4), None),
        ]
    );
    let expected = [("default", Unit::Requests, Some(100), Some(50), Some(30_000))];
    for form in [
        &[
            ("ratelimit", "limit=100, remaining=50, reset=30"),
            ("ratelimit-policy", "100;w=60, 10000;w=86400"),
        ][..],
        &[
            ("ratelimit-limit", "100, 100;w=60"),
            ("ratelimit-remaining", "50"),
            ("ratelimit-reset", "30"),
        ],
        &[
            ("x-ratelimit-limit", "100"),
            ("x-ratelimit-remaining", "50"),
            ("x-ratelimit-reset", "1736723490"),
        ],
        &[
            ("x-rate-limit-limit", "100.0"),
            ("x-rate-limit-remaining", "50"),
            ("x-rate-limit-reset", "1736723490000"),
        ],
    ] {
        assert_eq!(rows(&read(Provider::Generic, form)), expected, "{form:?}");
    }
}

#[test]
fn no_more_observations_than_the_bound_are_kept() {
    let many: Vec<String> = (0..1_000).map(|n| format!("\"n{n}\";r=1")).collect();
    let signals = read(Provider::Generic, &[("ratelimit", &many.join(","))]);
    assert_eq!(signals.observations.len(), MOST_OBSERVATIONS);
    assert_eq!(signals.ignored, 1_000 - MOST_OBSERVATIONS as u32);
}

fn generic(lines: &[(&str, &str)]) -> Signals {
    read(Provider::Generic, lines)
}

/// RFC 9651: a field with one item that is none has no item at all.
#[test]
fn a_malformed_field_is_ignored_as_a_whole() {
    for malformed in [
        "\"a\";r=1, \"b",
        "\"a\";r=1,",
        "\"a\";r=1 \"b\";r=2",
        "\"a\";r=1, \"b\";R=2",
        "\"a\";r=1, \"\u{fc}\";r=2",
        "\"a\";r=1, \"b\\c\";r=2",
        "\"a\";r=1, \"b\";r=1000000000000000",
        "\"a\";r=1, \"b\";pk=:=:",
        "\"a\";r=1, 5;r=2",
        "\"a\";r=1, (\"b\" \"c\");r=2",
    ] {
        let signals = generic(&[("ratelimit", malformed)]);
        assert_eq!(signals.observations, [], "{malformed}");
        assert_eq!(signals.ignored, 1, "{malformed}");
    }
    // The other field stands by itself, and of several lines all are one field.
    let signals = generic(&[
        ("ratelimit-policy", "\"a\";q=9;w=60"),
        ("ratelimit", "\"a\";r=1"),
        ("ratelimit", "\"b"),
    ]);
    let policy = ("a", Unit::Requests, Some(9), None, None);
    assert_eq!(rows(&signals), [policy]);
    assert_eq!(signals.ignored, 1);
}

#[test]
fn an_integer_has_fifteen_digits_of_which_what_can_be_counted_is_read() {
    let most = generic(&[("ratelimit", "\"a\";r=999999999999999")]);
    let a = ("a", Unit::Requests, None, Some(999_999_999_999_999), None);
    assert_eq!(rows(&most), [a]);
    for value in ["-1", "5.0", "\"5\"", "?1", "five", ":NQ==:"] {
        let signals = generic(&[("ratelimit", &format!("\"a\";r={value}, \"b\";r=2;t=-4"))]);
        let b = ("b", Unit::Requests, None, Some(2), None);
        assert_eq!(rows(&signals), [b], "{value}");
        assert_eq!(signals.ignored, 2, "{value}");
    }
}

#[test]
fn a_window_is_a_second_at_least_and_four_hundred_days_at_most() {
    let window = |seconds: &str| {
        let policy = format!("\"a\";q=9;w={seconds}");
        let signals = generic(&[("ratelimit-policy", &policy)]);
        (signals.observations[0].window, signals.ignored)
    };
    assert_eq!(window("0"), (None, 1));
    assert_eq!(window("1"), (Some(Span::SECOND), 0));
    assert_eq!(window("34560000"), (Some(Span::LONGEST_PERIOD), 0));
    assert_eq!(window("34560001"), (None, 1));
}

#[test]
fn of_several_values_the_last_counts() {
    let signals = generic(&[
        ("ratelimit-policy", "\"a\";q=1;q=9;w=60;w=30"),
        ("ratelimit", "\"a\";r=5;r=4;t=1, \"a\";r=3;t=2"),
    ]);
    let a = ("a", Unit::Requests, Some(9), Some(3), Some(2_000));
    assert_eq!(rows(&signals), [a]);
    assert_eq!(signals.observations[0].window, Some(Span::from_secs(30)));
}

/// Bytes are none of a provider's units, whatever their number.
#[test]
fn what_a_policy_counts_is_told_by_its_unit() {
    let unit = |parameters: &str| {
        let policy = format!("\"peruser\";q=65535;{parameters}w=10;pk=:sdfjLJUOUH==:");
        let signals = generic(&[("ratelimit-policy", &policy)]);
        assert_eq!(signals.ignored, 0, "{policy}");
        signals.observations[0].unit
    };
    assert_eq!(unit(""), Unit::Requests);
    for requests in [
        "qu=\"requests\";",
        "qu=\"request\";",
        "qu=\"x\";qu=\"requests\";",
    ] {
        assert_eq!(unit(requests), Unit::Requests, "{requests}");
    }
    for other in [
        "qu=\"content-bytes\";",
        "qu=\"concurrent-requests\";",
        "qu=\"\";",
        "acme-qu=\"llm-tokens\";",
    ] {
        assert_eq!(unit(other), Unit::Other, "{other}");
    }
}

/// Each of them was counted as a value that could not be read.
#[test]
fn a_policy_of_the_seventh_form_is_no_fault() {
    let signals = generic(&[
        ("ratelimit", "limit=100, remaining=50, reset=30"),
        ("ratelimit-policy", "100;w=60, 10000;w=86400"),
    ]);
    let all = ("default", Unit::Requests, Some(100), Some(50), Some(30_000));
    assert_eq!((rows(&signals), signals.ignored), (vec![all], 0));
}
