//! What is asked, and the limits that the answers must keep, as the server
//! itself tells them.

use serde_json::Value;

use crate::args::{Load, Protocol, Throttle, Verb};
use crate::fetch;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    pub asking: Asking,
    /// What every rate takes.
    pub cost: u64,
    /// Limits that are not taken: what is held needs a lease.
    pub left_out: Vec<String>,
    /// What stands before a key's number.
    pub key_prefix: String,
    /// What the answers must keep.
    pub bounds: Vec<Bound>,
}

/// Whom or what.
#[derive(Clone, Debug)]
pub enum Asking {
    Policy { name: String, lease: bool },
    Throttle(Throttle),
    Raw(String),
}

/// A limit, as far as it can be counted from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub name: String,
    /// What each ask takes.
    pub amount: u64,
    /// All keys have this one above them.
    pub shared: bool,
    pub most: Most,
}

/// The most that is admitted in so many nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Most {
    /// `burst`, and `count` in every `period_ns`.
    Bucket {
        burst: u64,
        count: u64,
        period_ns: f64,
    },
    /// `count` in each window; `more` windows than fit may be touched.
    Windows {
        count: u64,
        period_ns: f64,
        more: u64,
    },
    /// What is not counted from outside: held slots, what only looks.
    Uncounted,
}

impl Most {
    /// How much may be admitted within `elapsed` nanoseconds.
    pub fn within(&self, elapsed: u64) -> Option<u64> {
        let elapsed = elapsed as f64;
        match *self {
            Self::Bucket {
                burst,
                count,
                period_ns,
            } => Some(burst + (count as f64 * elapsed / period_ns).floor() as u64),
            Self::Windows {
                count,
                period_ns,
                more,
            } => Some(count * ((elapsed / period_ns) as u64 + more)),
            Self::Uncounted => None,
        }
    }
}

impl Question {
    /// What `load` says is to be asked.
    pub async fn of(load: &Load) -> Result<Self, String> {
        if let Some(text) = &load.raw {
            return Ok(Self::raw(text));
        }
        if let Some(throttle) = load.throttle {
            return Ok(Self::throttle(throttle));
        }
        let name = load.policy.as_deref().unwrap_or_default();
        let mut question = Self::policy(name, load.verb == Verb::Acquire);
        question.cost = load.cost;
        question.adopt(&fetch(load, name).await?);
        Ok(question)
    }

    fn new(asking: Asking) -> Self {
        Self {
            asking,
            cost: 1,
            left_out: Vec::new(),
            key_prefix: "k".to_owned(),
            bounds: Vec::new(),
        }
    }

    pub fn raw(text: &str) -> Self {
        Self::new(Asking::Raw(text.to_owned()))
    }

    pub fn policy(name: &str, lease: bool) -> Self {
        let name = name.to_owned();
        Self::new(Asking::Policy { name, lease })
    }

    fn throttle(throttle: Throttle) -> Self {
        let most = Most::Bucket {
            burst: throttle.burst + 1,
            count: throttle.count,
            period_ns: throttle.period_secs as f64 * 1e9,
        };
        let mut question = Self::new(Asking::Throttle(throttle));
        question.bounds.push(Bound {
            name: "rate".to_owned(),
            amount: 1,
            shared: false,
            most,
        });
        question
    }

    /// Takes over what the server tells of a policy.
    fn adopt(&mut self, policy: &Value) {
        let list = |name: &str| policy[name].as_array().cloned().unwrap_or_default();
        let levels = list("levels");
        self.key_prefix = "load/".repeat(levels.len().saturating_sub(1)) + "k";
        let lease = matches!(self.asking, Asking::Policy { lease: true, .. });
        for limit in list("limits") {
            let name = limit["name"].as_str().unwrap_or_default().to_owned();
            if limit["kind"] == "concurrency" && !lease {
                self.left_out.push(name);
                continue;
            }
            self.bounds.push(Bound {
                amount: if limit["kind"] == "rate" {
                    self.cost
                } else {
                    1
                },
                shared: limit["level"].is_string() && limit["level"] != levels[levels.len() - 1],
                most: most(&limit),
                name,
            });
        }
    }
}

fn most(limit: &Value) -> Most {
    let number = |name: &str| limit[name].as_u64().unwrap_or(0);
    let count = number("capacity");
    let period_ns = limit["per"]["ms"].as_f64().map(|ms| ms * 1e6);
    let windows = |period_ns, more| Most::Windows {
        count,
        period_ns,
        more,
    };
    if limit["shadow"] == true {
        return Most::Uncounted;
    }
    match (limit["algorithm"].as_str(), period_ns) {
        (Some("token_bucket" | "gcra" | "leaky_bucket"), Some(period_ns)) => Most::Bucket {
            burst: number("at_most"),
            count,
            period_ns,
        },
        (Some("sliding_window" | "sliding_log"), Some(period_ns)) => windows(period_ns, 1),
        (Some(_), Some(period_ns)) => windows(period_ns, 2),
        // A calendar's shortest window, as summer time begins.
        (_, None) if limit["per"]["calendar"].is_string() => windows(23.0 * 3_600e9, 2),
        _ => Most::Uncounted,
    }
}

/// The policy, as the server tells it over HTTP.
async fn fetch(load: &Load, name: &str) -> Result<Value, String> {
    let place = match load.protocol {
        Protocol::Http => load.place()?,
        _ => load.http.0,
    };
    let help = |error: &str| {
        format!(
            "cannot read from http://{place} what the limits of `{name}` are ({error}); \
             say where the server answers HTTP with --http HOST:PORT"
        )
    };
    let path = format!("/v1/policies/{}", fetch::segment(name));
    let told = fetch::get(place, &path, load.token.as_deref()).await;
    let (status, body) = told.map_err(|error| help(&error))?;
    let why = body["detail"].as_str().unwrap_or("no reason given");
    let flag = match status {
        200..300 => return Ok(body),
        401 | 403 => "--token",
        404 => "--policy",
        _ => return Err(help(why)),
    };
    Err(format!("{flag}: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Most, Question};

    #[test]
    fn what_a_server_tells_becomes_bounds() {
        let mut question = Question::policy("p", false);
        question.cost = 5;
        question.adopt(&json!({"levels": ["org", "user"], "limits": [
            {"name": "rpm", "kind": "calls", "capacity": 60, "at_most": 10, "per": {"ms": 60_000},
             "algorithm": "gcra", "level": "user", "shadow": false},
            {"name": "tpm", "kind": "rate", "capacity": 7, "at_most": 7, "per": {"ms": 1_000},
             "algorithm": "fixed_window", "level": "org", "shadow": false},
            {"name": "busy", "kind": "concurrency", "capacity": 2, "at_most": 2},
        ]}));
        assert_eq!(question.key_prefix, "load/k");
        assert_eq!(question.left_out, ["busy"]);
        let [rpm, tpm] = &question.bounds[..] else {
            panic!("{:?}", question.bounds);
        };
        assert_eq!((rpm.amount, rpm.shared), (1, false));
        assert_eq!((tpm.amount, tpm.shared), (5, true));
        assert_eq!(rpm.most.within(1_500_000_000), Some(11));
        assert_eq!(tpm.most.within(1_500_000_000), Some(21));
        assert_eq!(Most::Uncounted.within(1), None);
    }
}
