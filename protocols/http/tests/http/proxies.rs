//! Clients and proxies that nobody here wrote.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::live::{Live, bind, read_until};
use crate::support::House;
use crate::tools;

/// nginx as its users set it up: one location asks, and the other is behind it.
fn configuration(port: u16, server: std::net::SocketAddr) -> String {
    format!(
        r#"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            # The question has no arguments of its own.
            set $user $arg_user;
            auth_request /may-it;
            auth_request_set $wait $upstream_http_retry_after;
            error_page 403 = @refused;
            root html;
        }}
        location = /may-it {{
            internal;
            proxy_pass http://{server}/v1/auth?policy=web&key=$user&denied=403;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
        }}
        location @refused {{
            add_header Retry-After $wait always;
            return 429;
        }}
    }}
}}
"#
    )
}

struct Nginx {
    port: u16,
    child: Child,
}

impl Nginx {
    async fn start(program: &Path, live: &Live) -> Self {
        let folder = tools::scratch("nginx-run");
        fs::create_dir_all(folder.join("html")).unwrap();
        fs::write(folder.join("html/index.html"), "behind the service\n").unwrap();
        let port = bind().await.local_addr().unwrap().port();
        let text = configuration(port, live.address);
        fs::write(folder.join("nginx.conf"), text).unwrap();
        let child = Command::new(program)
            .args(["-c", "nginx.conf", "-e", "stderr", "-p"])
            .arg(&folder)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut nginx = Self { port, child };
        if !nginx.has_started().await {
            panic!("nginx does not start: {}", nginx.stop().await);
        }
        nginx
    }

    async fn has_started(&mut self) -> bool {
        for _ in 0..6_000 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        false
    }

    async fn get(&self, uri: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!("GET {uri} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        // To its end: the connection is closed.
        read_until(&mut client, "\0").await
    }

    /// Stops it, and says what it has logged.
    async fn stop(mut self) -> String {
        self.child.kill().await.unwrap();
        let mut logged = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        _ = stderr.read_to_string(&mut logged).await;
        logged
    }
}

#[tokio::test]
async fn nginx_lets_through_what_the_limits_admit() {
    let Some(program) = tools::system("nginx", "nginx") else {
        return;
    };
    let house = House::new();
    let live = Live::start(&house).await;
    let nginx = Nginx::start(&program, &live).await;
    let mut answers = Vec::new();
    for user in ["alice", "alice", "alice", "alice", "bob"] {
        answers.push(nginx.get(&format!("/index.html?user={user}")).await);
    }
    let logged = nginx.stop().await;
    live.stop().await;
    let refused = answers.remove(3);
    for text in answers {
        assert!(text.starts_with("HTTP/1.1 200"), "{text} {logged}");
        assert!(text.ends_with("behind the service\n"), "{text}");
    }
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused} {logged}");
    assert!(refused.contains("\r\nRetry-After: 20\r\n"), "{refused}");
}

#[tokio::test]
async fn curl_speaks_both_versions() {
    let Some(curl) = tools::system("curl", "curl") else {
        return;
    };
    let house = House::new();
    let live = Live::start(&house).await;
    let uri = format!("http://{}/v1/check", live.address);
    for (version, status) in [
        ("--http1.1", "1.1 200"),
        ("--http2-prior-knowledge", "2 200"),
    ] {
        let output = Command::new(&curl)
            .args([
                "-s",
                version,
                "-w",
                " %{http_version} %{http_code}",
                "--json",
            ])
            .args([r#"{"policy":"web","key":"k"}"#, &uri])
            .output()
            .await
            .unwrap();
        let said = tools::said(&output);
        assert!(said.ends_with(status), "{said}");
    }
    live.stop().await;
}
