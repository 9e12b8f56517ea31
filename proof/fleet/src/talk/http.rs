//! HTTP, on one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call::{Answer, Call, Client, PATIENCE, Verb, Word, base64};
use super::json;

/// A client of the HTTP listener.
#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
}

pub(super) fn speaks(verb: Verb) -> bool {
    !matches!(verb, Verb::CheckStream | Verb::Throttle | Verb::Info)
}

impl Http {
    /// A connection of its own.
    ///
    /// # Errors
    /// If the server does not listen.
    pub fn connect(at: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        client.patience(PATIENCE);
        Ok(client)
    }

    /// The status of the answer, and its body.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>), String> {
        self.send_with("", method, path, kind, body)
    }

    /// The same, with more headers, each with its end of line.
    fn send_with(
        &mut self,
        headers: &str,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>), String> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(|error| error.to_string())?;
        self.answer()
            .map_err(|error| format!("{method} {path}: {error}"))
    }

    fn answer(&mut self) -> std::io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().map_err(std::io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status.ok_or(std::io::ErrorKind::InvalidData)?, body))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Client for Http {
    fn ask(&mut self, call: &Call) -> Result<Answer, String> {
        let (method, path, body) = request(call);
        let (kind, body) = match call.verb {
            Verb::Apply => ("application/toml", call.text.clone()),
            _ => (
                "application/json",
                body.map(|body| body.to_string()).unwrap_or_default(),
            ),
        };
        let (status, body) = self.send_with(&headers(call), method, &path, kind, &body)?;
        let said = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let mut answer = match (call.verb, &said["overrides"]) {
            // One override is a listing of one.
            (Verb::GetOverride, one) if status == 200 => match one[0].is_null() {
                true => Answer::new(Word::Gone),
                false => json::read(call.verb, Word::Done, &one[0]),
            },
            _ => json::read(call.verb, word(call.verb, status, &said), &said),
        };
        if let Some(why) = said["detail"].as_str() {
            answer.explain(call, why);
        }
        if call.verb == Verb::Metrics {
            answer.detail = String::from_utf8_lossy(&body).into_owned();
        }
        Ok(answer)
    }

    fn patience(&mut self, longest: Duration) {
        // It fails for a time of nothing alone.
        let _ = self.stream.get_ref().set_read_timeout(Some(longest));
    }
}

fn word(verb: Verb, status: u16, said: &Value) -> Word {
    match (status, said["code"].as_str()) {
        (200, _) if matches!(verb, Verb::Auth) => Word::Admitted,
        (200, _) if said["admitted"].is_boolean() => match said["admitted"] == true {
            true => Word::Admitted,
            false => Word::Refused,
        },
        (200..300, _) => Word::Done,
        (429, _) => Word::Refused,
        (422, _) => Word::Never,
        (_, Some("busy")) => Word::Busy,
        (503, _) => Word::Unavailable,
        (404 | 409 | 410, _) => Word::Gone,
        (412, _) => Word::Conflict,
        (400, _) => Word::Invalid,
        _ => Word::Other(format!("{status} {said}")),
    }
}

/// Method, path with query, body.
fn request(call: &Call) -> (&'static str, String, Option<Value>) {
    let post = |path: &str| ("POST", format!("/v1/{path}"), Some(body(call)));
    let get = |path: &str, query: &[(&str, &str)]| ("GET", with(path, query), None);
    let policy = ("policy", call.policy.as_str());
    let key = ("key", call.key.as_str());
    let whose = (if call.is_entity { "entity" } else { "key" }, key.1);
    let cursor = call.cursor.as_deref().map(base64);
    let list = |path: &str, query: &[(&str, &str)]| {
        let mut query = query.to_vec();
        query.push(("limit", "1000"));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        ("GET", with(path, &query), None)
    };
    match call.verb {
        Verb::Check | Verb::CheckStream | Verb::Throttle | Verb::Info => post("check"),
        Verb::CheckMany => {
            let checks: Vec<_> = call.each.iter().map(body).collect();
            (
                "POST",
                "/v1/check-many".to_owned(),
                Some(json!({"checks": checks})),
            )
        }
        Verb::Acquire => post("acquire"),
        Verb::Grant => post("grant"),
        Verb::Return => post("return"),
        Verb::Settle => post("settle"),
        Verb::Release => post("release"),
        Verb::Cancel => post("cancel"),
        Verb::Renew => post("renew"),
        Verb::Adjust => post("adjust"),
        Verb::Debit => post("debit"),
        Verb::Peek => post("peek"),
        Verb::Forecast => post("forecast"),
        Verb::Reset => post("reset"),
        Verb::Revoke => post("leases/revoke"),
        Verb::Auth => {
            let cost = call
                .amounts
                .first()
                .map_or(0, |(_, amount)| *amount)
                .to_string();
            let mut query = vec![policy, key];
            if !call.amounts.is_empty() {
                query.push(("cost", &cost));
            }
            get("/v1/auth", &query)
        }
        Verb::Keys | Verb::Leases | Verb::Capacity => {
            let path = match call.verb {
                Verb::Keys => "/v1/keys",
                Verb::Leases => "/v1/leases",
                _ => "/v1/capacity",
            };
            let mut query = vec![policy];
            let which = match call.verb {
                Verb::Capacity => ("prefix", key.1),
                _ => key,
            };
            query.extend((!call.key.is_empty()).then_some(which));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            get(path, &query)
        }
        Verb::Denied => get("/v1/denied", &[policy]),
        Verb::SetOverride => ("PUT", "/v1/overrides".to_owned(), Some(body(call))),
        Verb::RemoveOverride => ("DELETE", with("/v1/overrides", &[policy, key]), None),
        Verb::GetOverride => get("/v1/overrides", &[policy, key, ("exact", "true")]),
        Verb::ListOverrides => get("/v1/overrides", &[policy, key]),
        Verb::CreateEntity => ("POST", "/v1/entities".to_owned(), Some(of_entity(call))),
        Verb::ShowEntity => ("GET", id_path(call), None),
        Verb::ChangeEntity => ("PATCH", id_path(call), Some(of_entity(call))),
        Verb::DeleteEntity => ("DELETE", id_path(call), None),
        Verb::ListEntities => list("/v1/entities", &[]),
        Verb::ListChildren => list(&format!("{}/children", id_path(call)), &[]),
        Verb::Usage => list("/v1/usage", &[policy, whose]),
        Verb::Audit if call.is_entity => list("/v1/audit", &[whose]),
        Verb::Audit => list("/v1/audit", &[policy, whose]),
        Verb::CreateNamespace => {
            let body = json!({"name": call.key});
            ("POST", "/v1/namespaces".to_owned(), Some(body))
        }
        Verb::ShowNamespace => ("GET", name_path(call, ""), None),
        Verb::DeleteNamespace => ("DELETE", name_path(call, ""), None),
        Verb::RestoreNamespace => ("POST", name_path(call, "/restore"), None),
        Verb::PurgeNamespace => ("POST", name_path(call, "/purge"), None),
        Verb::ListNamespaces => list("/v1/namespaces", &[]),
        Verb::Policies => get("/v1/policies", &[]),
        Verb::Policy => ("GET", format!("/v1/policies/{}", call.policy), None),
        Verb::Apply => ("PUT", "/v1/policies".to_owned(), None),
        Verb::Health => get("/healthz", &[]),
        Verb::Ready => get("/readyz", &[]),
        Verb::Metrics => get("/metrics", &[]),
    }
}

