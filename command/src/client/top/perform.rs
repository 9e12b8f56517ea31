//! Shows it, on a terminal or as text.

use std::io::IsTerminal;

use super::options::Top;
use super::plain;
#[cfg(feature = "screen")]
use super::screen;
use crate::client::exit::{Exit, Outcome};
use crate::client::print::print;
use crate::client::server::runtime;

impl Top {
    /// Shows it, until it is told to stop.
    pub fn perform(&self) -> Outcome<Exit> {
        let client = self.options.connect()?;
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        runtime()?.block_on(async {
            #[cfg(feature = "screen")]
            if terminal && !self.once {
                return screen::show(self, &client).await;
            }
            let _ = terminal;
            let frame = self.one(&client).await?;
            print(&plain::text(&frame))?;
            Ok(Exit::Done)
        })
    }
}
