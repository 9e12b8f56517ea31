//! Proxies of LiteLLM, as processes on one Redis.
//!
//! It keeps keys in PostgreSQL, by an engine of its own that it downloads. What counts against a key's
//! budget stands in Redis (`spend:key:...`), and is reserved and settled there without any database:
//! so a key comes from the hook that LiteLLM has for keys kept elsewhere (`custom_auth`), with all
//! checks of a key on. A proxy that is killed has nothing to take its spend from but Redis.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_conformance::ports;
use tidegate_conformance::redis_server::RedisServer;

use crate::books::BUDGET;
use crate::front::{FRONTS, Front};
use crate::http;
use crate::provider::PRICE;

/// How often it is asked whether it is there, or what it has counted, and how long at most.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: usize = 6_000;

/// It settles after the answer has ended, and nobody is told: what stands for so many looks is settled.
const STANDS: usize = 15;

/// What its administrators show; nobody does here.
const MASTER_KEY: &str = "sk-administrators-of-the-race";

/// Proxies until this is dropped.
#[derive(Debug)]
pub struct Proxies {
    program: PathBuf,
    store: RedisServer,
    folder: TempDir,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    at: SocketAddr,
}

impl Proxies {
    /// Four, before a provider: as they come, or with what is strictest (`fail_closed_budget_enforcement`).
    ///
    /// # Errors
    /// If they do not start.
    pub fn open(
        program: &Path,
        store: RedisServer,
        upstream: SocketAddr,
        strict: bool,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let write = |name: &str, text: String| {
            let written = fs::write(folder.path().join(name), text);
            written.map_err(|error| format!("{name}: {error}"))
        };
        write("litellm.yaml", settings(upstream, store.port(), strict))?;
        write("keys.py", keys())?;
        let mut proxies = Self {
            program: program.to_owned(),
            store,
            folder,
            running: Vec::new(),
        };
        for _ in 0..FRONTS {
            let port = ports::next_free().ok_or("a port is taken")?;
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let process = proxies.spawn(at)?;
            proxies.running.push(Running { process, at });
        }
        for which in 0..FRONTS {
            proxies.running[which].is_there()?;
        }
        Ok(proxies)
    }

    fn spawn(&self, at: SocketAddr) -> Result<Child, String> {
        let mut command = Command::new(&self.program);
        command.args(["--config", "litellm.yaml", "--host", "127.0.0.1"]);
        command.args(["--port", &at.port().to_string()]);
        command.env("LITELLM_MASTER_KEY", MASTER_KEY);
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        command.env("LITELLM_LOG", "ERROR");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let spawned = command.spawn();
        spawned.map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// What Redis has counted of the one key that there is, in dollars.
    fn counted(&self) -> Result<String, String> {
        let keys = self.redis(&["keys", "spend:key:*"])?;
        match keys.lines().collect::<Vec<_>>()[..] {
            [] => Ok("0".to_owned()),
            [key] => self.redis(&["get", key]),
            _ => Err(format!("one key, and several are counted: {keys}")),
        }
    }

    fn redis(&self, words: &[&str]) -> Result<String, String> {
        let mut client = Command::new("redis-cli");
        client
            .args(["-p", &self.store.port().to_string()])
            .args(words);
        let said = client
            .output()
            .map_err(|error| format!("redis-cli: {error}"))?;
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }
}

fn settings(upstream: SocketAddr, redis: u16, strict: bool) -> String {
    let (input, output) = (dollars(PRICE.0), dollars(PRICE.1));
    format!(
        "\
model_list:
- model_name: m
  litellm_params:
    model: openai/m
    api_key: x
    api_base: http://{upstream}/v1
    input_cost_per_token: {input}
    output_cost_per_token: {output}
    max_retries: 0
general_settings:
  custom_auth: keys.authenticate
  custom_auth_run_common_checks: true
  always_include_stream_usage: true
  forward_client_headers_to_llm_api: true
  forward_llm_provider_auth_headers: true
  fail_closed_budget_enforcement: {strict}
router_settings: {{ num_retries: 0, disable_cooldowns: true }}
litellm_settings:
  num_retries: 0
  budget_exceeded_status_code: 429
  cache: true
  cache_params: {{ type: redis, host: 127.0.0.1, port: {redis}, supported_call_types: [] }}
"
    )
}

fn keys() -> String {
    format!(
        "\
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth


async def authenticate(request, api_key):
    return UserAPIKeyAuth(
        api_key=api_key,
        max_budget={},
        user_role=LitellmUserRoles.INTERNAL_USER,
    )
",
        dollars(BUDGET)
    )
}

fn dollars(millionths: u64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

impl Front for Proxies {
    fn at(&self) -> [SocketAddr; FRONTS] {
        std::array::from_fn(|which| self.running[which].at)
    }

    fn kill(&mut self, which: usize) {
        self.running[which].end();
    }

    fn start(&mut self, which: usize) -> Result<(), String> {
        let process = self.spawn(self.running[which].at)?;
        self.running[which].process = process;
        self.running[which].is_there()
    }

    fn restart_store(&mut self) -> Result<(), String> {
        self.store.kill();
        self.store.start_again();
        Ok(())
    }

    /// Its own credential goes to the provider in `authorization`: the call's goes along beside it.
    fn fields(&self, key: &str, call: &str) -> Vec<(&'static str, String)> {
        vec![
            ("authorization", format!("Bearer sk-{key}")),
            ("x-api-key", call.to_owned()),
        ]
    }

    fn spent(&self, _: &str) -> Result<u64, String> {
        let (mut last, mut stood) = (String::new(), 0);
        for _ in 0..LOOKS {
            let counted = self.counted()?;
            stood = if counted == last { stood + 1 } else { 0 };
            if stood == STANDS {
                let spent: f64 = counted.parse().map_err(|_| format!("spent: {counted}"))?;
                return Ok((spent.max(0.0) * 1e6).round() as u64);
            }
            last = counted;
            pause();
        }
        Err("what is counted does not come to rest".to_owned())
    }
}

impl Running {
    fn is_there(&mut self) -> Result<(), String> {
        for _ in 0..LOOKS {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("LiteLLM ends at its start: {status}"));
            }
            if http::json(self.at, "GET", "/health/liveliness", "").is_ok() {
                return Ok(());
            }
            pause();
        }
        Err(format!("LiteLLM is not to be reached at {}", self.at))
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process of somebody else tells nobody when it has started or settled"
)]
fn pause() {
    thread::sleep(LOOK);
}