fn escaped(text: &str) -> String {
    text.replace('/', "%2F").replace(' ', "%20")
}

fn id_path(call: &Call) -> String {
    format!("/v1/entities/{}", escaped(&call.key))
}

fn name_path(call: &Call, then: &str) -> String {
    format!("/v1/namespaces/{}{then}", escaped(&call.key))
}

/// Which version has to be there, and in which namespace it is asked.
fn headers(call: &Call) -> String {
    let version = call
        .version
        .map(|version| format!("If-Match: \"{version}\"\r\n"));
    let namespace = call.namespace.as_ref();
    let namespace = namespace.map(|name| format!("Tidegate-Namespace: {name}\r\n"));
    version.unwrap_or_default() + &namespace.unwrap_or_default()
}

/// What is said of an entity.
fn of_entity(call: &Call) -> Value {
    let mut body = Map::new();
    if call.verb == Verb::CreateEntity {
        body.insert("id".to_owned(), call.key.as_str().into());
    }
    if let Some(parent) = &call.parent {
        body.insert("parent".to_owned(), parent.as_str().into());
    }
    if let Some(charge) = call.charge_parents {
        body.insert("charge_parents".to_owned(), charge.into());
    }
    if !call.words.is_empty() {
        let words = call.words.iter().cloned();
        let words: Map<_, _> = words.map(|(word, says)| (word, says.into())).collect();
        body.insert("metadata".to_owned(), words.into());
    }
    body.into()
}

fn with(path: &str, query: &[(&str, &str)]) -> String {
    let pairs = query
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped(value)));
    let pairs: Vec<_> = pairs.collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

fn body(call: &Call) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("policy", call.policy.as_str().into());
    let whose = if call.is_entity { "entity" } else { "key" };
    put(whose, call.key.as_str().into());
    if !call.amounts.is_empty() {
        let amounts = call.amounts.iter();
        let amounts: Map<_, _> = amounts
            .map(|(limit, amount)| match call.measure {
                Some((word, "")) => (limit.clone(), json!({word: amount})),
                Some((word, per)) if call.is_added => {
                    let added = json!({word: amount, "per": per, "added": true});
                    (limit.clone(), added)
                }
                Some((word, per)) => (limit.clone(), json!({word: amount, "per": per})),
                None => (limit.clone(), json!(amount)),
            })
            .collect();
        let name = match call.verb {
            Verb::Settle | Verb::Return => "used",
            Verb::SetOverride => "limits",
            _ => "amounts",
        };
        put(name, amounts.into());
    }
    let length = if call.verb == Verb::Grant {
        "hold_ms"
    } else {
        "ttl_ms"
    };
    let numbers = [
        ("cost", call.cost),
        ("wait_ms", call.wait),
        (length, call.ttl),
        ("cool_down_ms", call.cool_down),
    ];
    if call.overdraw {
        put("overdraw", true.into());
    }
    if call.for_refunds {
        put("wait_for_refunds", true.into());
    }
    for (name, number) in numbers {
        if let Some(number) = number {
            put(name, number.into());
        }
    }
    if let Some(name) = &call.name {
        put("idempotency_key", name.as_str().into());
    }
    if let Some(member) = &call.member {
        put("member", member.as_str().into());
    }
    if !call.lease.is_empty() {
        let name = if call.verb == Verb::Revoke {
            "handle"
        } else {
            "lease"
        };
        put(name, call.lease.as_str().into());
    }
    body.into()
}
