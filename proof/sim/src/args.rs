//! What `provider` is told.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use clap::{Args, Parser};
use tidegate_core::Span;
use tidegate_llm::Provider as Dialect;
use tidegate_sim::call::span;
use tidegate_sim::limit::Limit;
use tidegate_sim::settings::{Change, Charging, Faults, Headers, Pace, Serving, Settings};

const EXAMPLES: &str = "\
Examples:
  OpenAI with 500 requests and 200,000 tokens in each minute:
    provider --limit requests=500/1m --limit tokens=200000/1m

  Anthropic's buckets, with streams of 20 ms a token of which one in a hundred breaks off:
    provider --dialect anthropic --limit requests=50/1m,bucket \\
        --limit input-tokens=40000/1m,bucket --limit output-tokens=8000/1m,bucket \\
        --first 200ms --gap 20ms --cut 0.01

  A limit that is halved after half a minute, and headers that are a second late:
    provider --limit tokens=100000/1m --change 30s:tokens=50000/1m --lag 1s

A call's header `x-sim` wishes for one answer: `x-sim: output=20,cut=5,gap=10ms`; so does the body's
`user`, `\"user\": \"x-sim: output=20\"`, where a gateway on the way lets no header pass. There are
input=N, output=N (tokens), cut=N, end=N, silence=N, error=N (breaks off so after N tokens),
first=TIME, gap=TIME, status=CODE.

GET /sim/ledger tells what was really admitted, refused, used and cut, by credential;
GET /sim/limits?CREDENTIAL where its limits really stand.";

/// A provider of language models for tests
///
/// It enforces limits on each credential, answers in the shapes of OpenAI (chat completions,
/// responses, embeddings), Anthropic (messages) and Gemini, whole or as streams, and fails as
/// providers do. Its tokens are words, four characters of a prompt, or four of a tool's arguments.
#[derive(Debug, Parser)]
#[command(name = "provider", after_long_help = EXAMPLES)]
pub struct Provider {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// What everything that is left to chance is drawn by
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Whose headers are told, and whose habits: openai, azure, anthropic, gemini, groq, mistral,
    /// cerebras, generic (the IETF's RateLimit)
    #[arg(long, value_name = "DIALECT", default_value = "openai")]
    dialect: Dialect,

    /// A limit on each credential: requests, tokens, input-tokens or output-tokens, in fixed
    /// windows, or in a bucket that refills all the time
    #[arg(long, value_name = "UNIT=CAPACITY/PERIOD[,bucket]")]
    limit: Vec<Limit>,

    /// From so long after the start on, the limit of that unit and period has that capacity
    #[arg(long, value_name = "AFTER:UNIT=CAPACITY/PERIOD", value_parser = change)]
    change: Vec<Change>,

    /// What is charged: `larger` of prompt and bound, their `sum`, what is `used` as it comes, or
    /// the sum and in the end what was used (`settled`); default: what the dialect does
    #[arg(long, value_name = "HOW", value_parser = charging)]
    charging: Option<Charging>,

    /// Refused calls count against limits on requests, too
    #[arg(long)]
    counts_refused: bool,

    #[command(flatten)]
    headers: HeaderArgs,

    #[command(flatten)]
    faults: FaultArgs,

    /// Until the first token of an answer
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    first: Span,

    /// Between two tokens of an answer
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    gap: Span,

    /// So many answers at once come at that pace, and of more each is slower; default: any number
    #[arg(long, value_name = "ANSWERS", default_value = "0")]
    slots: u64,

    /// So many answers at once at most: then it is overloaded; default: any number
    #[arg(long, value_name = "ANSWERS", default_value = "0")]
    most_at_once: u64,

    /// From so long after the start on, so many answers at once come at that pace: until the first
    /// token, and between two
    #[arg(long, value_name = "AFTER:ANSWERS,TIME,TIME", value_parser = serving)]
    serving: Vec<Serving>,

    /// Each answer is faster or slower by chance, by up to that share of its time
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    jitter: f64,

    /// How many tokens an answer has, from the least to the most, unless its bound is less
    #[arg(long, value_name = "LEAST-MOST", default_value = "8-64", value_parser = range)]
    output: RangeInclusive<u64>,

    /// What a million tokens cost, of prompts and of answers, in millionths of the currency
    #[arg(long, value_name = "IN,OUT", default_value = "0,0", value_parser = price)]
    price: (u64, u64),

    /// A credential has so much to spend, in millionths: then 429, without a time to come again
    #[arg(long, value_name = "MILLIONTHS")]
    spend_cap: Option<u64>,
}

#[derive(Debug, Args)]
struct HeaderArgs {
    /// Rate-limit headers tell how things stood so long ago
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    lag: Span,

