//! Each protocol over TLS, with clients that nobody here wrote.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tidegate_grpc::proto::CheckRequest;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use crate::certificates::Authority;
use crate::support::{POLICY, Server, folder, refusal, serve, text, wait_for};

const TLS: [&str; 4] = ["--tls-certificate", "server.pem", "--tls-key", "server.key"];
const ASK: &str = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"running\":0}}";

/// A folder with an authority `ca.pem`, and a server and a client of it.
fn house() -> (TempDir, Authority) {
    let folder = folder(POLICY);
    let authority = Authority::new("ours");
    authority.write(folder.path(), "ca");
    authority.issue(folder.path(), "server");
    authority.issue(folder.path(), "client");
    (folder, authority)
}

fn mutual(folder: &Path) -> Server {
    Server::start(folder, &[&TLS[..], &["--tls-client-ca", "ca.pem"]].concat())
}

/// What curl gets for a check: the status, or how it fails.
fn over_http(server: &Server, scheme: &str, more: &[&str]) -> Result<String, String> {
    let url = format!("{scheme}://{}/v1/check", server.http);
    let request = ["-H", "content-type: application/json", "-d", ASK];
    let form = ["-o", "body", "-w", "%{http_code} %{http_version}"];
    let output = server.curl(&[&request[..], &form[..], more, &[&url]].concat());
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// Whether redis-cli is let through.
fn over_resp(server: &Server, more: &[&str]) -> bool {
    let check = ["TG.CHECK", "chat", "k", "AMOUNT", "running", "0"];
    let output = server.redis(&[more, &check[..]].concat());
    text(&output.stdout).starts_with("verdict\nadmitted")
}

/// What the gRPC client gets for a check.
fn over_grpc(server: &Server, tls: Option<ClientTlsConfig>) -> Result<bool, String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let at = Channel::from_shared(format!("{scheme}://{}", server.grpc)).unwrap();
    let request = CheckRequest {
        policy: "chat".into(),
        key: b"k".to_vec().into(),
        amounts: [("running".to_owned(), 0)].into(),
        ..Default::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let at = match tls {
            Some(tls) => at.tls_config(tls).map_err(|e| e.to_string())?,
            None => at,
        };
        let channel = at.connect().await.map_err(|e| format!("{e:?}"))?;
        let checked = TidegateClient::new(channel).check(request).await;
        let checked = checked.map_err(|status| format!("{status:?}"))?;
        Ok(checked.into_inner().admitted)
    })
}

fn believing(folder: &Path, ca: &str) -> ClientTlsConfig {
    let pem = std::fs::read(folder.join(ca)).unwrap();
    let config = ClientTlsConfig::new().domain_name("localhost");
    config.ca_certificate(Certificate::from_pem(pem))
}

fn showing(folder: &Path, name: &str) -> ClientTlsConfig {
    let read = |end: &str| std::fs::read(folder.join(format!("{name}.{end}"))).unwrap();
    let identity = Identity::from_pem(read("pem"), read("key"));
    believing(folder, "ca.pem").identity(identity)
}

#[test]
fn every_listener_speaks_tls() {
    let (folder, _) = house();
    let server = Server::start(folder.path(), &TLS);
    let by = |version: &str| over_http(&server, "https", &["--cacert", "ca.pem", version]);
    assert_eq!(by("--http2"), Ok("200 2".to_owned()));
    assert_eq!(by("--http1.1"), Ok("200 1.1".to_owned()));
    assert!(over_resp(&server, &["--tls", "--cacert", "ca.pem"]));
    let tls = believing(folder.path(), "ca.pem");
    assert_eq!(over_grpc(&server, Some(tls)), Ok(true));
}

