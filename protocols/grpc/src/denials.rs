//! Refusals as a stream. A reader that is too slow misses some, and is told
//! how many: nobody who decides waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_service::{Denial, DenialWatch};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::Status;

use crate::{error, proto};

/// How many refusals a reader may be behind.
const BEHIND: usize = 1_024;

/// The refusals that somebody may see; they end at the first one after their token is one
/// no more.
pub fn watch(watch: DenialWatch) -> impl Stream<Item = Result<proto::Denial, Status>> + use<> {
    let (sender, receiver) = mpsc::channel(BEHIND);
    let missed = AtomicU64::new(0);
    let watcher = watch.tell(move |denial| match denial {
        Ok(denial) => {
            let denial = told(denial, missed.swap(0, Ordering::Relaxed));
            if let Err(mpsc::error::TrySendError::Full(Ok(lost))) = sender.try_send(Ok(denial)) {
                missed.fetch_add(lost.missed + 1, Ordering::Relaxed);
            }
        }
        // Full: it is ended by the next one.
        Err(wrong) => drop(sender.try_send(Err(error::status(&wrong)))),
    });
    // The stream keeps the watcher; dropped, it watches no more.
    ReceiverStream::new(receiver).map(move |told| {
        let _kept = &watcher;
        told
    })
}

fn told(denial: &Denial<'_>, missed: u64) -> proto::Denial {
    let decision = denial.decision;
    proto::Denial {
        policy: denial.policy.to_owned(),
        key: denial.key.to_vec().into(),
        binding: decision.binding().unwrap_or_default().to_owned(),
        not_until_us: decision.not_until().map(|at| at.as_micros()),
        missed,
    }
}
