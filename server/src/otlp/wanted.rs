//! Where traces are sent to, and which.

use clap::Args;
use tidegate_policy::ServerSettings;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::Registry;

/// What hears of spans.
pub type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Where traces are sent to, and which.
#[derive(Args, Clone, Debug, Default)]
pub struct OtlpArgs {
    /// Send a span of each request to this collector (OTLP over HTTP), such as
    /// http://127.0.0.1:4318; for programs built with the feature `otlp`
    #[arg(long, value_name = "URL", env = "TIDEGATE_OTLP")]
    otlp: Option<String>,

    /// Keep one trace in so many of those that begin here; what a caller's
    /// `traceparent` says of its own trace takes precedence. Default: all
    #[arg(long, value_name = "N", env = "TIDEGATE_OTLP_ONE_IN", value_parser = clap::value_parser!(u32).range(1..))]
    otlp_one_in: Option<u32>,

    /// Tell the collector keys as well: who was limited
    #[arg(long, env = "TIDEGATE_OTLP_KEYS")]
    otlp_keys: bool,
}

/// What is asked for, once flags and file are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) url: String,
    pub(super) one_in: u32,
    pub(super) keys: bool,
}

impl Wanted {
    pub(super) fn choose(args: &OtlpArgs, file: &ServerSettings) -> Option<Self> {
        Some(Self {
            url: args.otlp.clone().or_else(|| file.otlp.clone())?,
            one_in: args.otlp_one_in.or(file.otlp_one_in).unwrap_or(1),
            keys: args.otlp_keys || file.otlp_keys == Some(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_goes_before_the_file() {
        let mut file = ServerSettings::default();
        assert_eq!(Wanted::choose(&OtlpArgs::default(), &file), None);
        file.otlp = Some("http://file".to_owned());
        file.otlp_one_in = Some(10);
        let of_file = Wanted::choose(&OtlpArgs::default(), &file);
        let of_file = of_file.expect("the file asks for it");
        assert_eq!((of_file.one_in, of_file.keys), (10, false));
        let args = OtlpArgs {
            otlp: Some("http://flag".to_owned()),
            otlp_one_in: Some(3),
            otlp_keys: true,
        };
        let wanted = Wanted::choose(&args, &file).expect("both ask for it");
        assert_eq!(
            (&*wanted.url, wanted.one_in, wanted.keys),
            ("http://flag", 3, true)
        );
    }
}
