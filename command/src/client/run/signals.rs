//! The signals that end or stir a command.
//!
//! What the kernel sends for a terminal (Ctrl-C, a line that hangs up) goes to
//! every process in the foreground, so the command has it already: a second one
//! would be one too many for whoever asks "really quit?". What somebody sends
//! to us alone is passed on.

use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::siginfo::Cause;
use tokio::sync::mpsc;

use crate::client::exit::{Outcome, Stop};

const CAUGHT: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// How many may wait to be passed on; the same one again adds nothing.
const PENDING: usize = 16;

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// The command was sent it, too.
    pub shared: bool,
}

/// The signals that come.
#[derive(Debug)]
pub struct Signals(mpsc::Receiver<Signal>);

impl Signals {
    /// From here on, they no longer end this process. Those that it was told to
    /// ignore (by `nohup`, say) are ignored further on, by the command, too.
    pub fn catch() -> Outcome<Self> {
        let ignored = ignored();
        let caught = CAUGHT.iter().filter(|n| ignored >> (**n - 1) & 1 == 0);
        let signals = SignalsInfo::<WithOrigin>::new(caught)
            .map_err(|error| Stop::failed(format!("cannot catch signals: {error}")))?;
        let (sender, receiver) = mpsc::channel(PENDING);
        thread::spawn(move || collect(signals, &sender));
        Ok(Self(receiver))
    }

    /// Those that have come are answered.
    pub fn forget(&mut self) {
        while self.0.try_recv().is_ok() {}
    }

    /// The next one.
    pub async fn next(&mut self) -> Option<Signal> {
        self.0.recv().await
    }
}

fn collect(mut signals: SignalsInfo<WithOrigin>, sender: &mpsc::Sender<Signal>) {
    for origin in signals.forever() {
        match sender.try_send(Signal::from(&origin)) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return,
        }
    }
}

impl From<&Origin> for Signal {
    fn from(origin: &Origin) -> Self {
        Self {
            number: origin.signal,
            shared: origin.cause == Cause::Kernel,
        }
    }
}

/// The signals that this process ignores, a bit each (proc(5), `SigIgn`); none
/// where the system does not say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
