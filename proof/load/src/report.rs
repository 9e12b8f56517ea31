//! What came of it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::args::{Load, Protocol};
use crate::ledger::Use;
use crate::tally::Tally;
use crate::watch::Nanos;

/// The percentiles that are told.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// A run that is over.
pub struct Report<'a> {
    pub load: &'a Load,
    pub tally: &'a Tally,
    pub uses: Vec<Use>,
    /// Asks that were due and never sent.
    pub unsent: u64,
    /// From the first ask to the last answer.
    pub took: Nanos,
}

impl Report<'_> {
    /// Why the run has failed, if it has.
    pub fn fault(&self) -> Option<String> {
        let exceeded = self.uses.iter().find(|used| used.exceeded > 0);
        if let Some(used) = exceeded {
            return Some(format!(
                "`{}`: more was admitted than the limit",
                used.limit
            ));
        }
        let tally = self.tally;
        let lost = tally.unanswered + self.unsent;
        if tally.errors == 0 && lost == 0 {
            return None;
        }
        let first = tally.first_error.as_deref().unwrap_or("no answer");
        Some(format!(
            "{} errors, {lost} requests without an answer; the first: {first}",
            tally.errors
        ))
    }

    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.tally.answered as f64 * 1e9 / (self.took.max(1) as f64)
    }

    /// For people.
    pub fn text(&self) -> String {
        let tally = self.tally;
        let mut text = String::new();
        let mut line = |name: &str, what: String| {
            let _ = writeln!(text, "{name:<10} {what}");
        };
        line("sent", format!("{}{}", tally.sent, self.asked_for()));
        line(
            "answered",
            format!("{} ({:.0}/s)", tally.answered, self.rate()),
        );
        line("admitted", tally.admitted.to_string());
        line("refused", tally.refused.to_string());
        if tally.settled > 0 {
            line("settled", tally.settled.to_string());
        }
        line("errors", tally.errors.to_string());
        if self.unsent + tally.unanswered > 0 {
            let lost = format!(
                "{} never sent, {} never answered",
                self.unsent, tally.unanswered
            );
            line("lost", lost);
        }
        let latency = PERCENTILES.map(|(name, at)| {
            let nanos = tally.latency.value_at_percentile(at);
            format!("{name} {}", length(nanos))
        });
        line("latency", latency.join("  "));
        for used in &self.uses {
            line("limit", describe(used));
        }
        text
    }

    fn asked_for(&self) -> String {
        match self.load.rate {
            Some(rate) => format!(" ({}/s asked for)", rate.0),
            None => String::new(),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let tally = self.tally;
        let latency = PERCENTILES.map(|(name, at)| {
            let micros = tally.latency.value_at_percentile(at) as f64 / 1e3;
            (name.to_owned(), json!(micros))
        });
        let limits = self.uses.iter().map(|used| {
            json!({
                "limit": used.limit,
                "keys": used.keys,
                "exceeded": used.exceeded,
                "closest": used.closest.map(|(key, admitted, most)| json!({
                    "key": key, "admitted": admitted, "most": most,
                })),
            })
        });
        json!({
            "protocol": match self.load.protocol {
                Protocol::Http => "http",
                Protocol::Grpc => "grpc",
                Protocol::Resp => "resp",
            },
            "rate_asked": self.load.rate.map(|rate| rate.0),
            "connections": self.load.connections,
            "depth": self.load.depth(),
            "batch": self.load.batch,
            "seconds": self.took as f64 / 1e9,
            "sent": tally.sent,
            "answered": tally.answered,
            "rate": self.rate(),
            "admitted": tally.admitted,
            "refused": tally.refused,
            "settled": tally.settled,
            "errors": tally.errors,
            "first_error": tally.first_error,
            "unsent": self.unsent,
            "unanswered": tally.unanswered,
            "latency_us": latency.into_iter().collect::<serde_json::Map<_, _>>(),
            "limits": limits.collect::<Vec<_>>(),
        })
    }

    /// The latencies by percentile, in microseconds, as HdrHistogram's own tools
    /// write and plot them.
    pub fn percentiles(&self) -> String {
        let latency = &self.tally.latency;
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut total = 0;
        for step in latency.iter_quantiles(5) {
            total += step.count_since_last_iteration();
            let quantile = step.quantile_iterated_to();
            let micros = step.value_iterated_to() as f64 / 1e3;
            let _ = write!(text, "{micros:>12.3} {quantile:>14.12} {total:>10}");
            match quantile < 1.0 {
                true => drop(writeln!(text, " {:>14.2}", 1.0 / (1.0 - quantile))),
                false => text.push('\n'),
            }
        }
        let (mean, deviation) = (latency.mean() / 1e3, latency.stdev() / 1e3);
        let (max, count) = (latency.max() as f64 / 1e3, latency.len());
        let _ = writeln!(
            text,
            "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]"
        );
        let _ = writeln!(
            text,
            "#[Max     = {max:>12.3}, Total count    = {count:>12}]"
        );
        text
    }
}

fn describe(used: &Use) -> String {
    let Some((key, admitted, most)) = used.closest else {
        return format!("`{}`: nothing was admitted", used.limit);
    };
    let who = match used.shared {
        true => "all keys together".to_owned(),
        false => format!("key k{key} of {}", used.keys),
    };
    let held = match used.exceeded {
        0 => "held".to_owned(),
        many => format!("EXCEEDED for {many} keys"),
    };
    format!(
        "`{}` {held}: closest was {who}, {admitted} of at most {most}",
        used.limit
    )
}

fn length(nanos: Nanos) -> String {
    match nanos {
        0..1_000_000 => format!("{:.0} us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", nanos as f64 / 1e6),
        _ => format!("{:.2} s", nanos as f64 / 1e9),
    }
}
