//! A collector: it listens, and keeps what is posted to it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;

/// A span, as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub name: String,
    pub trace: String,
    pub parent: String,
    pub service: String,
    pub attributes: BTreeMap<String, String>,
}

impl Told {
    pub fn says(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

/// Listens until the test ends.
pub struct Collector {
    pub url: String,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let kept = Arc::clone(&told);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.expect("accepted"), Arc::clone(&kept));
                thread::spawn(move || answer(stream, &kept));
            }
        });
        Self {
            url: format!("http://{at}"),
            told,
        }
    }

    /// What it was told, once its server has stopped.
    pub fn told(&self) -> Vec<Told> {
        self.told.lock().expect("no panic").clone()
    }
}

/// Takes one request after the other.
fn answer(stream: TcpStream, kept: &Mutex<Vec<Told>>) {
    let mut stream = BufReader::new(stream);
    while let Some(body) = request(&mut stream) {
        let request = ExportTraceServiceRequest::decode(&*body).expect("the protocol's message");
        kept.lock().expect("no panic").extend(spans(&request));
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0";
        let stream = stream.get_mut();
        write!(stream, "{head}\r\n\r\n").expect("written");
    }
}

/// The body of the next request; its head must be right.
fn request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    assert_eq!(head[0], "post /v1/traces http/1.1");
    let says = |name: &str| head.iter().find_map(|line| line.strip_prefix(name));
    assert_eq!(says("content-type: "), Some("application/x-protobuf"));
    let length = says("content-length: ").expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Told> {
    let mut told = Vec::new();
    for of_resource in &request.resource_spans {
        let resource = of_resource.resource.as_ref().expect("a resource");
        let service = attributes(&resource.attributes)["service.name"].clone();
        let spans = of_resource
            .scope_spans
            .iter()
            .flat_map(|scope| &scope.spans);
        told.extend(spans.map(|span| {
            assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
            Told {
                name: span.name.clone(),
                trace: hex(&span.trace_id),
                parent: hex(&span.parent_span_id),
                service: service.clone(),
                attributes: attributes(&span.attributes),
            }
        }));
    }
    told
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let each = all.iter().map(|one| (one.key.clone(), text(&one.value)));
    each.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
