//! A client of the RESP listener, in RESP2.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::client::{Client, Lease, Request, Said, Standing, strange};
use crate::server::PATIENCE;

pub struct Resp {
    stream: BufReader<TcpStream>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Nothing,
    Number(i64),
    Text(String),
    Fault(String),
    Many(Vec<Self>),
}

impl Reply {
    /// The fact of this name in a flat list of facts.
    fn fact(&self, name: &str) -> Option<&Self> {
        let Self::Many(facts) = self else { return None };
        let mut pairs = facts.chunks_exact(2);
        pairs
            .find_map(|pair| matches!(&pair[0], Self::Text(text) if text == name).then(|| &pair[1]))
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.fact(name)? {
            Self::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.fact(name)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Resp {
    pub fn connect(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub fn request(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match kind {
            ":" => Reply::Number(number()?),
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Fault(rest.to_owned()),
            "$" if rest == "-1" => Reply::Nothing,
            "$" => Reply::Text(self.text(number()?.unsigned_abs() as usize)?),
            "*" => {
                let replies = (0..number()?).map(|_| self.reply());
                Reply::Many(replies.collect::<io::Result<_>>()?)
            }
            _ => return Err(strange(line)),
        })
    }

    fn text(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    /// `verb policy key [lease]`, then each amount after `word`.
    fn verb(
        &mut self,
        verb: &str,
        request: Request<'_>,
        lease: Option<&str>,
        more: &[&str],
    ) -> io::Result<Reply> {
        let word = if lease.is_some() { "USED" } else { "AMOUNT" };
        let numbers: Vec<_> = request
            .amounts
            .iter()
            .map(|(_, amount)| amount.to_string())
            .collect();
        let mut words = vec![verb, request.policy, request.key];
        words.extend(lease);
        for ((limit, _), number) in request.amounts.iter().zip(&numbers) {
            words.extend([word, limit, number]);
        }
        words.extend(more);
        self.request(&words)
    }
}

impl Client for Resp {
    fn check(&mut self, request: Request<'_>) -> io::Result<Said> {
        let reply = self.verb("TG.CHECK", request, None, &[])?;
        match (reply.text("verdict"), reply.number("not_until_us")) {
            (Some("admitted"), None) => Ok(Said::Yes),
            (Some("refused"), Some(until)) => Ok(Said::No(until)),
            _ => Err(strange(reply)),
        }
    }

    fn debit(&mut self, request: Request<'_>) -> io::Result<()> {
        let reply = self.verb("TG.DEBIT", request, None, &[])?;
        reply
            .text("verdict")
            .map(drop)
            .ok_or_else(|| strange(&reply))
    }

    fn acquire(&mut self, request: Request<'_>, name: Option<&str>) -> io::Result<Option<Lease>> {
        let named = name.map(|name| ["IDEMPOTENCY", name]);
        let named = named.as_ref().map_or(&[][..], |named| &named[..]);
        let reply = self.verb("TG.ACQUIRE", request, None, named)?;
        if reply.text("verdict") == Some("refused") {
            return Ok(None);
        }
        match (reply.text("lease"), reply.number("fence")) {
            (Some(id), Some(fence)) => Ok(Some(Lease {
                id: id.to_owned(),
                fence,
                repeated: reply.number("repeated") == Some(1),
            })),
            _ => Err(strange(reply)),
        }
    }

    fn settle(&mut self, request: Request<'_>, lease: &str) -> io::Result<bool> {
        let reply = self.verb("TG.SETTLE", request, Some(lease), &[])?;
        match (reply.number("expired"), reply.number("repeated")) {
            (Some(0), Some(repeated)) => Ok(repeated == 1),
            _ => Err(strange(reply)),
        }
    }

    fn peek(&mut self, request: Request<'_>) -> io::Result<BTreeMap<String, Standing>> {
        let reply = self.verb("TG.PEEK", request, None, &[])?;
        let Some(Reply::Many(limits)) = reply.fact("limits") else {
            return Err(strange(reply));
        };
        let stands = |pair: &[Reply]| {
            let Reply::Text(name) = &pair[0] else {
                return None;
            };
            let (limit, remaining) = (pair[1].number("limit")?, pair[1].number("remaining")?);
            Some((name.clone(), Standing { limit, remaining }))
        };
        let limits: Option<_> = limits.chunks_exact(2).map(stands).collect();
        limits.ok_or_else(|| strange(&reply))
    }
}
