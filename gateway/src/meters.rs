//! What is counted, by the names that Prometheus users know.

use metrics::{Counter, counter, describe_counter, describe_gauge};

use crate::settings::Upstream;

/// Looked up once.
pub struct Meters {
    /// Answers that held no usage.
    pub unknown: Counter,
    /// Answers that broke off.
    pub broken: Counter,
    /// Leases that could not be ended.
    pub unsettled: Counter,
    /// Rate-limit headers whose value could not be read.
    pub ignored: Counter,
    /// Answers that were no refusals, by upstream.
    accepted: Vec<(String, Counter)>,
}

const ANSWERS: &str = "tidegate_gateway_answers_total";

impl Meters {
    pub fn new(upstreams: &[Upstream]) -> Self {
        crate::refuse::describe();
        let answers = "tidegate_gateway_incomplete_answers_total";
        describe_counter!(answers, "Answers that broke off, or held no usage");
        let unsettled = "tidegate_gateway_unsettled_leases_total";
        describe_counter!(unsettled, "Leases that could not be ended; they expire");
        let ignored = "tidegate_gateway_ignored_headers_total";
        describe_counter!(
            ignored,
            "Rate-limit headers of providers whose value could not be read"
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
        describe_counter!(ANSWERS, "Answers of providers, by upstream and kind");
        let accepted = upstreams.iter();
        let accepted = accepted.map(|Upstream { name, .. }| (name.clone(), answers_of(name, "ok")));
        Self {
            unknown: counter!(answers, "why" => "no usage"),
            broken: counter!(answers, "why" => "broke off"),
            unsettled: counter!(unsettled),
            ignored: counter!(ignored),
            accepted: accepted.collect(),
        }
    }

    /// An answer of an upstream that was no refusal.
    pub fn accepted(&self, upstream: &str) {
        let mut known = self.accepted.iter();
        if let Some((_, counter)) = known.find(|(name, _)| name == upstream) {
            counter.increment(1);
        }
    }

    /// No answer of an upstream, or a refusal: its kind, or `unreachable`.
    pub fn refused(&self, upstream: &str, kind: &'static str) {
        answers_of(upstream, kind).increment(1);
    }
}

fn answers_of(upstream: &str, kind: &'static str) -> Counter {
    counter!(ANSWERS, "upstream" => upstream.to_owned(), "kind" => kind)
}
