//! A message that has to arrive, unless the client's side is a stream, which may be as
//! quiet as it likes (and holds no permit).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use prost::Message;
use prost_types::FileDescriptorSet;
use tidegate_protocol::TimedBody;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

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
        let descriptors = [
            DESCRIPTORS,
            tidegate_remote::proto::DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
        ];
        Self {
            paths: Arc::new(descriptors.into_iter().flat_map(unary).collect()),
            within: settings.body_timeout,
        }
    }

    /// Gives the message of `request` its time.
    pub fn time(&self, request: http::Request<Body>) -> http::Request<Body> {
        if !self.paths.contains(request.uri().path()) || request.body().is_end_stream() {
            return request;
        }
        let late = || Status::deadline_exceeded("the message took too long to arrive").into();
        request.map(|body| Body::new(TimedBody::new(body, "grpc", self.within).or(late)))
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
