//! `tidegate serve`: policies behind listeners, on a store.
//!
//! | room | holds |
//! |---|---|
//! | `args`, `address` | what it is told |
//! | `configuration`, `reload` | its file, read at the start and again |
//! | `applied` | policies applied over those of the file |
//! | `serving` | what goes over to other policies |
//! | `gateway` | what stands before providers of language models |
//! | `listeners`, `settings` | what is served, and what each listener keeps to |
//! | `store`, `runtime` | the store that a URL names, and what the server runs on |
//! | `trouble` | why a command ends, in two sorts |
//! | `tls` | the files that a server is known by |
//! | `signals`, `supervisor` | how it is told to stop, and whom it tells |
//! | `denied` | who is refused most, for `/metrics` |
//! | `otlp` | traces of requests, for a collector |
//! | `logs`, `fast_clock` | logs and the audit log; a clock for demonstrations |

mod address;
mod applied;
mod args;
pub mod configuration;
mod denied;
mod fast_clock;
mod gateway;
mod listeners;
mod logs;
mod otlp;
mod reload;
mod runtime;
mod serving;
mod settings;
mod signals;
pub mod store;
mod supervisor;
mod tls;
pub mod trouble;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tidegate_policy::PolicyFile;
use tidegate_service::Service;
use tidegate_service::bounds::{USUAL_AUDIT, USUAL_EVENTS};
use tokio::time::MissedTickBehavior;
use tracing::info;

use crate::trouble::{Outcome, Trouble};
use applied::Applied;
use listeners::Listeners;
use logs::AuditLog;
use reload::Reload;
use serving::Serving;
use signals::Signals;
use store::StoreWait;
use tidegate_protocol::Tls;
use tls::TlsFiles;

pub use args::{LogForm, Serve};
pub use fast_clock::factor;
pub use gateway::{GatewayArgs, Terms};
pub use logs::error_line;
pub use runtime::runtime;

/// Serves until it is told to stop; with a gateway, if there is one.
pub fn serve(args: &Serve, gateway: Option<&GatewayArgs>) -> Outcome<()> {
    let example = match gateway {
        None => configuration::EXAMPLE,
        Some(_) => configuration::GATEWAY,
    };
    let config = configuration::read(args.config.as_deref(), example)?;
    let audit = AuditLog::default();
    audit.open(reload::audit_path(args, &config.server).as_deref())?;
    let (traces, listener) = otlp::begin(&args.traces, &config.server)?;
    logs::begin(args.log, &audit, listener)?;
    let tls = TlsFiles::choose(args, &config.server)?;
    let tls = tls
        .map(|files| files.read())
        .transpose()?
        .map(|config| Arc::new(Tls::new(&config)));
    let recorder = listeners::recorder()?;
    // A port that is taken leaves nothing behind.
    let runtime = runtime()?;
    let open = Listeners::open(args, &config.server, tls.clone(), traces.clone());
    let listeners = runtime.block_on(open)?;
    let socket = gateway.map(|args| runtime.block_on(args.open()));
    let socket = socket.transpose()?;
    if socket.is_none() {
        listeners.is_any()?;
    }
    // What may not start makes no file, and says nothing of its policies.
    let public = listeners.are_public(socket.as_ref());
    reload::is_safe(args, &config, public)?;
    let (url, by) = match (args.store.as_deref(), config.server.store.as_deref()) {
        (Some(url), _) => (url, store::TYPED),
        (None, Some(url)) => (url, "`store` of the file"),
        (None, None) => (store::USUAL, "as nothing else is said"),
    };
    let listen = || runtime.block_on(async { Signals::listen().map_err(Trouble::failure) });
    // Without a wait, a signal ends the process by itself until it serves.
    let mut signals = args.store_wait.map(|_| listen()).transpose()?;
    let wait = args.store_wait.zip(signals.as_mut());
    let wait = wait.map(|(longest, signals)| StoreWait {
        longest,
        runtime: &runtime,
        signals,
    });
    // A call ends with the gateway that forwards it, and so does what it holds.
    let own = match gateway {
        None => store::for_clients(url),
        Some(_) => url.into(),
    };
    let opened = match wait {
        None => Some(store::open(&own, by)?),
        Some(wait) => wait.open(&own, by)?,
    };
    let Some(opened) = opened else {
        info!("stopped before the store could be opened");
        return Ok(());
    };
    let builder = Service::builder()
        .store(Arc::clone(&opened.store))
        .clock(fast_clock::clock(args.speed))
        .credentials(config.credentials.clone());
    let builder = match config.server.longest_wait {
        Some(longest) => builder.longest_wait(longest),
        None => builder,
    };
    let builder = builder.audit(
        config.server.audit_keep.unwrap_or(USUAL_AUDIT),
        config.server.audit_events.unwrap_or(USUAL_EVENTS),
    );
    let builder = builder.namespaces(reload::of_namespaces(&config));
    let settings = gateway.map(|args| args.settings(&config)).transpose()?;
    let check = |policies: &PolicyFile| match &settings {
        Some(settings) => settings.check(policies, config.credentials.is_empty()),
        None => Ok(()),
    };
    let serves = |policies: &PolicyFile| check(policies).map_err(|why| why.to_string());
    let begin = |place: &PathBuf| {
        Applied::begin(place, &opened.store, &config.policies, serves).map(Arc::new)
    };
    let applied = args.applied.as_ref().map(begin).transpose()?;
    let policies = match &applied {
        Some(applied) => applied.policies(),
        None => config.policies.clone(),
    };
    // Nothing is said to be in use that the gateway cannot serve.
    let like_openai = gateway.is_some_and(GatewayArgs::speaks_like_openai);
    check(&policies).map_err(|why| gateway::refused(&why))?;
    let service = builder.build(&policies).map_err(Trouble::failure)?;
    let gateway = settings.map(|settings| gateway::begin(&service, &policies, settings));
    let gateway = gateway.transpose()?;
    let listeners = match (gateway.clone(), socket) {
        (Some(gateway), Some(socket)) => listeners.with_gateway(gateway, socket),
        _ => listeners,
    };
    let serving = Serving {
        service: service.clone(),
        gateway,
    };
    if let Some(applied) = &applied {
        applied.follow(&serving);
    }
    let mut signals = signals.map_or_else(listen, Ok)?;
    runtime.block_on(async {
        let reload = Reload {
            args: args.clone(),
            example,
            serving: serving.clone(),
            applied: applied.clone(),
            tls,
            audit,
            public,
            settings: config.server.clone(),
        };
        // Whoever reads the announcement may send a signal at once.
        tokio::spawn(reload.follow()?);
        tokio::spawn(keep_up(recorder.clone()));
        let tokens = !config.credentials.is_empty();
        listeners.announce(&policies, &store::shown(url), like_openai, tokens);
        let apply = applied.map(|applied| applied.verb(&serving));
        let held = service.clone();
        let served = listeners
            .serve(service, recorder, &mut signals, apply)
            .await;
        served?;
        tokio::select! {
            () = held.return_grants() => Ok(()),
            () = signals.told_to_stop() => Err(Trouble::failure(
                "told to stop again: not all that tiers hold was given back"
            )),
        }
    })?;
    opened.flush().map_err(Trouble::failure)?;
    traces.finish();
    info!("stopped");
    Ok(())
}

/// Sorts what was measured into its histograms: between two readers of
/// `/metrics` it would pile up without bound.
async fn keep_up(recorder: PrometheusHandle) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        recorder.run_upkeep();
    }
}
