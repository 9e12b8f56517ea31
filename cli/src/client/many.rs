//! `tidegate check-many`: lines of JSON in, lines of JSON out.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::command::runtime;
use super::exit::{Exit, Outcome, Stop, TABLE};
use super::options::Options;
use super::server::{Client, PATIENCE};
use super::verbs::print_line;

/// How many checks are asked for at once, and how long a request grows: both
/// within what a server takes.
const AT_ONCE: usize = 100;
const MOST_BYTES: usize = 48 * 1024;

/// Many checks.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Each line is a check as POST /v1/check takes it:
  {{\"policy\": \"chat\", \"key\": \"alice\", \"amounts\": {{\"tpm\": 1200}}}}
and is answered, in order, with the server's answer or its {{\"problem\": ...}}.
The exit code is 0 if all were admitted, 1 if some were refused, and otherwise
that of the first problem.

{TABLE}"))]
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
            let check = self.check(&line).map_err(|why| {
                Stop::usage(format!("{}:{}: {why}", self.file.display(), number + 1))
            })?;
            if !batch.has_room(line.len()) {
                worst = worse(worst, runtime.block_on(batch.ask(&client))?);
            }
            batch.add(check, line.len());
        }
        if !batch.checks.is_empty() {
            worst = worse(worst, runtime.block_on(batch.ask(&client))?);
        }
        Ok(worst)
    }

    fn check(&self, line: &str) -> Result<Value, String> {
        let check: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let Value::Object(mut check) = check else {
            return Err("this is no JSON object".to_owned());
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
    checks: Vec<Value>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, bytes: usize) -> bool {
        self.checks.is_empty() || self.checks.len() < AT_ONCE && self.bytes + bytes <= MOST_BYTES
    }

    fn add(&mut self, check: Value, bytes: usize) {
        self.checks.push(check);
        self.bytes += bytes;
    }

    /// Asks, prints, and begins anew.
    async fn ask(&mut self, client: &Client) -> Outcome<Exit> {
        let checks = std::mem::take(&mut self.checks);
        self.bytes = 0;
        let request = json!({ "checks": checks });
        let reply = client
            .post_within("/v1/check-many", &request, PATIENCE)
            .await?;
        if !reply.is_success() {
            return Err(reply.stop());
        }
        let mut worst = Exit::Done;
        let answers = reply.body["answers"].as_array();
        for answer in answers.map_or(&[][..], Vec::as_slice) {
            print_line(&answer.to_string())?;
            worst = worse(worst, exit(answer));
        }
        Ok(worst)
    }
}

/// How a check alone would have ended.
fn exit(answer: &Value) -> Exit {
    let problem = &answer["problem"];
    match (answer["admitted"].as_bool(), problem["status"].as_u64()) {
        (Some(true), _) => Exit::Done,
        (Some(false), _) => Exit::Refused,
        (None, Some(422)) => Exit::Never,
        (None, Some(401 | 403)) => Exit::NotAllowed,
        (None, Some(404)) => Exit::Gone,
        (None, Some(400..500)) => Exit::Usage,
        (None, _) => Exit::Failed,
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
    Stop::failed(format!("cannot read {}: {error}", file.display()))
}
