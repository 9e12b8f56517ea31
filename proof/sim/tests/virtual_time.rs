//! The provider in virtual time: what it enforces, tells and draws.

use proptest::prelude::*;
use tidegate_core::{Span, Timestamp};
use tidegate_llm::{Provider, Received, Signals, Unit};
use tidegate_sim::call::{Call, Shape};
use tidegate_sim::headers::Header;
use tidegate_sim::limit::Limit;
use tidegate_sim::refusal::Refusal;
use tidegate_sim::settings::{Change, Charging, Settings};
use tidegate_sim::sim::{End, Reply, Sim};

/// The beginning of a day.
const BEGIN: Timestamp = Timestamp::from_micros(1_800_057_600_000_000);

fn at(millis: u64) -> Timestamp {
    BEGIN.after_micros(u128::from(millis) * 1_000)
}

fn settings(dialect: Provider, limits: &[&str]) -> Settings {
    Settings {
        limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(),
        ..Settings::of(dialect)
    }
}

fn sim(settings: Settings) -> Sim {
    Sim::new(settings, 7, BEGIN)
}

/// A call whose prompt has so many tokens, and its answer at most so many.
fn call(prompt: u64, bound: u64) -> Call {
    let body = format!(r#"{{"model":"m","max_tokens":{bound}}}"#);
    let wish = format!("input={prompt},output={bound}");
    Call::read(
        Shape::Chat,
        "/v1/chat/completions",
        body.as_bytes(),
        Some(&wish),
    )
    .unwrap()
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refusal(refusal) => refusal,
        Reply::Answer(..) => panic!("it is admitted"),
    }
}

fn headers(reply: Reply) -> Vec<Header> {
    match reply {
        Reply::Answer(_, headers) => headers,
        Reply::Refusal(refusal) => panic!("it is refused: {refusal:?}"),
    }
}

fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| &**value)
}

