//! `tidegate check-many`: lines of JSON in, lines of JSON out.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tidegate_client::{Error, Exchange, Problem};

use super::exit::{ADMITS, Exit, Outcome, Stop};
use super::options::Options;
use super::print::print_line;
use super::server::{Client, runtime};

/// How many checks are asked for at once, and how long a request grows: both
/// within what a server takes.
const AT_ONCE: usize = 100;
const MOST_BYTES: usize = 48 * 1024;

/// Many checks.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Each line is a check as POST /v1/check takes it:
  {{\"policy\": \"chat\", \"key\": \"alice\", \"amounts\": {{\"tpm\": 1200}}}}
and is answered, in order, with the server's answer or its {{\"problem\": ...}}; a line
that is no check is answered by a problem that names it, and the others are sent.
The exit code is that of the first problem, even if other lines were refused;
without a problem 1 if any was refused, and 0 if all were admitted.

{ADMITS}"))]
pub struct CheckMany {
    /// The file with the checks; `-` reads standard input
    #[arg(default_value = "-")]
    file: PathBuf,

    /// The policy of checks that name none
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: Option<String>,

    #[command(flatten)]
    options: Options,
}

impl CheckMany {
    /// Reads, asks, tells.
    pub fn perform(&self) -> Outcome<Exit> {
        let client = self.options.connect()?;
        let lines = open(&self.file)?.lines();
        let runtime = runtime()?;
        let mut batch = Batch::default();
        let mut worst = Exit::Done;
        for (number, line) in lines.enumerate() {
            let line = line.map_err(|error| unreadable(&self.file, &error))?;
            if line.trim().is_empty() {
                continue;
            }
            if !batch.has_room(line.len()) {
                worst = worse(worst, runtime.block_on(batch.send(&client))?);
            }
            let check = self.check(&line);
            batch.add(check.map_err(|why| bad_line(number + 1, &why)), line.len());
        }
        if !batch.lines.is_empty() {
            worst = worse(worst, runtime.block_on(batch.send(&client))?);
        }
        Ok(worst)
    }

    fn check(&self, line: &str) -> Result<Value, String> {
        let check: Value = serde_json::from_str(line).map_err(|_| "not JSON".to_owned())?;
        let Value::Object(mut check) = check else {
            return Err("no JSON object".to_owned());
        };
        match (check.contains_key("policy"), &self.policy) {
            (true, _) => {}
            (false, Some(policy)) => _ = check.insert("policy".to_owned(), json!(policy)),
            (false, None) => return Err("it names no policy, and --policy is not given".to_owned()),
        }
        Ok(Value::Object(check))
    }
}

/// Checks that are asked for together.
#[derive(Default)]
struct Batch {
    /// A check, or what is answered in its place.
    lines: Vec<Result<Value, Value>>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, bytes: usize) -> bool {
        self.lines.is_empty() || self.lines.len() < AT_ONCE && self.bytes + bytes <= MOST_BYTES
    }

    fn add(&mut self, line: Result<Value, Value>, bytes: usize) {
        self.lines.push(line);
        self.bytes += bytes;
    }

    /// Asks, prints, and begins anew.
    async fn send(&mut self, client: &Client) -> Outcome<Exit> {
        let lines = std::mem::take(&mut self.lines);
        self.bytes = 0;
        let checks: Vec<&Value> = lines.iter().flatten().collect();
        let mut answers = Vec::new();
        if !checks.is_empty() {
            let request = json!({ "checks": checks });
            let asked = Exchange::post("/v1/check-many", &request);
            let reply = client.done(asked).await?;
            answers = reply.body["answers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
        }
        let (mut answers, mut worst) = (answers.into_iter(), Exit::Done);
        for line in lines {
            let answer = match line {
                Ok(_) => answers.next().unwrap_or_default(),
                Err(problem) => problem,
            };
            print_line(&answer.to_string())?;
            worst = worse(worst, exit(&answer));
        }
        Ok(worst)
    }
}

/// What is answered in the place of a line that cannot be asked, as a server answers a
/// check that makes no sense.
fn bad_line(number: usize, why: &str) -> Value {
    let detail = format!("line {number}: {why}");
    json!({"problem": {"status": 400, "code": "invalid", "title": "the line is no check", "detail": detail}})
}

/// How a check alone would have ended.
fn exit(answer: &Value) -> Exit {
    let problem = || serde_json::from_value::<Problem>(answer["problem"].clone());
    match answer["admitted"].as_bool() {
        Some(true) => Exit::Done,
        Some(false) => Exit::Refused,
        None => problem().map_or(Exit::Failed, |problem| Exit::from(&Error::from(problem))),
    }
}

/// A problem goes before a refusal, and the first before those that follow.
fn worse(so_far: Exit, next: Exit) -> Exit {
    match so_far {
        Exit::Done | Exit::Refused if next != Exit::Done => next,
        so_far => so_far,
    }
}

fn open(file: &Path) -> Outcome<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = std::fs::File::open(file);
    let opened = opened.map_err(|error| unreadable(file, &error))?;
    Ok(Box::new(BufReader::new(opened)))
}

fn unreadable(file: &Path, error: &io::Error) -> Stop {
    Stop::usage(format!("cannot read {}: {error}", file.display()))
}
