//! A server on a port, for clients and benchmarks:
//!
//! ```text
//! cargo run --release -p tidegate-resp --example server -- 127.0.0.1:7402
//! redis-cli -p 7402 cl.throttle alice 15 30 60
//! ```

use std::error::Error;

use tidegate_policy::parse;
use tidegate_resp::{Listener, Server, Settings};
use tidegate_service::Service;
use tokio::net::TcpListener;

const POLICIES: &str = "
    [policy.api.limits]
    rps = { calls = 100, per = '1s' }

    [policy.chat.limits]
    rpm = { calls = 300, per = '1m' }
    tpm = { rate = 600_000, per = '1m' }
    running = { concurrency = 4 }
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "127.0.0.1:7402".to_owned());
    let service = Service::builder().build(&parse("example", POLICIES)?)?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let server = Server::new(service, Settings::default());
    let connections = Listener::from(listener).connections();
    server.serve(connections, std::future::pending()).await;
    Ok(())
}
