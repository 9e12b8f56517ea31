//! RESP2: commands, and the few answers that come to them.

use smallvec::SmallVec;

use super::exchange::{Answer, Around, LeaseId, Step, Wire, write_length};
use crate::policy::{Asking, Question};

/// How deep answers are nested at most, and how long a line may be.
const DEEPEST: usize = 8;
const LONGEST_LINE: usize = 4_096;

/// Asks by commands.
pub struct Resp {
    command: Vec<Word>,
    settle_before: Vec<u8>,
    key: Around,
    token: Option<String>,
    reading: Reading,
}

enum Word {
    /// Bytes that are always the same: as many words as stand together.
    Fixed(Vec<u8>),
    Keyed(Around),
}

/// Which answers there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The facts of a decision, by name.
    Facts,
    /// Five numbers; the first says whether it was limited.
    Throttle,
    Anything,
}

/// A value at the top of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value<'a> {
    Text(&'a [u8]),
    Number(i64),
    Other,
}

impl Resp {
    pub fn new(question: &Question, token: Option<String>) -> Self {
        let (words, reading) = match &question.asking {
            Asking::Policy { name, lease, .. } => {
                let verb = if *lease { "TG.ACQUIRE" } else { "TG.CHECK" };
                let mut words: Vec<String> = vec![verb.into(), name.clone(), "{key}".into()];
                words.extend(["COST".to_owned(), question.cost.to_string()]);
                for limit in &question.left_out {
                    words.extend(["AMOUNT".to_owned(), limit.clone(), "0".to_owned()]);
                }
                (words, Reading::Facts)
            }
            Asking::Throttle(throttle) => {
                let numbers = [throttle.burst, throttle.count, throttle.period_secs];
                let mut words = vec!["CL.THROTTLE".to_owned(), "{key}".to_owned()];
                words.extend(numbers.map(|number| number.to_string()));
                (words, Reading::Throttle)
            }
            Asking::Raw(text) => {
                let words = text.split_whitespace().map(str::to_owned).collect();
                (words, Reading::Anything)
            }
        };
        let mut settle_before = b"*4\r\n$9\r\nTG.SETTLE\r\n".to_vec();
        if let Asking::Policy { name, .. } = &question.asking {
            bulk(name.as_bytes(), &mut settle_before);
        }
        Self {
            command: command(&words, question),
            settle_before,
            key: Around::of("{key}", question),
            token,
            reading,
        }
    }
}

/// The words, those that never change joined together.
fn command(words: &[String], question: &Question) -> Vec<Word> {
    let mut fixed = format!("*{}\r\n", words.len()).into_bytes();
    let mut command = Vec::new();
    for word in words {
        let around = Around::of(word, question);
        if around.keyed {
            command.push(Word::Fixed(std::mem::take(&mut fixed)));
            command.push(Word::Keyed(around));
        } else {
            bulk(word.as_bytes(), &mut fixed);
        }
    }
    command.push(Word::Fixed(fixed));
    command
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    write_length(bytes.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn keyed(around: &Around, digits: &str, out: &mut Vec<u8>) {
    out.push(b'$');
    write_length(around.len(digits), out);
    out.extend_from_slice(b"\r\n");
    around.write(digits, out);
    out.extend_from_slice(b"\r\n");
}

impl Wire for Resp {
    fn greet(&self, out: &mut Vec<u8>) -> bool {
        let Some(token) = &self.token else {
            return false;
        };
        out.extend_from_slice(b"*2\r\n$4\r\nAUTH\r\n");
        bulk(token.as_bytes(), out);
        true
    }

    fn ask(&mut self, key: u32, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(key);
        for word in &self.command {
            match word {
                Word::Fixed(bytes) => out.extend_from_slice(bytes),
                Word::Keyed(around) => keyed(around, digits, out),
            }
        }
    }

    fn settle(&mut self, key: u32, lease: &LeaseId, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.settle_before);
        keyed(&self.key, itoa::Buffer::new().format(key), out);
        bulk(lease, out);
    }

    fn answer(&self, bytes: &[u8], step: Step) -> Result<Option<(usize, Answer)>, String> {
        let Some((end, values, failed)) = read(bytes)? else {
            return Ok(None);
        };
        let answer = match failed {
            Some(reason) => Answer::Failed(reason),
            None if step != Step::Ask => Answer::Done,
            None => self.judge(values.as_slice()),
        };
        Ok(Some((end, answer)))
    }
}

impl Resp {
    fn judge(&self, values: &[Value<'_>]) -> Answer {
        match (self.reading, values) {
            (Reading::Anything, _) => Answer::Done,
            (Reading::Throttle, [Value::Number(0), ..]) => Answer::Admitted(None),
            (Reading::Throttle, [Value::Number(1), ..]) => Answer::Refused,
            (Reading::Facts, facts) => by_facts(facts),
            _ => Answer::Failed("five numbers were expected".to_owned()),
        }
    }
}

fn by_facts(facts: &[Value<'_>]) -> Answer {
    let fact = |name: &[u8]| {
        let mut pairs = facts.chunks_exact(2);
        pairs
            .find(|pair| pair[0] == Value::Text(name))
            .map(|pair| pair[1])
    };
    match fact(b"verdict") {
        Some(Value::Text(b"admitted")) => match fact(b"lease") {
            Some(Value::Text(lease)) => Answer::Admitted(lease.try_into().ok()),
            _ => Answer::Admitted(None),
        },
        Some(Value::Text(b"refused")) => Answer::Refused,
        _ => Answer::Failed("a verdict was expected".to_owned()),
    }
}

type Read<'a> = (usize, SmallVec<[Value<'a>; 24]>, Option<String>);

/// One answer: its end, its outermost values, and the error that it is.
fn read(bytes: &[u8]) -> Result<Option<Read<'_>>, String> {
    let mut values = SmallVec::new();
    // How many values are still to come, at each depth.
    let mut open: SmallVec<[usize; DEEPEST]> = SmallVec::new();
    let mut at = 0;
    loop {
        let Some((item, next)) = item(bytes, at)? else {
            return Ok(None);
        };
        at = next;
        match item {
            Item::Error(reason) if open.is_empty() => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Ok(Some((at, values, Some(reason))));
            }
            Item::Array(length @ 1..) if open.len() < DEEPEST => {
                // Among the facts, what is nested stands for one value.
                if open.len() == 1 {
                    values.push(Value::Other);
                }
                open.push(length);
                continue;
            }
            Item::Array(1..) => return Err("an answer is nested too deep".to_owned()),
            Item::Value(value) if open.len() <= 1 => values.push(value),
            _ => {}
        }
        while let Some(left) = open.last_mut() {
            *left -= 1;
            if *left > 0 {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return Ok(Some((at, values, None)));
        }
    }
}

