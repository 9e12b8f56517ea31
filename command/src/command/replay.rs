//! `tidegate replay`: from the command line to the files it asks for.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use tidegate::Unit;
use tidegate_policy::Policy;

use super::policy::{Found, find};
use super::progress::Progress;
use crate::args::{Replay, Reserve};
use crate::client::Client;
use crate::plot::{Picture, Window, draw_svg, draw_text, plot_width};
use crate::replay::{Charges, Run, Server, play, play_through};
use crate::report::{Summary, Titles, as_json, write_decisions, write_table};
use crate::subject::{Kind, Subject, subjects};
use crate::trace::{Meaning, Trace, load, open};
use tidegate_server::runtime;
use tidegate_server::trouble::{Outcome, Trouble};

/// Bins of the picture in a file.
const BINS: u64 = 240;

/// Replays as the command line says.
pub fn replay(args: &Replay) -> Outcome<()> {
    let found = find(&args.policy)?;
    counts_ones(&found.policy)?;
    let limits = subjects(&found.policy);
    let charges = charges(args, &limits)?;
    let trace = read(args)?;
    check(args, &charges, &trace)?;
    advise(args, &limits);
    let mut progress = Progress::of(trace.requests.len() as u64, "replaying", !args.no_progress);
    let tick = || progress.tick();
    let run = match &args.server {
        None => play(trace, &found.policy, limits, charges, args.wait, tick)?,
        Some(url) => {
            let server = Server {
                client: Client::new(url, (args.token.read()?, None), &args.tls, 0)?,
                policy: found.policy.name.clone(),
                speed: args.speed,
                wait: args.wait,
            };
            let played = play_through(server, trace, limits, charges, tick);
            runtime()?.block_on(played)?
        }
    };
    drop(progress);
    show(args, &titles(args, &found), &run)
}

/// A trace's costs are whole ones, and so must be what they are held against.
fn counts_ones(policy: &Policy) -> Outcome<()> {
    let mut limits = policy.limit_lists().flatten();
    let Some(limit) = limits.find(|limit| limit.amounts() != Unit::ONE) else {
        return Ok(());
    };
    let (name, unit) = (limit.name(), limit.amounts());
    Err(Trouble::usage(format!(
        "limit `{name}` counts in steps of {unit}, and the costs of a trace are whole ones: replay \
         a copy of the policy that says no `unit`, with its amounts and the trace's costs as so \
         many times {unit}"
    )))
}

fn read(args: &Replay) -> Outcome<Trace> {
    let opened = open(&args.trace, args.format, args.time_field.clone())?;
    let meaning = Meaning {
        key: args.key.clone(),
        cost: args.cost_field.clone(),
        context: args.context_field.clone(),
        generated: args.generated_field.clone(),
    };
    let mut progress = Progress::counting("reading", !args.no_progress);
    load(&args.trace, opened, &meaning, || progress.tick())
}

fn charges(args: &Replay, limits: &[Subject]) -> Outcome<Charges> {
    let named: Vec<&str> = args
        .cost_field
        .iter()
        .filter_map(|cost| cost.limit.as_deref())
        .collect();
    let charged: Vec<&str> = limits
        .iter()
        .filter(|limit| limit.is_charged())
        .map(|limit| limit.name.as_str())
        .collect();
    if let Some(name) = named.iter().find(|name| !charged.contains(name)) {
        let known = charged.join(", ");
        return Err(Trouble::usage(format!(
            "--cost-field names `{name}`, which is no rate or budget of the policy ({known})"
        )));
    }
    Ok(Charges::new(limits, &named, args.reserve, args.service))
}

/// What the command line asks for must be in the trace.
fn check(args: &Replay, charges: &Charges, trace: &Trace) -> Outcome<()> {
    let lacks = |has: fn(&crate::trace::Request) -> bool| !trace.requests.iter().all(has);
    if charges.needs_cost() && lacks(|request| request.cost.is_some()) {
        return Err(Trouble::usage(
            "the policy has a rate or a budget, and the trace does not say what a request costs; \
             name the field that does with --cost-field",
        ));
    }
    if matches!(args.reserve, Reserve::Context(_)) && lacks(|request| request.context.is_some()) {
        return Err(Trouble::usage(
            "--reserve context+N: the trace has no context tokens; name their field with \
             --context-field, or write --reserve total or a number",
        ));
    }
    if args.service.per_token_us > 0 && lacks(|request| request.generated.is_some()) {
        return Err(Trouble::usage(
            "--service per_token: the trace has no generated tokens; name their field with \
             --generated-field, or write --service with one length such as 250ms",
        ));
    }
    Ok(())
}

/// A word about what is probably not meant.
fn advise(args: &Replay, limits: &[Subject]) {
    if args.server.is_some() {
        if args.speed > 1 {
            let speed = args.speed;
            eprintln!(
                "note: at --speed {speed} each millisecond on the way to the server and back is \
                 {speed} ms of the trace, in which a slot is held; the server must run at \
                 --speed {speed}, too. Without --server the trace is played in virtual time"
            );
        }
        return;
    }
    let held = limits.iter().find(|limit| limit.kind == Kind::Concurrency);
    if let (Some(limit), 0, 0) = (held, args.service.first_us, args.service.per_token_us) {
        eprintln!(
            "note: without --service a request takes no time, and `{}` never fills",
            limit.name
        );
    }
}

fn titles(args: &Replay, found: &Found) -> Titles {
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let file = name(&args.policy.file);
    let policy = if found.alone {
        file
    } else {
        format!("{file}#{}", found.policy.name)
    };
    let trace = if args.trace == Path::new("-") {
        "standard input".into()
    } else {
        name(&args.trace)
    };
    Titles { trace, policy }
}

fn show(args: &Replay, titles: &Titles, run: &Run) -> Outcome<()> {
    let summary = Summary::of(run);
    if let Some(path) = &args.decisions {
        write_decisions(run, path)?;
    }
    if let Some(path) = &args.plot {
        let window = Window::new(run.length(), BINS);
        let svg = draw_svg(&Picture::of(run, titles, &summary, window));
        std::fs::write(path, svg).map_err(|error| Trouble::file("write", path, error))?;
    }
    match print(args, titles, run, &summary) {
        // Who stops reading has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Trouble::failure(error)),
        _ => Ok(()),
    }
}

fn print(args: &Replay, titles: &Titles, run: &Run, summary: &Summary) -> io::Result<()> {
    let terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    if args.json {
        return writeln!(out, "{}", as_json(titles, run, summary));
    }
    write_table(&mut out, titles, run, summary)?;
    if (terminal && !args.no_text_plot) || args.text_plot {
        let columns = terminal_size::terminal_size().map_or(100, |(width, _)| width.0);
        let window = Window::exactly(run.length(), plot_width(columns));
        write!(
            out,
            "{}",
            draw_text(&Picture::of(run, titles, summary, window))
        )?;
    }
    let written = [("picture", &args.plot), ("decisions", &args.decisions)];
    for (what, path) in written {
        if let Some(path) = path {
            writeln!(out, "\n{what} in {}", path.display())?;
        }
    }
    out.flush()
}
