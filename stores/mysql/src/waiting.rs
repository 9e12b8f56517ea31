//! A request that waits for its turn.
//!
//! **Polling, stated.** MariaDB wakes nobody, so who waits asks. Who is first tries
//! after 2 milliseconds, then after twice as long each time, up to 16; from when it
//! has been first for a second on, after a 64th of the time that it has been, up to
//! 128. Sooner where its limits name an instant. Others look how many are before
//! them: who is next every 2 to 16 milliseconds, others every 16 for each who stands
//! before them, and at least every 512. A look is one statement that finds its answer
//! in an index; a try is a transaction.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{self, Pace, Queue};
use tidegate_net::within;
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{Plan, Reply, StoreError};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::turns::Turn;

impl Queue for Inner {
    const PACE: Pace = Pace {
        shortest: Duration::from_millis(2),
        step: Duration::from_millis(16),
        longest_of_first: Duration::from_millis(128),
        // A crowd before one key leaves the server and its connections to those who give
        // something back.
        longest: Duration::from_millis(512),
    };

    type Turn = Turn;

    fn deadline(&self) -> Duration {
        self.shared.driver.deadline()
    }

    fn turn(waits: &waiting::Turn) -> Turn {
        Turn::new(waits.turn, waits.ahead)
    }

    fn execute(
        self: Arc<Self>,
        request: OwnedKeyCommand,
        turn: Option<&mut Turn>,
    ) -> impl Future<Output = Result<(Reply, bool), StoreError>> + Send {
        self.try_until_told(request, turn)
    }

    async fn look(&self, root: &[u8], turn: &mut Turn) -> Result<u32, StoreError> {
        let _share = self.share(root).await?;
        within(Queue::deadline(self), async {
            turn.look(self).await.map_err(Trouble::told)
        })
        .await
    }

    async fn give_up(&self, _: &[u8], turn: &Turn) {
        if turn.stands() {
            let _ = turn.give_up(self).await;
        }
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.changes.newest_plan()
    }
}
