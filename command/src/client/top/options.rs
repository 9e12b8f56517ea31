//! What is shown, how often, and what is asked of the server for it.

use std::time::Duration;

use clap::Args;
use tidegate_policy::DEFAULT_NAMESPACE;
use tokio::time::{Instant, sleep};

use super::frame::{Frame, Order};
use super::sample::Sample;
use crate::client::arguments::duration;
use crate::client::exit::{DOES, Outcome};
use crate::client::options::Options;
use crate::client::server::Client;

/// Show what a server does, kept up to date
///
/// Policies with their decisions a second, waiting requests and what is held; the
/// waits of leases granted in the interval; and the keys refused most often
/// since the start. The token needs the scope `observe` for all policies, of every
/// namespace or of none.
///
/// ADM, REF, FAIL and DEGR are requests admitted, refused, failed, and decided without the store; P50
/// and P99 how long those that waited did. On the screen: q quits, the arrows choose the column to sort by.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Top {
    /// How often it is brought up to date, and so over how long it counts
    #[arg(long, short, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    pub(super) interval: Duration,

    /// By what policies are sorted
    #[arg(long, short, value_name = "COLUMN", default_value = "refused")]
    pub(super) sort: Order,

    /// How many of the keys refused most often are shown
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=256))]
    denied: u16,

    /// Print one frame as text, after one interval; so it is, too, if the output
    /// is no terminal
    #[arg(long)]
    pub(super) once: bool,

    #[command(flatten)]
    pub(super) options: Options,
}

impl Top {
    /// A frame over one interval.
    pub(super) async fn one(&self, client: &Client) -> Outcome<Frame> {
        let begun = Instant::now();
        let before = self.sample(client).await?;
        sleep(self.interval).await;
        let after = self.sample(client).await?;
        Ok(Frame::between(&before, &after, begun.elapsed(), self.sort))
    }

    pub(super) async fn sample(&self, client: &Client) -> Outcome<Sample> {
        let namespace = self.options.namespace.as_deref();
        let namespace = namespace.filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
        let longest = self.interval.max(LEAST_PATIENCE);
        Sample::take(client, namespace, longest, self.denied).await
    }
}

/// How long an answer may take at least, however short the interval.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

fn interval(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    match length >= Duration::from_millis(100) {
        true => Ok(length),
        false => Err("at least 100ms: the server has other things to do".to_owned()),
    }
}
