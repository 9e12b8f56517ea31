//! A client of the HTTP listener, on one connection.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Map, Value, json};

use crate::client::{Client, Lease, Request, Said, Standing, strange};
use crate::server::PATIENCE;

pub struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    pub fn connect(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// The status of the answer, and its body.
    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        self.send("POST", path, body)
    }

    /// As [`post`](Self::post), in place of what is there.
    pub fn put(&mut self, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        self.send("PUT", path, body)
    }

    /// As [`post`](Self::post), of what is to go.
    pub fn delete(&mut self, path: &str) -> io::Result<(u16, Value)> {
        self.send("DELETE", path, &json!({}))
    }

    fn send(&mut self, method: &str, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (status, body) = self.answer()?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok((status, body))
    }

    /// What `/metrics` says of a name (and its labels).
    pub fn metric(&mut self, name: &str) -> io::Result<f64> {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        self.stream.get_mut().write_all(request)?;
        let (_, body) = self.answer()?;
        let body = String::from_utf8_lossy(&body);
        let mut values = body.lines().filter_map(|line| line.strip_prefix(name));
        let value = values.find_map(|value| value.trim().parse().ok());
        value.ok_or_else(|| io::Error::other(format!("no {name} in {body}")))
    }

    fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status.ok_or(io::ErrorKind::InvalidData)?, body))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

fn amounts(request: Request<'_>) -> Map<String, Value> {
    let amounts = request.amounts.iter();
    amounts
        .map(|&(limit, amount)| (limit.to_owned(), amount.into()))
        .collect()
}

fn body(request: Request<'_>) -> Value {
    json!({"policy": request.policy, "key": request.key, "amounts": amounts(request)})
}

fn instant(text: &Value) -> Option<u64> {
    let instant: jiff::Timestamp = text.as_str()?.parse().ok()?;
    u64::try_from(instant.as_microsecond()).ok()
}

impl Client for Http {
    fn check(&mut self, request: Request<'_>) -> io::Result<Said> {
        match self.post("/v1/check", &body(request))? {
            (200, answer) if answer["admitted"] == true => Ok(Said::Yes),
            (429, answer) => match instant(&answer["not_until"]) {
                Some(until) => Ok(Said::No(until)),
                None => Err(strange(answer)),
            },
            answer => Err(strange(answer)),
        }
    }

    fn debit(&mut self, request: Request<'_>) -> io::Result<()> {
        match self.post("/v1/debit", &body(request))? {
            (200, _) => Ok(()),
            answer => Err(strange(answer)),
        }
    }

    fn acquire(&mut self, request: Request<'_>, name: Option<&str>) -> io::Result<Option<Lease>> {
        let mut body = body(request);
        if let Some(name) = name {
            body["idempotency_key"] = name.into();
        }
        let (status, answer) = self.post("/v1/acquire", &body)?;
        let lease = &answer["lease"];
        match (status, lease["id"].as_str(), lease["fence"].as_u64()) {
            (429, ..) => Ok(None),
            (200, Some(id), Some(fence)) => Ok(Some(Lease {
                id: id.to_owned(),
                fence,
                repeated: lease["repeated"] == true,
            })),
            _ => Err(strange((status, answer))),
        }
    }

    fn settle(&mut self, request: Request<'_>, lease: &str) -> io::Result<bool> {
        let body = json!({
            "policy": request.policy, "key": request.key, "lease": lease, "used": amounts(request),
        });
        match self.post("/v1/settle", &body)? {
            (200, answer) if answer["expired"] == false => Ok(answer["repeated"] == true),
            answer => Err(strange(answer)),
        }
    }

    fn peek(&mut self, request: Request<'_>) -> io::Result<BTreeMap<String, Standing>> {
        let (status, answer) = self.post("/v1/peek", &body(request))?;
        let limits = answer["limits"].as_object().filter(|_| status == 200);
        let stands = |(name, at): (&String, &Value)| {
            let number = |what: &str| at[what].as_u64();
            let (limit, remaining) = (number("limit")?, number("remaining")?);
            Some((name.clone(), Standing { limit, remaining }))
        };
        let limits = limits.and_then(|limits| limits.iter().map(stands).collect());
        limits.ok_or_else(|| strange((status, &answer)))
    }
}
