//! The provider over HTTP: the state behind a lock, time by the clock, answers at their pace.
//!
//! `POST` what a provider is asked; `GET /sim/ledger` tells what was really done, by account (the
//! credential as it was sent), `GET /sim/limits?ACCOUNT` where its limits really stand.

use std::convert::Infallible;
use std::future::IntoFuture;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{any, get};
use axum::serve::ListenerExt;
use futures_util::stream;
use serde_json::{Map, Value, json};
use tidegate_core::{Span, Timestamp};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::answer::Answer;
use crate::call::{Break, Call, Shape};
use crate::headers::Header;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::shapes;
use crate::sim::{End, Reply, Sim};

/// A body has at most so many bytes.
const LONGEST_BODY: usize = 32 * 1024 * 1024;

/// A provider and its clock.
struct Shared {
    sim: Mutex<Sim>,
    began: Timestamp,
    since: Instant,
}

impl Shared {
    fn sim(&self) -> MutexGuard<'_, Sim> {
        self.sim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.began.after_micros(self.since.elapsed().as_micros())
    }
}

/// Answers until the task is dropped.
///
/// # Errors
/// What the listener says.
pub async fn serve(listener: TcpListener, settings: Settings, seed: u64) -> io::Result<()> {
    let began = jiff::Timestamp::now().as_microsecond();
    let sim = Sim::new(settings, seed, Timestamp::from_micros(began));
    serve_sim(listener, sim).await
}

/// The same of a provider at hand, whose time goes on from its beginning by the clock of tokio, which
/// a test may have stopped.
///
/// # Errors
/// What the listener says.
pub async fn serve_sim(listener: TcpListener, sim: Sim) -> io::Result<()> {
    let shared = Arc::new(Shared {
        began: sim.began(),
        sim: Mutex::new(sim),
        since: Instant::now(),
    });
    let router = Router::new()
        .route("/sim/ledger", get(ledger))
        .route("/sim/limits", get(limits))
        .fallback(any(call))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(shared);
    // A token goes out when it is due, and not when the bytes before it were acknowledged.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    axum::serve(listener, router).into_future().await
}

async fn ledger(State(shared): State<Arc<Shared>>) -> Response {
    let sim = shared.sim();
    let accounts = sim
        .ledger()
        .map(|(name, entry)| (name.to_owned(), entry.json()));
    json_of(200, &[], &Value::Object(accounts.collect::<Map<_, _>>()))
}

async fn limits(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let account = uri.query().unwrap_or(ANONYMOUS);
    let standings = shared.sim().standings(shared.now(), account);
    let standings = standings.iter().map(|standing| {
        json!({
            "limit": standing.limit.to_string(),
            "remaining": standing.remaining,
            "reset_ms": standing.reset.millis_up(),
        })
    });
    json_of(200, &[], &standings.collect())
}

async fn call(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let account = account(&headers);
    let now = shared.now();
    let Some(shape) = Shape::of(uri.path()) else {
        let message = format!("no such path: {}", uri.path());
        return refused(&shared.sim().bad(now, &account, Shape::Chat, 404, message));
    };
    let wish = headers
        .get("x-sim")
        .map(|wish| wish.to_str().unwrap_or("?"));
    let call = match Call::read(shape, uri.path(), &body, wish) {
        Ok(call) => call,
        Err(message) => return refused(&shared.sim().bad(now, &account, shape, 400, message)),
    };
    let reply = shared.sim().ask(now, &account, &call);
    match reply {
        Reply::Refusal(refusal) => refused(&refusal),
        Reply::Answer(answer, headers) => {
            let under_way = UnderWay {
                shared,
                id: answer.id,
                ended: false,
            };
            match answer.stream {
                true => streamed(under_way, answer, &headers),
                false => whole(under_way, answer, &headers).await,
            }
        }
    }
}

/// The account of callers that show no credential.
const ANONYMOUS: &str = "anonymous";

/// The credential as it was sent, or who calls without one.
fn account(headers: &HeaderMap) -> String {
    // A proxy with a credential of its own in `authorization` may pass the caller's beside it.
    const NAMES: [&str; 4] = ["x-api-key", "api-key", "x-goog-api-key", "authorization"];
    let sent = NAMES
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok());
    let sent = sent.map(|sent| sent.strip_prefix("Bearer ").unwrap_or(sent));
    sent.unwrap_or(ANONYMOUS).to_owned()
}

/// An admitted call, until its answer has ended: dropped before, its client is gone.
struct UnderWay {
    shared: Arc<Shared>,
    id: u64,
    ended: bool,
}

impl UnderWay {
    fn produced(&self, tokens: u64) {
        let now = self.shared.now();
        self.shared.sim().produced(now, self.id, tokens);
    }