/// What begins with a marker.
enum Item<'a> {
    Value(Value<'a>),
    Array(usize),
    Error(&'a [u8]),
}

/// The item that begins at `at`, and where the next begins.
fn item(bytes: &[u8], at: usize) -> Result<Option<(Item<'_>, usize)>, String> {
    let Some((marker, line, next)) = line(bytes, at)? else {
        return Ok(None);
    };
    let item = match marker {
        b'-' => Item::Error(line),
        b':' => Item::Value(Value::Number(number(line)?)),
        b'*' => Item::Array(usize::try_from(number(line)?).unwrap_or(0)),
        b'$' => match usize::try_from(number(line)?) {
            Ok(length) => {
                let text = bytes.get(next..next.saturating_add(length).saturating_add(2));
                let text = text.map(|text| Item::Value(Value::Text(&text[..length])));
                return Ok(text.map(|text| (text, next + length + 2)));
            }
            Err(_) => Item::Value(Value::Other),
        },
        b'+' | b'_' | b'#' | b',' => Item::Value(Value::Other),
        other => {
            let other = char::from(other);
            return Err(format!("an answer cannot begin with {other:?}"));
        }
    };
    Ok(Some((item, next)))
}

/// A marker, the rest of its line, and where the next begins.
type Line<'a> = (u8, &'a [u8], usize);

/// The line that begins at `at`, once all of it is there.
fn line(bytes: &[u8], at: usize) -> Result<Option<Line<'_>>, String> {
    let Some((marker, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    match rest.iter().position(|byte| *byte == b'\r') {
        Some(end) if rest.get(end + 1).is_some() => Ok(Some((*marker, &rest[..end], at + end + 3))),
        None if rest.len() > LONGEST_LINE => Err("an answer's line is too long".to_owned()),
        _ => Ok(None),
    }
}

fn number(line: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok());
    text.ok_or_else(|| format!("{:?} is no number", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Question;

    fn asked(raw: &str) -> String {
        let question = Question::raw(raw);
        let mut out = Vec::new();
        Resp::new(&question, None).ask(17, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_command_is_its_words_with_the_key_in_its_place() {
        assert_eq!(
            asked("SET k:{key} x"),
            "*3\r\n$3\r\nSET\r\n$5\r\nk:k17\r\n$1\r\nx\r\n"
        );
        assert_eq!(asked("PING"), "*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        let facts = "*6\r\n$5\r\nlease\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
                     $6\r\nlimits\r\n*2\r\n$3\r\nrpm\r\n*1\r\n:7\r\n$7\r\nverdict\r\n$8\r\nadmitted\r\n";
        let resp = Resp::new(&Question::policy("p", true), None);
        for end in 0..facts.len() {
            assert_eq!(
                resp.answer(&facts.as_bytes()[..end], Step::Ask),
                Ok(None),
                "{end}"
            );
        }
        let (end, answer) = resp.answer(facts.as_bytes(), Step::Ask).unwrap().unwrap();
        assert_eq!(end, facts.len());
        assert_eq!(
            answer,
            Answer::Admitted(Some(*b"0123456789abcdef0123456789abcdef"))
        );
    }

    #[test]
    fn errors_and_nonsense_are_told_apart() {
        let resp = Resp::new(&Question::raw("PING"), None);
        let answer = |text: &str| resp.answer(text.as_bytes(), Step::Ask);
        assert_eq!(answer("+PONG\r\n+P"), Ok(Some((7, Answer::Done))));
        assert_eq!(answer("*0\r\n"), Ok(Some((4, Answer::Done))));
        assert_eq!(answer("$-1\r\n"), Ok(Some((5, Answer::Done))));
        let failed = Answer::Failed("ERR no".to_owned());
        assert_eq!(answer("-ERR no\r\n"), Ok(Some((9, failed))));
        assert!(answer("HTTP/1.1 400\r\n").is_err());
        assert!(answer(&"*1\r\n".repeat(100)).is_err());
        assert!(answer("*x\r\n").is_err());
    }
}
