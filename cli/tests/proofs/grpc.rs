//! A client of the gRPC listener, as the proto file makes it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;

use tidegate_grpc::proto;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;

use crate::client::{Client, Lease, Request, Said, Standing, strange};

pub struct Grpc {
    runtime: Runtime,
    client: TidegateClient<Channel>,
}

impl Grpc {
    pub fn connect(at: SocketAddr) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(TidegateClient::connect(format!("http://{at}")));
        Ok(Self {
            runtime,
            client: client.map_err(io::Error::other)?,
        })
    }
}

fn amounts(request: Request<'_>) -> HashMap<String, u64> {
    let amounts = request.amounts.iter();
    amounts
        .map(|&(limit, amount)| (limit.to_owned(), amount))
        .collect()
}

fn check_request(request: Request<'_>) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: request.policy.to_owned(),
        key: request.key.as_bytes().to_vec().into(),
        amounts: amounts(request),
        ..Default::default()
    }
}

/// Runs a call of the client to its end.
macro_rules! call {
    ($self:ident.$verb:ident($request:expr)) => {{
        let answer = $self.runtime.block_on($self.client.$verb($request));
        answer.map_err(io::Error::other)?.into_inner()
    }};
}

impl Client for Grpc {
    fn check(&mut self, request: Request<'_>) -> io::Result<Said> {
        let answer = call!(self.check(check_request(request)));
        match (
            answer.admitted,
            answer.not_until_us,
            answer.problem.is_none(),
        ) {
            (true, _, true) => Ok(Said::Yes),
            (false, Some(until), true) => Ok(Said::No(until.unsigned_abs())),
            _ => Err(strange(answer)),
        }
    }

    fn debit(&mut self, request: Request<'_>) -> io::Result<()> {
        call!(self.debit(check_request(request)));
        Ok(())
    }

    fn acquire(&mut self, request: Request<'_>, name: Option<&str>) -> io::Result<Option<Lease>> {
        let request = proto::AcquireRequest {
            request: Some(check_request(request)),
            idempotency_key: name.map(|name| name.as_bytes().to_vec().into()),
            ..Default::default()
        };
        let answer = call!(self.acquire(request));
        Ok(answer.lease.map(|lease| Lease {
            id: lease.id,
            fence: lease.fence.expect("of a slot"),
            repeated: lease.repeated,
        }))
    }

    fn settle(&mut self, request: Request<'_>, lease: &str) -> io::Result<bool> {
        let request = proto::SettleRequest {
            lease: Some(proto::LeaseRequest {
                policy: request.policy.to_owned(),
                key: request.key.as_bytes().to_vec().into(),
                lease: lease.to_owned(),
                ..Default::default()
            }),
            used: amounts(request),
            ..Default::default()
        };
        let answer = call!(self.settle(request));
        match answer.expired {
            false => Ok(answer.repeated),
            true => Err(strange(answer)),
        }
    }

    fn peek(&mut self, request: Request<'_>) -> io::Result<BTreeMap<String, Standing>> {
        let answer = call!(self.peek(check_request(request)));
        let stands = |(name, at): (String, proto::Standing)| {
            let (limit, remaining) = (at.limit, at.remaining);
            (name, Standing { limit, remaining })
        };
        Ok(answer.limits.into_iter().map(stands).collect())
    }
}
