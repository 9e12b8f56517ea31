//! RESP in its third version, whose maps are read as JSON is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Map, Value};

use super::call::{Answer, Call, Client, PATIENCE, Verb, Word, base64};
use super::json;

/// A client of the RESP listener.
#[derive(Debug)]
pub struct Resp {
    stream: BufReader<TcpStream>,
}

pub(super) fn speaks(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::CheckMany
            | Verb::CheckStream
            | Verb::Auth
            | Verb::Capacity
            | Verb::Denied
            | Verb::Policy
            | Verb::Apply
            | Verb::Ready
            | Verb::Metrics
    )
}

impl Resp {
    /// A connection of its own.
    ///
    /// # Errors
    /// If the server does not listen, or does not speak the third version.
    pub fn connect(at: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        client.patience(PATIENCE);
        client.send(&["HELLO", "3"])??;
        Ok(client)
    }

    /// Says these words: the answer, or the fault's line.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn send(&mut self, words: &[&str]) -> Result<Result<Value, String>, String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(|error| error.to_string())?;
        self.reply()
            .map_err(|error| format!("{}: {error}", words[0]))
    }

    /// Says it in the namespace that the connection is in.
    fn say(&mut self, call: &Call) -> Result<Answer, String> {
        let words = words(call);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        Ok(match self.send(&words)? {
            Ok(said) => answer(call.verb, &said),
            Err(fault) => refusal(call, fault),
        })
    }

    fn reply(&mut self) -> io::Result<Result<Value, String>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        let count = || rest.parse::<usize>().map_err(io::Error::other);
        Ok(Ok(match kind {
            "-" => return Ok(Err(rest.to_owned())),
            ":" => number()?.into(),
            "#" => (rest == "t").into(),
            "+" => rest.into(),
            "_" => Value::Null,
            "$" | "=" => self.text(count()?)?.into(),
            "*" => {
                let items = (0..count()?).map(|_| self.within());
                items.collect::<io::Result<Vec<_>>>()?.into()
            }
            "%" => {
                let mut map = Map::new();
                for _ in 0..count()? {
                    let name = self.within()?;
                    let name = name.as_str().unwrap_or_default().to_owned();
                    map.insert(name, self.within()?);
                }
                map.into()
            }
            _ => return Err(io::Error::other(format!("no reply: {line}"))),
        }))
    }

    fn within(&mut self) -> io::Result<Value> {
        self.reply()?.map_err(io::Error::other)
    }

    fn text(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

impl Client for Resp {
    fn ask(&mut self, call: &Call) -> Result<Answer, String> {
        let Some(namespace) = &call.namespace else {
            return self.say(call);
        };
        if let Err(fault) = self.send(&["TG.USE", namespace])? {
            return Ok(refusal(call, fault));
        }
        let answer = self.say(call)?;
        self.send(&["TG.USE", "default"])??;
        Ok(answer)
    }

    fn patience(&mut self, longest: Duration) {
        // It fails for a time of nothing alone.
        let _ = self.stream.get_ref().set_read_timeout(Some(longest));
    }
}

fn answer(verb: Verb, said: &Value) -> Answer {
    match verb {
        Verb::Throttle => {
            let mut answer = Answer::decided(said[0] == 0);
            answer.fact("rate.limit", &said[1]);
            answer.fact("rate.remaining", &said[2]);
            answer
        }
        Verb::GetOverride if said.is_null() => Answer::new(Word::Gone),
        Verb::Policies => {
            let mut answer = Answer::default();
            for name in said.as_object().into_iter().flat_map(Map::keys) {
                answer.fact(format!("policy {name}"), "served");
            }
            answer
        }
        verb => {
            let word = match said["verdict"].as_str() {
                Some("admitted") => Word::Admitted,
                Some("refused") => Word::Refused,
                _ => Word::Done,
            };
            json::read(verb, word, said)
        }
    }
}

fn refusal(call: &Call, fault: String) -> Answer {
    let mut answer = Answer::new(fault_word(&fault));
    let (_, why) = fault.split_once(' ').unwrap_or_default();
    answer.explain(call, why);
    answer.detail = fault;
    answer
}

fn fault_word(fault: &str) -> Word {
    match fault.split_whitespace().next() {
        Some("NEVER") => Word::Never,
        Some("BUSY") => Word::Busy,
        Some("UNAVAILABLE") => Word::Unavailable,
        Some("NOLEASE" | "INUSE" | "DELETED") => Word::Gone,
        Some("CONFLICT") => Word::Conflict,
        Some("ERR") if NONE.iter().any(|none| fault.contains(none)) => Word::Gone,
        Some("ERR") => Word::Invalid,
        _ => Word::Other(fault.to_owned()),
    }
}

/// What there is not: other faults of that word make no sense.
const NONE: [&str; 2] = ["there is no entity", "there is no namespace"];

fn words(call: &Call) -> Vec<String> {
    let mut words: Vec<String> = match call.verb {
        Verb::Health => vec!["PING".to_owned()],
        Verb::Info => vec!["INFO".to_owned()],
        Verb::Policies => vec!["TG.POLICIES".to_owned()],
        Verb::Throttle => {
            // Ten in 400 days, all of them at once.
            ["CL.THROTTLE", &call.key, "9", "10", "34560000"]
                .map(str::to_owned)
                .to_vec()
        }
        Verb::SetOverride => over("SET", call),
        Verb::GetOverride => over("SHOW", call),
        Verb::RemoveOverride => over("REMOVE", call),
        Verb::ListOverrides => over("LIST", call),
        Verb::CreateEntity => of_entity("CREATE", call),
        Verb::ShowEntity => of_entity("SHOW", call),
        Verb::ChangeEntity => of_entity("CHANGE", call),
        Verb::DeleteEntity => of_entity("DELETE", call),
        Verb::ListEntities => ["TG.ENTITY", "LIST", "COUNT", "1000"]
            .map(str::to_owned)
            .to_vec(),
        Verb::ListChildren => of_entity("CHILDREN", call),
        Verb::Usage | Verb::Audit => of_what_was(call),
        Verb::CreateNamespace => of_namespace("CREATE", call),
        Verb::ShowNamespace => of_namespace("SHOW", call),
        Verb::DeleteNamespace => of_namespace("DELETE", call),
        Verb::RestoreNamespace => of_namespace("RESTORE", call),
        Verb::PurgeNamespace => of_namespace("PURGE", call),
        Verb::ListNamespaces => ["TG.NAMESPACE", "LIST", "COUNT", "1000"]
            .map(str::to_owned)
            .to_vec(),
        Verb::Keys | Verb::Leases => {
            let verb = if call.verb == Verb::Keys {
                "TG.KEYS"
            } else {
                "TG.LEASES"
            };
            let mut words = vec![verb.to_owned(), call.policy.clone()];
            if !call.key.is_empty() {
                words.extend(["KEY".to_owned(), call.key.clone()]);
            }
            words
        }
        verb => vec![name(verb).to_owned(), call.policy.clone(), call.key.clone()],
    };
    words.extend((!call.lease.is_empty()).then(|| call.lease.clone()));
    let word = if matches!(call.verb, Verb::Settle | Verb::Return) {
        "USED"
    } else {
        "AMOUNT"
    };
    if call.measure.is_none() {
        for (limit, amount) in &call.amounts {
            words.extend([word.to_owned(), limit.clone(), amount.to_string()]);
        }
    }
    if let (Verb::Renew, Some(ttl)) = (call.verb, call.ttl) {
        words.push(ttl.to_string());
    }
    let ttl = call
        .ttl
        .filter(|_| call.verb == Verb::Acquire)
        .map(|ttl| ttl.to_string());
    let hold = call.ttl.filter(|_| call.verb == Verb::Grant);
    let pairs = [
        ("COST", call.cost.map(|cost| cost.to_string())),
        ("WAIT", call.wait.map(|wait| wait.to_string())),
        ("TTL", ttl),
        ("HOLD", hold.map(|hold| hold.to_string())),
        ("IDEMPOTENCY", call.name.clone()),
        ("MEMBER", call.member.clone()),
        (
            "COOLDOWN",
            call.cool_down.map(|cool_down| cool_down.to_string()),
        ),
        ("CURSOR", call.cursor.as_deref().map(base64)),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    }
    if call.for_refunds {
        words.push("REFUNDS".to_owned());
    }
    if call.overdraw {
        words.push("OVERDRAW".to_owned());
    }
    if call.is_entity && !matches!(call.verb, Verb::Usage | Verb::Audit) {
        words.push("ENTITY".to_owned());
    }
    words
}

fn of_entity(word: &str, call: &Call) -> Vec<String> {
    let mut words = ["TG.ENTITY", word, &call.key].map(str::to_owned).to_vec();
    if let Some(parent) = &call.parent {
        words.extend(["PARENT".to_owned(), parent.clone()]);
    }
    if let Some(charge) = call.charge_parents {
        let charge = if charge { "yes" } else { "no" };
        words.extend(["CHARGEPARENTS".to_owned(), charge.to_owned()]);
    }
    for (word, says) in &call.words {
        words.extend(["META".to_owned(), word.clone(), says.clone()]);
    }
    if let Some(version) = call.version {
        words.extend(["IFVERSION".to_owned(), version.to_string()]);
    }
    words
}

fn of_namespace(word: &str, call: &Call) -> Vec<String> {
    ["TG.NAMESPACE", word, &call.key]
        .map(str::to_owned)
        .to_vec()
}

/// What was used, or changed, of a key of a policy or of an entity.
fn of_what_was(call: &Call) -> Vec<String> {
    let mut words = match call.verb {
        Verb::Usage => vec!["TG.USAGE", &call.policy],
        _ if call.is_entity => vec!["TG.AUDIT"],
        _ => vec!["TG.AUDIT", "POLICY", &call.policy],
    };
    words.push(if call.is_entity { "ENTITY" } else { "KEY" });
    words.extend([&*call.key, "COUNT", "1000"]);
    words.into_iter().map(str::to_owned).collect()
}

fn over(word: &str, call: &Call) -> Vec<String> {
    let mut words = [
        "TG.OVERRIDE",
        word,
        "POLICY",
        &call.policy,
        "KEY",
        &call.key,
    ]
    .map(str::to_owned)
    .to_vec();
    if let Some((word, per)) = call.measure {
        for (limit, amount) in &call.amounts {
            words.extend(["LIMIT".to_owned(), limit.clone()]);
            words.extend([word.to_owned(), amount.to_string()]);
            if !per.is_empty() {
                words.extend(["per".to_owned(), per.to_owned()]);
            }
            if call.is_added {
                words.extend(["added".to_owned(), "1".to_owned()]);
            }
        }
    }
    words
}

fn name(verb: Verb) -> &'static str {
    match verb {
        Verb::Acquire => "TG.ACQUIRE",
        Verb::Grant => "TG.GRANT",
        Verb::Return => "TG.RETURN",
        Verb::Settle => "TG.SETTLE",
        Verb::Release => "TG.RELEASE",
        Verb::Cancel => "TG.CANCEL",
        Verb::Renew => "TG.RENEW",
        Verb::Adjust => "TG.ADJUST",
        Verb::Debit => "TG.DEBIT",
        Verb::Peek => "TG.PEEK",
        Verb::Forecast => "TG.FORECAST",
        Verb::Reset => "TG.RESET",
        Verb::Revoke => "TG.REVOKE",
        _ => "TG.CHECK",
    }
}