#[test]
fn who_speaks_in_the_clear_to_tls_is_told_so_and_let_go() {
    let (folder, _) = house();
    let server = Server::start(folder.path(), &TLS);
    assert_eq!(over_http(&server, "http", &[]), Ok("400 1.1".to_owned()));
    let body = std::fs::read_to_string(folder.path().join("body")).unwrap();
    assert!(body.contains("this port speaks TLS"), "{body}");
    let resp = server.redis(&["PING"]);
    assert!(
        text(&resp.stdout).contains("this port speaks TLS"),
        "{resp:?}"
    );
    assert!(over_grpc(&server, None).is_err());
    // And nobody else is kept from anything.
    assert!(over_http(&server, "https", &["--cacert", "ca.pem"]).is_ok());
}

#[test]
fn clients_without_a_certificate_of_ours_are_refused_at_the_handshake() {
    let (folder, authority) = house();
    let path = folder.path();
    authority.issue_expired(path, "late");
    Authority::new("others").issue(path, "other");
    let server = mutual(path);
    let http = |name: &str| {
        let (pem, key) = (format!("{name}.pem"), format!("{name}.key"));
        over_http(
            &server,
            "https",
            &["--cacert", "ca.pem", "--cert", &pem, "--key", &key],
        )
    };
    let resp = |name: &str| {
        let (pem, key) = (format!("{name}.pem"), format!("{name}.key"));
        over_resp(
            &server,
            &["--tls", "--cacert", "ca.pem", "--cert", &pem, "--key", &key],
        )
    };
    assert_eq!(http("client"), Ok("200 2".to_owned()));
    assert!(resp("client"));
    assert_eq!(over_grpc(&server, Some(showing(path, "client"))), Ok(true));
    for name in ["late", "other"] {
        assert!(http(name).is_err(), "{name}");
        assert!(!resp(name), "{name}");
        assert!(
            over_grpc(&server, Some(showing(path, name))).is_err(),
            "{name}"
        );
    }
    assert!(over_http(&server, "https", &["--cacert", "ca.pem"]).is_err());
    assert!(!over_resp(&server, &["--tls", "--cacert", "ca.pem"]));
    assert!(over_grpc(&server, Some(believing(path, "ca.pem"))).is_err());
}

#[test]
fn clients_refuse_a_server_of_another_authority_or_out_of_date() {
    let (folder, authority) = house();
    let path = folder.path();
    let others = Authority::new("others");
    others.write(path, "others");
    let server = Server::start(path, &TLS);
    assert!(over_http(&server, "https", &["--cacert", "others.pem"]).is_err());
    assert!(!over_resp(&server, &["--tls", "--cacert", "others.pem"]));
    assert!(over_grpc(&server, Some(believing(path, "others.pem"))).is_err());
    drop(server);
    authority.issue_expired(path, "server");
    let server = Server::start(path, &TLS);
    assert!(over_http(&server, "https", &["--cacert", "ca.pem"]).is_err());
    assert!(!over_resp(&server, &["--tls", "--cacert", "ca.pem"]));
    assert!(over_grpc(&server, Some(believing(path, "ca.pem"))).is_err());
}

