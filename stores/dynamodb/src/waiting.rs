//! A request that waits for its turn.
//!
//! **Polling, stated.** DynamoDB wakes nobody, so who waits asks, and every look is billed. Who is
//! first tries after 10 milliseconds, then after twice as long each time, up to 80; from when it
//! has been first for five seconds on, after a 64th of the time that it has been, up to 640. Sooner
//! where its limits name an instant. Others look how many are before them: who is next every 10 to
//! 80 milliseconds, others every 80 for each who stands before them, and at least every 640. A look
//! is one query of the places before one's own (half a read unit for each 4 KB, twice that since
//! it is to be exact); a try reads, and writes if it is granted or takes its place.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{self, Pace, Queue};
use tidegate_net::within;
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{Plan, Reply, StoreError};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::trips::RootPlace;
use crate::turns::Turn;

impl Queue for Inner {
    const PACE: Pace = Pace {
        shortest: Duration::from_millis(10),
        step: Duration::from_millis(80),
        longest_of_first: Duration::from_millis(640),
        longest: Duration::from_millis(640),
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
        let place = RootPlace::new(&self.set, root);
        within(Queue::deadline(self), async {
            turn.look(self, &place).await.map_err(Trouble::told)
        })
        .await
    }

    async fn give_up(&self, root: &[u8], turn: &Turn) {
        let _ = turn.give_up(self, &RootPlace::new(&self.set, root)).await;
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.changes.newest_plan()
    }
}
