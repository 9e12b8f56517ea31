//! Clients that ask as fast as they are answered.

use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Who asks: so many at once, about one of so many keys.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    pub number: usize,
    pub keys: u32,
}

impl Clients {
    /// As it stands in the name of a row.
    pub fn name(self) -> String {
        let keys = match self.keys {
            1 => "hot key".to_owned(),
            keys => format!("{} k keys", keys / 1_000),
        };
        match self.number {
            1 => format!("1 client, {keys}"),
            number => format!("{number} clients, {keys}"),
        }
    }
}

/// What a lap came to.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    pub asked: f64,
    pub seconds: f64,
}

/// One thread, which all clients share.
pub fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Each client asks `one`, with its own number and a key's, until the lap is over.
pub fn drive<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    clients: Clients,
    lap: Duration,
    one: impl Fn(usize, u32) -> F + Clone + Send + Sync + 'static,
) -> Lap {
    let start = now();
    let tasks = (0..clients.number).map(|client| {
        let one = one.clone();
        runtime.spawn(async move {
            let mut asked = 0_u32;
            while now().duration_since(start) < lap {
                one(client, fastrand::u32(0..clients.keys)).await;
                asked += 1;
            }
            asked
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let asked = tasks.into_iter().map(|task| runtime.block_on(task));
    let asked: u32 = asked.map(|asked| asked.expect("a client that ends")).sum();
    Lap {
        asked: asked.into(),
        seconds: now().duration_since(start).as_secs_f64(),
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}