#[test]
fn the_command_line_reaches_a_server_over_tls() {
    let (folder, _) = house();
    let path = folder.path();
    Authority::new("others").write(path, "others");
    std::fs::write(
        path.join("trace.csv"),
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,10,1\n",
    )
    .unwrap();
    let server = mutual(path);
    let url = format!("https://localhost:{}", server.http.port());
    let replay = |more: &[&str]| {
        let mut replay = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        replay.current_dir(path);
        replay.args([
            "replay",
            "trace.csv",
            "--policy",
            "tidegate.toml",
            "--key",
            "=k",
        ]);
        replay.args(["--server", &url, "--json"]).args(more);
        replay.output().unwrap()
    };
    let ours = [
        "--ca",
        "ca.pem",
        "--cert",
        "client.pem",
        "--client-key",
        "client.key",
    ];
    let output = replay(&ours);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (more, why) in [
        (&["--ca", "others.pem"][..], "UnknownIssuer"),
        (&["--ca", "ca.pem"][..], "CertificateRequired"),
        (&["--ca", "client.key"][..], "there is no certificate in it"),
    ] {
        let output = replay(more);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn certificates_are_read_again_and_a_bad_pair_is_not() {
    let (folder, authority) = house();
    let path = folder.path();
    let server = Server::start(path, &TLS);
    let others = Authority::new("others");
    others.write(path, "others");
    let by = |ca: &str| over_http(&server, "https", &["--cacert", ca]).is_ok();
    assert!(by("ca.pem") && !by("others.pem"));
    // The key is not its own: the old pair goes on.
    let key = std::fs::read(path.join("server.key")).unwrap();
    others.issue(path, "server");
    let theirs = std::fs::read(path.join("server.key")).unwrap();
    std::fs::write(path.join("server.key"), key).unwrap();
    server.signal("HUP");
    wait_for(|| server.said().contains("is not that of the certificate"));
    assert!(by("ca.pem") && !by("others.pem"));
    std::fs::write(path.join("server.key"), theirs).unwrap();
    server.signal("HUP");
    wait_for(|| by("others.pem"));
    assert!(!by("ca.pem"));
    assert!(over_resp(&server, &["--tls", "--cacert", "others.pem"]));
    drop(authority);
}

#[test]
fn files_that_make_no_sense_are_named() {
    let (folder, _) = house();
    let path = folder.path();
    let said = |certificate: &str, key: &str, ca: &str| {
        let files = ["--tls-certificate", certificate, "--tls-key", key];
        refusal(path, &[&files[..], &["--tls-client-ca", ca]].concat())
    };
    for (faults, words) in [
        (
            said("none.pem", "server.key", "ca.pem"),
            "cannot read none.pem: No such file",
        ),
        (
            said("server.pem", "none.key", "ca.pem"),
            "cannot read none.key: No such file",
        ),
        (
            said("server.pem", "server.key", "none.pem"),
            "cannot read none.pem: No such file",
        ),
        (
            said("server.pem", "client.key", "ca.pem"),
            "the key in client.key is not that of the certificate in server.pem",
        ),
        (
            said("server.key", "server.key", "ca.pem"),
            "there is no certificate",
        ),
        (
            said("server.pem", "server.pem", "ca.pem"),
            "there is no private key",
        ),
        (
            refusal(path, &["--tls-key", "server.key"]),
            "--tls-certificate FILE",
        ),
    ] {
        assert!(faults.contains(words), "{faults}");
    }
}

/// Whoever connects and says nothing keeps nobody from a handshake.
#[test]
fn silent_connections_in_front_of_a_handshake_keep_nobody_out() {
    let (folder, _) = house();
    let server = Server::start(folder.path(), &TLS);
    let silent: Vec<_> = (0..700)
        .map(|_| TcpStream::connect(server.http).unwrap())
        .collect();
    let by = over_http(&server, "https", &["--cacert", "ca.pem"]);
    assert_eq!(by, Ok("200 2".to_owned()));
    drop(silent);
}

#[test]
fn strangers_from_afar_are_let_in_only_if_that_is_said() {
    let (folder, _) = house();
    let path = folder.path();
    let afar = ["--http", "0.0.0.0:0"];
    let said = refusal(path, &afar);
    assert!(
        said.contains("--insecure") && said.contains("[[token]]"),
        "{said}"
    );
    let said = refusal(path, &[&afar[..], &TLS[..]].concat());
    assert!(said.contains("--tls-client-ca"), "{said}");
    // It made the file of a store, and said that its policies were in use.
    let mut refused = serve(path);
    refused.current_dir(path).args(afar);
    let refused = refused.args(["--log", "json"]).output().expect("it ends");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(!path.join("tidegate.redb").exists(), "{said}");
    // Whoever reads a log of JSON found a line of text in it.
    let line: serde_json::Value = serde_json::from_str(said.trim()).expect("one JSON object");
    assert_eq!(line["level"], "ERROR");
    let message = line["fields"]["message"].as_str().expect("a message");
    assert!(message.contains("--insecure"), "{said}");
    drop(Server::start(path, &["--http", "0.0.0.0:0", "--insecure"]));
    let known = [&afar[..], &TLS[..], &["--tls-client-ca", "ca.pem"]].concat();
    drop(Server::start(path, &known));
}
