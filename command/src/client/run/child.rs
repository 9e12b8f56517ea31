//! The command, from its start to its end.

use std::ffi::OsStr;
use std::future::pending;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal as Number, kill_process};
use tidegate_client::internal::{Lost, keep_renewing};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::args::{OnLost, Run};
use super::leases::{Held, Leases};
use super::signals::{Signal, Signals};
use crate::client::exit::{Outcome, Stop};

/// Variables of ours that let somebody in, or say where what does so lies: the
/// command gets the lease, and nothing that it could acquire another with.
const CREDENTIALS: [&str; 5] = [
    "TIDEGATE_TOKEN",
    "TIDEGATE_STORE",
    "TIDEGATE_STORE_TOKEN",
    "TIDEGATE_CERT",
    "TIDEGATE_CLIENT_KEY",
];

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// By itself.
    Code(u8),
    /// By this signal.
    Signalled(i32),
    /// It never began: there is none.
    NotFound,
    /// It never began: it cannot be executed.
    NotRunnable,
}

impl Status {
    /// What a shell would say.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signalled(number) => u8::try_from(number).map_or(255, |n| n.saturating_add(128)),
            Self::NotFound => 127,
            Self::NotRunnable => 126,
        }
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code as u8),
            (None, Some(number)) => Self::Signalled(number),
            (None, None) => Self::Code(255),
        }
    }
}

/// Runs the command while `held` is kept; answers how it ended, and whether the lease was lost.
pub async fn run(
    run: &Run,
    leases: &impl Leases,
    held: &Held,
    signals: &mut Signals,
) -> (Outcome<Status>, bool) {
    let mut child = match command(run, held).spawn() {
        Ok(child) => child,
        Err(error) => return (Ok(not_started(&run.command[0], &error)), false),
    };
    let mut kept = pin!(renew(leases, held));
    let mut fate = Fate::Kept;
    loop {
        tokio::select! {
            ended = child.wait() => {
                let ended = ended.map_err(Stop::failed);
                return (ended.and_then(|status| fate.ended(status)), fate != Fate::Kept);
            }
            Some(signal) = signals.next() => pass_on(&child, signal),
            why = &mut kept, if fate == Fate::Kept => {
                eprintln!("tidegate run: the lease is lost: {why}");
                fate = lost(run, &child);
            }
            () = fate.grace_over() => {
                send(&child, Number::KILL);
                fate = Fate::Killed;
            }
        }
    }
}

/// Renews the lease while the command runs, and answers why it is lost, if it ever is.
async fn renew(leases: &impl Leases, held: &Held) -> String {
    let note = |why: &str| eprintln!("tidegate run: the lease is not renewed: {why}; trying again");
    // Nobody asks for more than that.
    let (asked, renew) = (pending::<()>, |_| leases.renew(held));
    match keep_renewing(held.sure_until, asked, renew, note).await {
        Lost::Told(why) | Lost::NotRenewed(why) => why,
    }
}

fn command(run: &Run, held: &Held) -> Command {
    let mut command = Command::new(&run.command[0]);
    command.args(&run.command[1..]);
    for credential in CREDENTIALS {
        command.env_remove(credential);
    }
    command.env("TIDEGATE_LEASE", &held.id);
    match held.fence {
        Some(fence) => command.env("TIDEGATE_FENCE", fence.to_string()),
        None => command.env_remove("TIDEGATE_FENCE"),
    };
    // With a store the name is that of these limits: a run in the command has others.
    if run.store.is_none() {
        command.env("TIDEGATE_POLICY", run.name().as_ref());
        command.env("TIDEGATE_SERVER", &run.options.server);
    }
    match run.shown_key() {
        Some(key) => command.env("TIDEGATE_KEY", key),
        None => command.env_remove("TIDEGATE_KEY"),
    };
    command
}

fn not_started(name: &OsStr, error: &std::io::Error) -> Status {
    let shown = name.display();
    eprintln!("tidegate run: cannot run `{shown}`: {error}");
    match error.kind() {
        ErrorKind::NotFound => Status::NotFound,
        _ => Status::NotRunnable,
    }
}

/// What became of the lease while the command runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Kept,
    /// It was lost; the command goes on.
    Borne,
    /// It was lost; the command is told to end by then.
    Ending(Instant),
    /// It was lost, and the command did not end.
    Killed,
}

fn lost(run: &Run, child: &Child) -> Fate {
    if run.on_lost == OnLost::Warn {
        return Fate::Borne;
    }
    send(child, Number::TERM);
    Fate::Ending(Instant::now() + run.grace)
}

impl Fate {
    /// Ready when the command has had its time to end.
    async fn grace_over(self) {
        match self {
            Self::Ending(by) => sleep_until(by).await,
            _ => std::future::pending().await,
        }
    }

    /// A command that was ended for its lease did not do its work.
    fn ended(self, status: ExitStatus) -> Outcome<Status> {
        match self {
            Self::Kept | Self::Borne => Ok(Status::from(status)),
            Self::Ending(_) | Self::Killed => {
                Err(Stop::failed("the command was ended: its lease was lost"))
            }
        }
    }
}

fn pass_on(child: &Child, signal: Signal) {
    if signal.shared {
        return;
    }
    if let Some(number) = Number::from_named_raw(signal.number) {
        send(child, number);
    }
}

/// The command may have ended; but nobody has its number before it was waited
/// for, and then there is none to send to.
fn send(child: &Child, number: Number) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = id.and_then(Pid::from_raw) {
        // An error says that it has ended.
        let _ = kill_process(pid, number);
    }
}
