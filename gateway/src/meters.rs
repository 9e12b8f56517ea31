//! What is counted, by the names that Prometheus users know.

use metrics::{Counter, counter, describe_counter, describe_gauge};

/// Looked up once.
pub struct Meters {
    /// Answers that said nothing of usage.
    pub unknown: Counter,
    /// Answers that broke off.
    pub broken: Counter,
    /// Leases that could not be ended.
    pub unsettled: Counter,
    /// Headers' values that were none.
    pub ignored: Counter,
}

impl Meters {
    pub fn new() -> Self {
        let answers = "tidegate_gateway_incomplete_answers_total";
        describe_counter!(answers, "Answers that broke off, or said nothing of usage");
        let unsettled = "tidegate_gateway_unsettled_leases_total";
        describe_counter!(unsettled, "Leases that could not be ended; they expire");
        let ignored = "tidegate_gateway_ignored_headers_total";
        describe_counter!(
            ignored,
            "Values of providers' rate-limit headers that are none"
        );
        for (gauge, what) in [
            ("tidegate_gateway_limit", "What a learnt limit grants"),
            (
                "tidegate_gateway_remaining",
                "What was left of a learnt limit at the last grant",
            ),
            (
                "tidegate_gateway_provider_limit",
                "A limit, as the provider said it last",
            ),
            (
                "tidegate_gateway_provider_remaining",
                "What is left of it, as the provider said it last",
            ),
        ] {
            describe_gauge!(gauge, what);
        }
        let signal = "tidegate_gateway_signal_seconds";
        describe_gauge!(signal, "The time that a learnt concurrency went by last");
        let samples = "tidegate_gateway_samples_total";
        describe_counter!(samples, "Answers that a learnt concurrency went by");
        let elsewhere = "tidegate_gateway_used_elsewhere_total";
        describe_counter!(elsewhere, "What was charged because others use the account");
        let upstream = "tidegate_gateway_answers_total";
        describe_counter!(upstream, "Answers of providers, by upstream and kind");
        Self {
            unknown: counter!(answers, "why" => "no usage"),
            broken: counter!(answers, "why" => "broke off"),
            unsettled: counter!(unsettled),
            ignored: counter!(ignored),
        }
    }

    /// An answer of an upstream: `ok`, a kind of refusal, or `unreachable`.
    pub fn answered(&self, upstream: &str, kind: &'static str) {
        counter!("tidegate_gateway_answers_total", "upstream" => upstream.to_owned(), "kind" => kind)
            .increment(1);
    }
}