#[test]
fn the_same_seed_gives_the_same_answers_and_another_does_not() {
    let play = |seed| {
        let mut settings = settings(Provider::OpenAi, &["requests=40/1m"]);
        (settings.faults.fail, settings.faults.cut) = (0.2, 0.3);
        let mut sim = Sim::new(settings, seed, BEGIN);
        let body = br#"{"model":"m","stream":true}"#;
        let call = Call::read(Shape::Chat, "/v1/chat/completions", body, None).unwrap();
        let reply = |number: u64| sim.ask(at(number * 10), "a", &call);
        (0..60).map(reply).collect::<Vec<_>>()
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn a_refusal_says_when_it_would_be_admitted_and_is_right_to_the_millisecond() {
    for limit in [
        "tokens=100/1m",
        "tokens=100/1m,bucket",
        "requests=1/7s,bucket",
    ] {
        let mut sim = sim(settings(Provider::AzureOpenAi, &[limit]));
        headers(sim.ask(at(1_000), "a", &call(40, 30)));
        let refused = refusal(sim.ask(at(1_000), "a", &call(40, 30)));
        assert_eq!(refused.status, 429);
        let wait: u64 = header(&refused.headers, "retry-after-ms")
            .unwrap()
            .parse()
            .unwrap();
        refusal(sim.ask(at(1_000 + wait - 1), "a", &call(40, 30)));
        headers(sim.ask(at(1_000 + wait), "a", &call(40, 30)));
        headers(sim.ask(at(1_000), "another account", &call(40, 30)));
    }
}

#[test]
fn more_answers_at_once_than_slots_are_slower_and_too_many_are_refused() {
    let mut settings = settings(Provider::Anthropic, &[]);
    (settings.slots, settings.most_at_once) = (2, 4);
    settings.pace.first = Span::from_millis(100);
    let mut sim = sim(settings);
    let first = |reply| match reply {
        Reply::Answer(answer, _) => (answer.id, answer.pace.first),
        Reply::Refusal(refusal) => panic!("it is refused: {refusal:?}"),
    };
    let begun: Vec<_> = (0..4)
        .map(|_| first(sim.ask(at(0), "a", &call(1, 1))))
        .collect();
    let millis = begun.iter().map(|(_, first)| first.as_micros() / 1_000);
    assert_eq!(millis.collect::<Vec<_>>(), [100, 100, 150, 200]);
    assert_eq!(refusal(sim.ask(at(0), "a", &call(1, 1))).status, 529);
    sim.end(at(1), begun[0].0, End::Whole);
    first(sim.ask(at(1), "a", &call(1, 1)));
}

#[test]
fn a_refused_call_takes_nothing_unless_it_counts_as_a_request() {
    for (counts, remaining) in [(false, 9), (true, 8)] {
        let mut settings = settings(Provider::AzureOpenAi, &["requests=10/1m", "tokens=100/1m"]);
        settings.counts_refused = counts;
        let mut sim = sim(settings);
        headers(sim.ask(at(0), "a", &call(50, 20)));
        refusal(sim.ask(at(0), "a", &call(50, 20)));
        let standings = sim.standings(at(0), "a");
        assert_eq!(
            (standings[0].remaining, standings[1].remaining),
            (remaining, 30)
        );
    }
}

#[test]
fn tokens_are_charged_as_each_provider_charges_them() {
    for (charging, at_start, at_end) in [
        (Charging::Larger, 400, 400),
        (Charging::Sum, 500, 500),
        (Charging::Used, 100, 107),
        (Charging::Settled, 500, 107),
    ] {
        let mut settings = settings(Provider::OpenAi, &["tokens=10000/1m"]);
        settings.charging = charging;
        let mut sim = sim(settings);
        let Reply::Answer(answer, _) = sim.ask(at(0), "a", &call(100, 400)) else {
            panic!("it is admitted");
        };
        let used = |sim: &mut Sim| 10_000 - sim.standings(at(1), "a")[0].remaining;
        assert_eq!(used(&mut sim), at_start, "{charging:?}");
        sim.produced(at(1), answer.id, 7);
        sim.end(at(1), answer.id, End::Broken);
        sim.end(at(1), answer.id, End::Whole);
        assert_eq!(used(&mut sim), at_end, "{charging:?}");
        let (_, entry) = sim.ledger().next().unwrap();
        assert_eq!((entry.input_tokens, entry.output_tokens), (100, 7));
        assert_eq!((entry.open, entry.broken, entry.whole), (0, 1, 0));
    }
}

#[test]
fn headers_are_those_of_each_dialect() {
    let limits = [
        "requests=50/1m",
        "tokens=1000/1m,bucket",
        "requests=5000/1d",
    ];
    let told = |dialect| {
        let mut settings = settings(dialect, &limits);
        settings.charging = Charging::Sum;
        let headers = headers(sim(settings).ask(at(15_500), "a", &call(40, 60)));
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
    };
    let anthropic = [
        "anthropic-ratelimit-requests-limit: 50",
        "anthropic-ratelimit-requests-remaining: 49",
        "anthropic-ratelimit-requests-reset: 2027-01-16T00:01:00Z",
        "anthropic-ratelimit-tokens-limit: 1000",
        "anthropic-ratelimit-tokens-remaining: 1000",
        "anthropic-ratelimit-tokens-reset: 2027-01-16T00:00:22Z",
    ];
    assert_eq!(told(Provider::Anthropic), anthropic);
    let openai = [
        "x-ratelimit-limit-requests: 50",
        "x-ratelimit-remaining-requests: 49",
        "x-ratelimit-reset-requests: 44.5s",
        "x-ratelimit-limit-tokens: 1000",
        "x-ratelimit-remaining-tokens: 900",
        "x-ratelimit-reset-tokens: 6s",
    ];
    assert_eq!(told(Provider::OpenAi), openai);
    let groq = [
        "x-ratelimit-limit-requests: 5000",
        "x-ratelimit-remaining-requests: 4999",
        "x-ratelimit-reset-requests: 23h59m44.5s",
    ];
    assert_eq!(told(Provider::Groq)[..3], groq);
    assert_eq!(
        told(Provider::AzureOpenAi)[2],
        "x-ratelimit-reset-requests: 45"
    );
    let cerebras = told(Provider::Cerebras);
    assert_eq!(cerebras[2], "x-ratelimit-reset-requests-minute: 44.500000");
    assert_eq!(cerebras[3], "x-ratelimit-limit-requests-day: 5000");
    assert_eq!(
        told(Provider::Mistral)[3],
        "x-ratelimit-remaining-tokens-minute: 900"
    );
    let generic = [
        "ratelimit-policy: \"requests-60\";q=50;w=60, \"tokens-60\";q=1000;w=60;sim-qu=\"llm-tokens\", \"requests-86400\";q=5000;w=86400",
        "ratelimit: \"requests-60\";r=49;t=45, \"tokens-60\";r=900;t=6, \"requests-86400\";r=4999;t=86385",
    ];
    assert_eq!(told(Provider::Generic), generic);
    assert!(told(Provider::Gemini).is_empty());
}

#[test]
fn what_is_told_is_what_the_gateway_reads() {
    for dialect in Provider::all() {
        let limits = ["requests=50/1m", "tokens=100000/1m", "requests=5000/1d"];
        let told = headers(sim(settings(dialect, &limits)).ask(at(500), "a", &call(40, 60)));
        let pairs = told
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let map: http::HeaderMap = pairs.collect();
        let signals = Signals::read(dialect, &map, Received::new(at(500), &map));
        assert_eq!(signals.ignored, 0, "{dialect}");
        let tells_nothing = matches!(dialect, Provider::Gemini | Provider::Bedrock);
        assert_eq!(signals.observations.is_empty(), tells_nothing, "{dialect}");
        for seen in &signals.observations {
            let expected = match seen.unit {
                Unit::Tokens | Unit::Other => 100_000,
                _ if seen.window == Some(Span::from_secs(86_400)) => 5_000,
                _ if seen.limit == Some(5_000) => 5_000,
                _ => 50,
            };
            assert_eq!(seen.limit, Some(expected), "{dialect}: {seen:?}");
            let left = seen.remaining.unwrap();
            assert!(
                left < expected && left >= expected.saturating_sub(500),
                "{dialect}: {seen:?}"
            );
        }
    }
}

#[test]
fn headers_that_lag_tell_an_old_limit_while_the_new_one_is_enforced() {
    let mut settings = settings(Provider::AzureOpenAi, &["tokens=1000/1m"]);
    settings.headers.lag = Span::from_secs(2);
    let halved: Limit = "tokens=500/1m".parse().unwrap();
    settings.changes = vec![Change {
        after: Span::from_secs(10),
        limit: halved,
    }];
    let mut sim = sim(settings);
    let told = |sim: &mut Sim, millis| {
        let headers = headers(sim.ask(at(millis), "a", &call(60, 40)));
        let value = |name| header(&headers, name).unwrap().parse::<u64>().unwrap();
        (
            value("x-ratelimit-limit-tokens"),
            value("x-ratelimit-remaining-tokens"),
        )
    };
    assert_eq!(told(&mut sim, 0), (1_000, 1_000));
    assert_eq!(told(&mut sim, 1_000), (1_000, 1_000));
    assert_eq!(told(&mut sim, 2_500), (1_000, 900));
    assert_eq!(sim.standings(at(10_000), "a")[0].remaining, 200);
    assert_eq!(told(&mut sim, 10_000), (1_000, 700));
    assert_eq!(told(&mut sim, 12_000), (500, 100));
    refusal(sim.ask(at(12_000), "a", &call(60, 40)));
}

#[test]
fn headers_and_times_to_come_again_are_left_out_as_often_as_told() {
    let mut settings = settings(Provider::OpenAi, &["requests=1/1m"]);
    (settings.headers.present, settings.headers.retry_after) = (0.5, 0.5);
    let mut sim = sim(settings);
    headers(sim.ask(at(0), "a", &call(1, 1)));
    let refused: Vec<Refusal> = (0..200)
        .map(|_| refusal(sim.ask(at(1), "a", &call(1, 1))))
        .collect();
    for name in ["retry-after", "x-ratelimit-limit-requests"] {
        let told = refused
            .iter()
            .filter(|one| header(&one.headers, name).is_some())
            .count();
        assert!((60..140).contains(&told), "{name}: {told}");
    }
}

#[test]
fn a_days_quota_and_money_that_is_spent_are_refused_as_such() {
    let mut daily = sim(settings(Provider::Gemini, &["requests=1/1d"]));
    let gemini = |text| {
        Call::read(
            Shape::Gemini,
            "/v1beta/models/m:generateContent",
            text,
            None,
        )
        .unwrap()
    };
    headers(daily.ask(at(0), "a", &gemini(b"{}")));
    let refused = refusal(daily.ask(at(0), "a", &gemini(b"{}")));
    let body = refused.body.to_string();
    assert!(
        body.contains("PerDay") && body.contains("\"retryDelay\":\"86400s\""),
        "{body}"
    );
    assert_eq!(daily.ledger().next().unwrap().1.refused_quota, 1);

    let mut settings = settings(Provider::OpenAi, &["requests=100/1m"]);
    (settings.price, settings.spend_cap) = ((1_000_000, 10_000_000), Some(100));
    let mut capped = sim(settings);
    let Reply::Answer(answer, _) = capped.ask(at(0), "a", &call(50, 5)) else {
        panic!("it is admitted");
    };
    capped.produced(at(0), answer.id, 5);
    capped.end(at(0), answer.id, End::Whole);
    let refused = refusal(capped.ask(at(0), "a", &call(50, 5)));
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (429, &"insufficient_quota".into())
    );
    assert_eq!(header(&refused.headers, "retry-after"), None);
    assert_eq!(
        capped.ledger().next().unwrap().1.json()["spent_millionths"],
        100
    );
}

#[test]
fn a_stranger_is_refused_when_there_are_too_many() {
    let mut sim = sim(settings(Provider::OpenAi, &[]));
    for number in 0..tidegate_sim::sim::MOST_ACCOUNTS {
        headers(sim.ask(at(0), &number.to_string(), &call(1, 1)));
    }
    assert_eq!(refusal(sim.ask(at(0), "one more", &call(1, 1))).status, 401);
    headers(sim.ask(at(0), "17", &call(1, 1)));
}

proptest! {
    /// In each window no more is admitted than its capacity, whatever comes when.
    #[test]
    fn no_window_admits_more_than_its_capacity(
        calls in prop::collection::vec((0_u64..3_000, 1_u64..50, 1_u64..50, any::<bool>()), 1..200),
    ) {
        let mut settings = settings(Provider::AzureOpenAi, &["tokens=200/10s", "requests=4/10s"]);
        settings.charging = Charging::Sum;
        let mut sim = sim(settings);
        let (mut now, mut windows) = (0, std::collections::HashMap::<u64, (u64, u64)>::new());
        for (passed, prompt, bound, ends) in calls {
            now += passed;
            if let Reply::Answer(answer, _) = sim.ask(at(now), "a", &call(prompt, bound)) {
                let window = windows.entry(now / 10_000).or_default();
                window.0 += prompt + bound;
                window.1 += 1;
                if ends {
                    sim.produced(at(now), answer.id, answer.tokens);
                    sim.end(at(now), answer.id, End::Whole);
                }
            }
        }
        prop_assert!(windows.values().all(|(tokens, calls)| *tokens <= 200 && *calls <= 4));
        let (_, entry) = sim.ledger().next().unwrap();
        prop_assert_eq!(entry.calls, entry.admitted + entry.refused_rate);
        prop_assert_eq!(entry.admitted, entry.open + entry.whole);
        prop_assert_eq!(entry.admitted, windows.values().map(|window| window.1).sum::<u64>());
    }
}