    /// What is left of tokens is told in multiples of this; default: 1,000 at Anthropic, else 1
    #[arg(long, value_name = "TOKENS")]
    rounding: Option<u64>,

    /// The share of answers that have rate-limit headers, from 0 to 1
    #[arg(long = "headers", value_name = "SHARE", default_value = "1", value_parser = share)]
    present: f64,

    /// The share of refusals that say when to come again
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share)]
    retry_after: f64,
}

#[derive(Debug, Args)]
struct FaultArgs {
    /// The share of calls that fail with 500
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    fail: f64,

    /// The share of calls that find the provider overloaded (529 at Anthropic, else 503)
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    overloaded: f64,

    /// The share of answers whose connection is gone in their middle
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    cut: f64,

    /// The share of answers that end in their middle as if they were whole
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    end: f64,

    /// The share of answers that fall silent in their middle
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    silence: f64,

    /// The share of answers that say in their middle that the provider failed
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    error: f64,

    /// The share of answers that are ten times as slow
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    slow: f64,
}

impl Provider {
    /// What it is like.
    ///
    /// # Errors
    /// What to write instead.
    pub fn settings(&self) -> Result<Settings, String> {
        let same = |change: &Change, limit: &Limit| {
            (change.limit.unit, change.limit.period) == (limit.unit, limit.period)
        };
        let known = |change: &&Change| self.limit.iter().any(|limit| same(change, limit));
        if let Some(change) = self.change.iter().find(|change| !known(change)) {
            return Err(format!(
                "--change {}: no --limit has that unit and period",
                change.limit
            ));
        }
        let mut changes = self.change.clone();
        changes.sort_by_key(|change| change.after);
        let mut serving = self.serving.clone();
        serving.sort_by_key(|serving| serving.after);
        let (headers, faults) = (&self.headers, &self.faults);
        Ok(Settings {
            dialect: self.dialect,
            limits: self.limit.clone(),
            changes,
            charging: self.charging.unwrap_or(Charging::of(self.dialect)),
            counts_refused: self.counts_refused,
            headers: Headers {
                lag: headers.lag,
                rounding: headers
                    .rounding
                    .unwrap_or(Headers::of(self.dialect).rounding),
                present: headers.present,
                retry_after: headers.retry_after,
            },
            faults: Faults {
                fail: faults.fail,
                overloaded: faults.overloaded,
                cut: faults.cut,
                end: faults.end,
                silence: faults.silence,
                error: faults.error,
                slow: faults.slow,
            },
            pace: Pace {
                first: self.first,
                gap: self.gap,
            },
            slots: self.slots,
            most_at_once: self.most_at_once,
            serving,
            jitter: self.jitter,
            output: self.output.clone(),
            price: self.price,
            spend_cap: self.spend_cap,
        })
    }
}

fn change(text: &str) -> Result<Change, String> {
    let (after, limit) = text
        .split_once(':')
        .ok_or("write AFTER:UNIT=CAPACITY/PERIOD")?;
    Ok(Change {
        after: span(after)?,
        limit: limit.parse()?,
    })
}

fn serving(text: &str) -> Result<Serving, String> {
    const EXPECTED: &str = "write AFTER:ANSWERS,TIME,TIME, such as 5m:16,200ms,20ms";
    let (after, served) = text.split_once(':').ok_or(EXPECTED)?;
    let parts: Vec<&str> = served.split(',').collect();
    let [slots, first, gap] = parts[..] else {
        return Err(EXPECTED.to_owned());
    };
    Ok(Serving {
        after: span(after)?,
        slots: slots.parse().map_err(|_| EXPECTED)?,
        pace: Pace {
            first: span(first)?,
            gap: span(gap)?,
        },
    })
}

fn charging(text: &str) -> Result<Charging, String> {
    Charging::named(text).ok_or_else(|| "write larger, sum, used or settled".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1".to_owned())
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    const EXPECTED: &str = "write LEAST-MOST, such as 8-64";
    let (least, most) = text.split_once('-').ok_or(EXPECTED)?;
    let (least, most) = (
        least.parse().map_err(|_| EXPECTED)?,
        most.parse().map_err(|_| EXPECTED)?,
    );
    match least <= most {
        true => Ok(least..=most),
        false => Err(EXPECTED.to_owned()),
    }
}

fn price(text: &str) -> Result<(u64, u64), String> {
    const EXPECTED: &str = "write IN,OUT, such as 1250000,10000000";
    let (input, output) = text.split_once(',').ok_or(EXPECTED)?;
    Ok((
        input.parse().map_err(|_| EXPECTED)?,
        output.parse().map_err(|_| EXPECTED)?,
    ))
}
