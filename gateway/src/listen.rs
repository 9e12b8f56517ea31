//! The listener.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures_util::Stream as Connections;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidegate_llm::{Costs, Estimator};
use tidegate_policy::PolicyFile;
use tidegate_protocol::{Closing, Opening, Share};
use tidegate_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::bodies::Bodies;
use crate::cost_change::CostChange;
use crate::fair::Queues;
use crate::health::Health;
use crate::inner::Inner;
use crate::learning::Learning;
use crate::meters::Meters;
use crate::reach::Reach;
use crate::relay::relay;
use crate::reservations::Reservations;
use crate::settings::{BadSettings, Settings};
use crate::taking::Taking;
use crate::upstream::Client;
use crate::usage::ByKey;

/// What a connection too many is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\
    connection: close\r\n\r\n";

/// A gateway. Cloning shares it.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

impl Gateway {
    /// A gateway whose limits are those of `service`, which has these policies, and which trusts providers as `tls` says.
    ///
    /// # Errors
    /// [`BadSettings`]: each says what to write instead.
    pub fn new(
        service: Service,
        policies: &PolicyFile,
        mut settings: Settings,
        tls: rustls::ClientConfig,
    ) -> Result<Self, BadSettings> {
        settings.check(policies, service.is_open())?;
        settings.wait = settings.wait.min(service.longest_wait());
        let file_costs = RwLock::new(settings.file_costs.clone());
        let learning = Learning::begin(&service, settings.concurrency_by);
        let estimator = Mutex::new(Estimator::new(settings.quantile));
        Ok(Self(Arc::new(Inner {
            service,
            client: Client::new(tls),
            meters: Meters::new(&settings.upstreams),
            health: Health::new(&settings.upstreams),
            reach: Reach::new(&settings.upstreams),
            usage: ByKey::new(settings.max_usage_series),
            reservations: Reservations::new(),
            learning,
            bodies: Bodies::new(settings.max_held_bytes),
            tasks: TaskTracker::new(),
            estimator,
            file_costs,
            fair: settings.fair.then(Queues::new),
            settings,
        })))
    }

    /// Whether these policies could be served in place of those at hand, and with them what these
    /// models cost in place of [what the file says](Settings::file_costs), if that is another.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn check(&self, policies: &PolicyFile, costs: Option<&Costs>) -> Result<(), BadSettings> {
        let Inner {
            file_costs,
            settings,
            service,
            ..
        } = &*self.0;
        let at_hand = || {
            file_costs
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        let settings = Settings {
            file_costs: costs.cloned().unwrap_or_else(at_hand),
            ..settings.clone()
        };
        settings.check(policies, service.is_open())
    }

    /// What `costs` in place of [the file's](Settings::file_costs) change.
    #[must_use]
    pub fn cost_changes(&self, costs: &Costs) -> Vec<CostChange> {
        let Inner {
            file_costs,
            settings,
            ..
        } = &*self.0;
        let old = file_costs.read().unwrap_or_else(PoisonError::into_inner);
        CostChange::between(&old, costs, &settings.prices)
    }

    /// From now on calls cost and count that, in place of what [the file](Settings::file_costs) said,
    /// which is returned. A call under way goes by what held when it came.
    pub fn exchange_costs(&self, costs: Costs) -> Costs {
        let file_costs = self.0.file_costs.write();
        let mut file_costs = file_costs.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *file_costs, costs)
    }

    /// Serves on `connections`, over HTTP/1.1 and HTTP/2, until they or `shutdown` end. Then calls
    /// in flight are answered and settled, for as long as [`Settings::drain`] allows.
    pub async fn serve<S>(
        self,
        connections: impl Connections<Item = S>,
        shutdown: impl Future<Output = ()>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let settings = &self.0.settings;
        let (drain, head_timeout) = (settings.drain, settings.head_timeout);
        let pause = settings.pause;
        let bound = (settings.max_connections, FULL);
        let gateway = Arc::clone(&self.0);
        let talk = move |stream, closing, share: Share| {
            let stream = Opening::new(stream, "gateway", head_timeout);
            let talk = converse(Arc::clone(&gateway), Taking::new(stream, pause), closing);
            async move {
                // A caller of a gateway is bounded by its limits.
                let _kept = share;
                talk.await;
            }
        };
        let waiting = Arc::clone(&self.0);
        let shutdown = async move {
            shutdown.await;
            if let Some(queues) = &waiting.fair {
                queues.close();
                // Whoever had its turn just now waits at the limits.
                waiting.service.close();
            }
        };
        let serving = async {
            tidegate_protocol::serve(connections, bound, drain, shutdown, talk).await;
            self.0.learning.close();
        };
        tokio::join!(serving, self.0.learning.follow());
        self.0.tasks.close();
        let _ = tokio::time::timeout(drain, self.0.tasks.wait()).await;
    }
}

async fn converse<S>(gateway: Arc<Inner>, stream: S, closing: Closing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    let head_timeout = gateway.settings.head_timeout;
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(head_timeout);
    let service = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(relay(gateway, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = closing.come() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
