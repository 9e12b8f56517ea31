//! Who makes a call, and whether one more of theirs may be inside: known by the call's head,
//! before its message is read.

use std::sync::Arc;

use tidegate_protocol::{Shares, bearer};
use tidegate_service::{Caller, Crowded, Origin, Service, ServiceError};
use tonic::body::Body;
use tonic::codegen::http;

use crate::unasked::OfConnection;

/// How many calls may be inside, and who is let in.
pub struct Entry {
    service: Service,
    inside: Shares,
}

impl Entry {
    pub fn new(service: Service, most: usize) -> Self {
        Self {
            service,
            inside: Shares::new(most),
        }
    }

    /// Lets a call in. Its caller (a [`Caller`]) and its permit (an `Arc` of a
    /// [`Share`](tidegate_protocol::Share)) go along with it.
    pub fn let_in(&self, request: &mut http::Request<Body>) -> Result<(), ServiceError> {
        let mut share = self
            .inside
            .take()
            .ok_or(ServiceError::Busy(Crowded::Requests))?;
        let header = request.headers().get("authorization");
        let token = header.and_then(|value| bearer(value.as_bytes()));
        let connection = request.extensions().get::<OfConnection>();
        let origin = Origin {
            protocol: "grpc",
            peer: connection.and_then(|connection| connection.peer),
        };
        let caller = self.service.enter_by(token)?.coming_from(origin);
        if !share.belong_to(caller.token()) {
            return Err(ServiceError::Busy(Crowded::OfToken));
        }
        let extensions = request.extensions_mut();
        extensions.insert(Arc::new(share));
        extensions.insert(caller);
        Ok(())
    }
}

/// Who makes a call that was let in.
pub fn entered<R>(request: &tonic::Request<R>) -> Result<Caller, ServiceError> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or(ServiceError::Unauthenticated)
}