    fn end(&mut self, end: End) {
        if !std::mem::replace(&mut self.ended, true) {
            let now = self.shared.now();
            self.shared.sim().end(now, self.id, end);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.end(End::Cut);
    }
}

fn refused(refusal: &Refusal) -> Response {
    json_of(refusal.status, &refusal.headers, &refusal.body)
}

fn json_of(status: u16, headers: &[Header], body: &Value) -> Response {
    response(
        status,
        headers,
        "application/json",
        Body::from(body.to_string()),
    )
}

fn response(status: u16, headers: &[Header], kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let told = response.headers_mut();
    told.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            told.insert(*name, value);
        }
    }
    response
}

/// An answer that is one object: made in full before its first byte, and charged in full even if
/// its client does not wait.
async fn whole(mut under_way: UnderWay, answer: Answer, headers: &[Header]) -> Response {
    let (tokens, broken) = match answer.broken {
        Some((after, how)) => (after, Some(how)),
        None => (answer.tokens, None),
    };
    under_way.produced(tokens);
    wait(answer.pace.whole(tokens)).await;
    let body = shapes::whole(&answer).to_string();
    let Some(how) = broken else {
        under_way.end(End::Whole);
        return response(200, headers, "application/json", Body::from(body));
    };
    if how == Break::Silence {
        return std::future::pending().await;
    }
    under_way.end(End::Broken);
    if how == Break::Error {
        let failed = shapes::failure(&answer);
        let failed = failed
            .trim_start_matches(|letter| letter != '{')
            .trim_end()
            .to_owned();
        return response(500, headers, "application/json", Body::from(failed));
    }
    let half = body[..body.len() / 2].to_owned();
    let body = match how {
        Break::End => Body::from(half),
        _ => Body::from_stream(stream::unfold(Some(half), cut)),
    };
    response(200, headers, "application/json", body)
}

/// The half of a body, and then no connection any more.
async fn cut(half: Option<String>) -> Option<(Event, Option<String>)> {
    if half.is_none() {
        // The half is written before the connection goes.
        tokio::task::yield_now().await;
    }
    let event = half.ok_or_else(|| io::Error::other("cut"));
    Some((event, None))
}

/// An answer as events.
fn streamed(under_way: UnderWay, answer: Answer, headers: &[Header]) -> Response {
    let line = Line {
        under_way,
        answer,
        at: Step::Opening,
    };
    let events = stream::unfold(line, async |line| {
        let (event, line) = line.next().await?;
        Some((event, line))
    });
    response(
        200,
        headers,
        "text/event-stream; charset=utf-8",
        Body::from_stream(events),
    )
}

/// A stream on its way.
struct Line {
    under_way: UnderWay,
    answer: Answer,
    at: Step,
}

/// What comes next.
#[derive(Clone, Copy)]
enum Step {
    Opening,
    Token(u64),
    Nothing,
}

type Event = Result<String, io::Error>;

impl Line {
    async fn next(mut self) -> Option<(Event, Self)> {
        let answer = &self.answer;
        match self.at {
            Step::Nothing => None,
            Step::Opening => {
                wait(answer.pace.first).await;
                let events = shapes::opening(answer);
                self.at = Step::Token(0);
                Some((Ok(events), self))
            }
            Step::Token(number) if answer.broken.is_some_and(|(after, _)| after == number) => {
                self.break_off().await
            }
            Step::Token(number) if number < answer.tokens => {
                if number > 0 {
                    wait(answer.pace.gap).await;
                }
                self.under_way.produced(1);
                let event = shapes::piece(answer, number);
                self.at = Step::Token(number + 1);
                Some((Ok(event), self))
            }
            Step::Token(_) => {
                let events = shapes::closing(answer);
                self.under_way.end(End::Whole);
                self.at = Step::Nothing;
                Some((Ok(events), self))
            }
        }
    }

    async fn break_off(mut self) -> Option<(Event, Self)> {
        let how = self.answer.broken.map_or(Break::End, |(_, how)| how);
        if how == Break::Silence {
            std::future::pending::<Infallible>().await;
        }
        // What was written so far is on its way, before the connection goes.
        tokio::task::yield_now().await;
        self.under_way.end(End::Broken);
        self.at = Step::Nothing;
        match how {
            Break::Cut => Some((Err(io::Error::other("cut")), self)),
            Break::Error => Some((Ok(shapes::failure(&self.answer)), self)),
            Break::End | Break::Silence => None,
        }
    }
}

async fn wait(span: Span) {
    if span > Span::from_micros(0) {
        sleep(span.as_duration()).await;
    }
}
