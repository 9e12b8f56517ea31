//! gRPC: a call for each ask, or a stream of batches.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::proto::{
    AcquireRequest, CheckManyRequest, CheckRequest, CheckResponse, LeaseRequest, SettleRequest,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::arrivals::Ask;
use crate::pipeline::Run;
use crate::policy::{Asking, Question};
use crate::watch::Nanos;
use crate::wire::Answer;

/// Opens a connection.
pub async fn connect(place: SocketAddr) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{place}"));
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    let channel = endpoint.tcp_nodelay(true).connect().await;
    channel.map_err(|error| error.to_string())
}

/// What is asked, as messages.
#[derive(Clone)]
pub struct Asker {
    client: TidegateClient<Channel>,
    run: Rc<Run>,
    question: Rc<Question>,
    token: Option<MetadataValue<Ascii>>,
}

impl Asker {
    /// Asks over a connection that is open.
    pub fn new(
        run: Rc<Run>,
        question: Rc<Question>,
        channel: Channel,
        token: Option<MetadataValue<Ascii>>,
    ) -> Self {
        Self {
            client: TidegateClient::new(channel),
            run,
            question,
            token,
        }
    }

    /// Asks by calls, one after the other, until nothing more is to be asked.
    pub async fn call(mut self) {
        let run = Rc::clone(&self.run);
        let mut overdue = std::pin::pin!(run.arrivals.overdue());
        loop {
            let now = run.watch.now();
            let Some(ask) = run.arrivals.take(now) else {
                if run.arrivals.is_over(now) {
                    return;
                }
                run.arrivals.some().await;
                continue;
            };
            run.arrivals.pass_on();
            run.tally.borrow_mut().sent += 1;
            tokio::select! {
                () = self.call_once(ask, now) => {}
                () = overdue.as_mut() => {
                    let mut tally = run.tally.borrow_mut();
                    tally.unanswered += 1;
                    return tally.failed("no answer came in time");
                }
            }
        }
    }

    async fn call_once(&mut self, ask: Ask, sent: Nanos) {
        let told = match self.wants_lease() {
            false => {
                let request = self.request(self.check(ask.key));
                self.client
                    .check(request)
                    .await
                    .map(|told| (told.into_inner(), None))
            }
            true => {
                let request = AcquireRequest {
                    request: Some(self.check(ask.key)),
                    ..AcquireRequest::default()
                };
                let request = self.request(request);
                let told = self.client.acquire(request).await;
                told.map(|told| {
                    let told = told.into_inner();
                    (told.decision.unwrap_or_default(), told.lease)
                })
            }
        };
        let now = self.run.watch.now();
        match told {
            Ok((response, lease)) => {
                self.hear(&response, ask, (sent, now));
                if let Some(lease) = lease {
                    self.settle(ask.key, lease.id).await;
                }
            }
            Err(status) => {
                let failed = Answer::Failed(words(&status));
                self.run.tally.borrow_mut().answered(&failed, ask.due, now);
            }
        }
    }

    async fn settle(&mut self, key: u32, lease: String) {
        let check = self.check(key);
        let request = self.request(SettleRequest {
            lease: Some(LeaseRequest {
                policy: check.policy,
                key: check.key,
                lease,
                ..Default::default()
            }),
            ..SettleRequest::default()
        });
        let settled = self.client.settle(request).await;
        let mut tally = self.run.tally.borrow_mut();
        match settled {
            Ok(_) => tally.settled += 1,
            Err(status) => tally.failed(&words(&status)),
        }
    }

    /// Asks in batches on one stream, until nothing more is to be asked.
    pub async fn stream(mut self, batch: usize) {
        let run = Rc::clone(&self.run);
        let mut waiting: VecDeque<Vec<(Ask, Nanos)>> = VecDeque::new();
        let told = tokio::select! {
            told = self.stream_on(batch, &mut waiting) => told,
            () = run.arrivals.overdue() => Err("no answer came in time".to_owned()),
        };
        if let Err(reason) = told {
            let mut tally = run.tally.borrow_mut();
            tally.unanswered += waiting.iter().map(Vec::len).sum::<usize>() as u64;
            tally.failed(&reason);
        }
    }

    async fn stream_on(
        &mut self,
        batch: usize,
        waiting: &mut VecDeque<Vec<(Ask, Nanos)>>,
    ) -> Result<(), String> {
        let run = Rc::clone(&self.run);
        let (sender, receiver) = mpsc::channel(run.depth);
        let request = self.request(ReceiverStream::new(receiver));
        let stream = self.client.check_stream(request).await;
        let mut stream = stream.map_err(|status| words(&status))?.into_inner();
        loop {
            while waiting.len() < run.depth {
                let asks = self.next_batch(batch);
                if asks.is_empty() {
                    break;
                }
                let checks = asks.iter().map(|(ask, _)| self.check(ask.key)).collect();
                let message = CheckManyRequest {
                    checks,
                    correlation: 0,
                };
                waiting.push_back(asks);
                // Never full: it has room for all that may wait.
                sender
                    .try_send(message)
                    .map_err(|error| error.to_string())?;
            }
            let over = run.arrivals.is_over(run.watch.now());
            if waiting.is_empty() && over {
                return Ok(());
            }
            let room = waiting.len() < run.depth && !over;
            tokio::select! {
                biased;
                message = stream.message(), if !waiting.is_empty() => {
                    let answers = message.map_err(|status| words(&status))?;
                    let answers = answers.ok_or("the server has closed the stream")?.answers;
                    let now = run.watch.now();
                    let asks = waiting.pop_front().unwrap_or_default();
                    if asks.len() != answers.len() {
                        return Err("not every request of a batch is answered".to_owned());
                    }
                    for ((ask, sent), answer) in asks.into_iter().zip(&answers) {
                        self.hear(answer, ask, (sent, now));
                    }
                }
                () = run.arrivals.some(), if room => {}
            }
        }
    }

    fn next_batch(&self, most: usize) -> Vec<(Ask, Nanos)> {
        let now = self.run.watch.now();
        let next = || self.run.arrivals.take(now).map(|ask| (ask, now));
        let asks: Vec<_> = std::iter::from_fn(next).take(most).collect();
        self.run.arrivals.pass_on();
        self.run.tally.borrow_mut().sent += asks.len() as u64;
        asks
    }

    fn hear(&self, response: &CheckResponse, ask: Ask, (sent, now): (Nanos, Nanos)) {
        let answer = match &response.problem {
            Some(problem) => Answer::Failed(format!("{}: {}", problem.code, problem.message)),
            None if response.admitted => Answer::Admitted(None),
            None => Answer::Refused,
        };
        self.run.tally.borrow_mut().answered(&answer, ask.due, now);
        if response.admitted {
            self.run.ledger.borrow_mut().admitted(ask.key, sent, now);
        }
    }

    fn wants_lease(&self) -> bool {
        matches!(self.question.asking, Asking::Policy { lease: true, .. })
    }

    fn check(&self, key: u32) -> CheckRequest {
        let policy = match &self.question.asking {
            Asking::Policy { name, .. } => name.clone(),
            _ => String::new(),
        };
        let none = |name: &String| (name.clone(), 0);
        CheckRequest {
            policy,
            key: format!("{}{key}", self.question.key_prefix).into(),
            cost: Some(self.question.cost),
            amounts: self.question.left_out.iter().map(none).collect(),
            ..Default::default()
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        request
    }
}

fn words(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
