//! A message that has to come.
//!
//! A call holds a place while its message is read; a client that sends half of
//! one would hold it for ever. So it has its time, unless the client's side is
//! a stream, which may be as quiet as it likes (and holds no place).

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body as _, Frame, SizeHint};
use prost::Message;
use prost_types::FileDescriptorSet;
use tidegate_service::count_timeout;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};

use crate::proto::DESCRIPTORS;
use crate::settings::Settings;

/// The paths of all calls with one message, and how long that may take.
#[derive(Clone, Debug)]
pub struct Unary {
    paths: Arc<HashSet<String>>,
    within: Duration,
}

impl Unary {
    pub fn of(settings: &Settings) -> Self {
        let descriptors = [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
        Self {
            paths: Arc::new(descriptors.into_iter().flat_map(unary).collect()),
            within: settings.body_timeout,
        }
    }

    /// Gives the message of `request` its time.
    pub fn hurry(&self, request: http::Request<Body>) -> http::Request<Body> {
        if !self.paths.contains(request.uri().path()) || request.body().is_end_stream() {
            return request;
        }
        let within = self.within;
        request.map(|body| {
            Body::new(Hurried {
                body,
                deadline: None,
                within,
            })
        })
    }
}

fn unary(descriptors: &[u8]) -> Vec<String> {
    let files = FileDescriptorSet::decode(descriptors)
        .unwrap_or_default()
        .file;
    let mut paths = Vec::new();
    for file in &files {
        for service in &file.service {
            let methods = service.method.iter();
            for method in methods.filter(|method| !method.client_streaming()) {
                let (package, service) = (file.package(), service.name());
                paths.push(format!("/{package}.{service}/{}", method.name()));
            }
        }
    }
    paths
}

/// A body with a deadline, from when it first keeps somebody waiting.
struct Hurried {
    body: Body,
    deadline: Option<Pin<Box<Sleep>>>,
    within: Duration,
}

impl http_body::Body for Hurried {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        let within = self.within;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(deadline.as_mut().poll(context));
        count_timeout("grpc");
        let late = Status::deadline_exceeded("the message took too long to arrive");
        Poll::Ready(Some(Err(late)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
