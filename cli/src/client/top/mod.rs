//! `tidegate top`: what a server does, kept up to date.
//!
//! | room | holds |
//! |---|---|
//! | `exposition` | the server's metrics, read |
//! | `sample` | what they say of each policy at one moment |
//! | `quantile` | how long the longest of a hundred has waited |
//! | `frame` | what has happened between two moments |
//! | `plain` | a frame as text |
//! | `screen` | frames on a terminal (the feature `screen`) |

mod exposition;
mod frame;
mod plain;
mod quantile;
mod sample;
#[cfg(feature = "screen")]
mod screen;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use super::ask::duration;
use super::command::runtime;
use super::exit::{Exit, Outcome, TABLE};
use super::options::Options;
use super::server::Client;
use super::verbs::print;
use frame::{Frame, Order};
use sample::Sample;

/// Show what a server does, kept up to date
///
/// Policies with their decisions a second, who waits and what is held; the
/// waits of leases granted in the interval; and the keys refused most often
/// since the start. The token needs the scope `observe` for all policies.
///
/// On the screen: q quits, the arrows choose the column to sort by.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub struct Top {
    /// How often it is brought up to date, and so over how long it counts
    #[arg(long, short, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Duration,

    /// By what policies are sorted
    #[arg(long, short, value_name = "COLUMN", default_value = "refused")]
    sort: Order,

    /// How many of the keys refused most often are shown
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=256))]
    denied: u16,

    /// Print one frame as text, after one interval; so it is, too, if the output
    /// is no terminal
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    options: Options,
}

impl Top {
    /// Shows it, until it is told to stop.
    pub fn perform(&self) -> Outcome<Exit> {
        let client = self.options.connect()?;
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        runtime()?.block_on(async {
            #[cfg(feature = "screen")]
            if terminal && !self.once {
                return screen::show(self, &client).await;
            }
            let _ = terminal;
            let frame = self.one(&client).await?;
            print(&plain::text(&frame))?;
            Ok(Exit::Done)
        })
    }

    /// A frame over one interval.
    async fn one(&self, client: &Client) -> Outcome<Frame> {
        let begun = Instant::now();
        let before = self.sample(client).await?;
        sleep(self.interval).await;
        let after = self.sample(client).await?;
        Ok(Frame::between(&before, &after, begun.elapsed(), self.sort))
    }

    async fn sample(&self, client: &Client) -> Outcome<Sample> {
        Sample::take(client, self.interval.max(LEAST_PATIENCE), self.denied).await
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
