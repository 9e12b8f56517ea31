//! Who may use the store, and what goes to and fro.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream;
use tidegate_policy::Scope;
use tidegate_protocol::Share;
use tidegate_remote::offered::Offered;
use tidegate_remote::proto::Payload;
use tidegate_remote::proto::store_server::Store;
use tidegate_service::Caller;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::entry::entered;
use crate::error;
use crate::long_calls::LongCalls;

/// The largest request, in bytes: a batch has many keys, and a change of limits.
pub const LARGEST_REQUEST: usize = 16 << 20;

/// What a stream goes on by.
type Following = (watch::Receiver<u64>, Share, Arc<Offered>);

/// The store that is offered, as a gRPC service.
#[derive(Clone)]
pub struct OfferedApp {
    offered: Arc<Offered>,
    long_calls: LongCalls,
}

impl OfferedApp {
    pub fn new(offered: Arc<Offered>, long_calls: LongCalls) -> Self {
        Self {
            offered,
            long_calls,
        }
    }

    /// One who may use the store: with tokens, by the scope `store` for all policies, and by
    /// none that is for one namespace alone.
    fn caller<R>(request: &Request<R>) -> Result<Caller, Status> {
        let may = entered(request).and_then(|caller| {
            caller.check(Scope::Store, None)?;
            Ok(caller)
        });
        let caller = may.map_err(|wrong| error::status(&wrong))?;
        match caller.namespace() {
            None => Ok(caller),
            Some(_) => Err(Status::permission_denied(
                "a token for a namespace may not use the store",
            )),
        }
    }
}

#[tonic::async_trait]
impl Store for OfferedApp {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<Payload, Status>> + Send>>;

    async fn call(&self, mut request: Request<Payload>) -> Result<Response<Payload>, Status> {
        Self::caller(&request)?;
        // It was read. How many are answered, and how many wait, the store bounds.
        let read = request.extensions_mut().remove::<Arc<Share>>();
        drop(read);
        let answered = self.offered.answer(&request.get_ref().body).await;
        let answered = answered.map_err(|unread| Status::invalid_argument(unread.to_string()))?;
        let mut response = Response::new(Payload {
            body: answered.body.into(),
        });
        if let Some(leases) = answered.undelivered {
            response.extensions_mut().insert(Arc::new(leases));
        }
        Ok(response)
    }

    async fn follow(
        &self,
        request: Request<Payload>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let place = self.long_calls.take(&Self::caller(&request)?)?;
        let mut defined = self.offered.defined();
        defined.mark_changed();
        let told = stream::unfold(
            (defined, place, Arc::clone(&self.offered)),
            |(mut defined, place, offered): Following| async move {
                tokio::select! {
                    // An error says that the store is gone.
                    changed = defined.changed() => changed.ok()?,
                    () = offered.closed() => return None,
                }
                defined.mark_unchanged();
                Some((Ok(Payload::default()), (defined, place, offered)))
            },
        );
        Ok(Response::new(Box::pin(told)))
    }
}

impl fmt::Debug for OfferedApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfferedApp").finish_non_exhaustive()
    }
}
