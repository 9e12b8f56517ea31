//! The policies of both servers.

use crate::talk::PROTOCOLS;

/// What entities are asked.
const LEVELS: &str = "
[policy.deep]
key = 'org/team/user'
[policy.deep.limits]
org = { calls = 6, per = '400d', level = 'org' }
team = { calls = 10, per = '400d', level = 'team' }
user = { calls = 8, per = '400d' }
[policy.deeper]
key = 'org/unit/team/user'
[policy.deeper.limits]
unit = { calls = 10, per = '400d', level = 'unit' }
user = { calls = 8, per = '400d' }
";

/// With so many calls in the policy that is applied.
pub(super) fn policies(applied: u64) -> String {
    let mut text = format!(
        "[policy.told.limits]\nunits = {{ rate = 10, per = '400d' }}\n\
         [policy.applied.limits]\ncalls = {{ calls = {applied}, per = '400d' }}\n"
    );
    text += LEVELS;
    for protocol in PROTOCOLS {
        let pool = format!("policy.'cools {}'", protocol.name);
        text += &format!("[{pool}]\nbalancer = 'first_available'\n");
        for member in ["eu", "us"] {
            text += &format!(
                "[{pool}.member.{member}.limits]\nrunning = {{ concurrency = 2, ttl = '1h' }}\n"
            );
        }
    }
    text
}
