//! One round after the other, each before a front of its own.

use crate::books::Books;
use crate::front::Front;
use crate::provider::Provider;
use crate::round::{self, Round};
use crate::table;

/// What stands before a provider; `None` where this machine lacks a server.
pub type Opened = Result<Option<Box<dyn Front>>, String>;

/// Whose processes play.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Ours: what does not start, or does not tell, ends the run.
    Ours,
    /// Somebody else's, of whom nothing is demanded: it ends its round, and the row says why.
    Theirs,
}

/// Plays rounds of so many calls each, and has a row printed of each. Whether those hold that came to
/// their ends.
///
/// # Errors
/// What does not start, or does not tell, if it is ours.
pub fn play(
    rounds: &[Round],
    calls: u64,
    whose: Whose,
    open: impl Fn(&Provider) -> Opened,
    mut print: impl FnMut(String),
) -> Result<bool, String> {
    let mut holds = true;
    for round in rounds {
        match one(round, calls, &open) {
            Ok(Some(books)) => {
                print(table::row(round.name, &books));
                holds &= books.hold(round.may_owe());
            }
            Ok(None) => return Ok(holds),
            Err(why) if whose == Whose::Theirs => print(table::ended(round.name, &why)),
            Err(why) => return Err(why),
        }
    }
    Ok(holds)
}

fn one(
    round: &Round,
    calls: u64,
    open: impl Fn(&Provider) -> Opened,
) -> Result<Option<Books>, String> {
    let provider = Provider::start()?;
    let Some(mut front) = open(&provider)? else {
        return Ok(None);
    };
    round::run(round, calls, &mut *front, &provider).map(Some)
}
