//! A server in this process that offers a store to others, by their clock.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tidegate::{Clock, Store};
use tidegate_grpc::{Listener, Server, Settings};
use tidegate_remote::offered::Offered;
use tidegate_service::Service;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server needs a policy of its own.
const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 60, per = '1m' }";

/// The server, until it is dropped.
pub struct Offering {
    at: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Offering {
    /// Offers `store`.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let file = tidegate_policy::parse("p.toml", POLICY).expect("a sound policy");
        let service = Service::builder().store(Arc::clone(&store)).build(&file);
        let service = service.expect("a service");
        let offered = Offered::new(store, Arc::new(Clock::system())).by_the_callers_clock();
        let server = Server::new(service, Settings::default()).offering(offered);
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let at = listener.local_addr().expect("it is bound");
                tell.send(at).expect("it is waited for");
                let connections = Listener::from(listener).connections();
                let stopped = async {
                    // It is dropped with what offers.
                    let _ = stopped.await;
                };
                server.serve(connections, stopped).await.expect("it serves");
            });
        });
        Self {
            at: told.recv().expect("it begins"),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("tidegate://{}", self.at)
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
