//! A batch: each root by itself, its commands in their order.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::{Answer, Command, Item, Later, Op, OwnedCommand, Reply};

use crate::driver::closed;
use crate::underway::Tasks;

/// Begins each of `items` by `begin`: those of one root one after the other, those of
/// different roots at once. Their answers come together, in the order of the items.
pub fn batch(
    tasks: Option<Tasks>,
    command: &Command<'_>,
    items: &[Item<'_>],
    begin: impl Fn(&Command<'_>) -> Later + Send + Sync + 'static,
) -> Later {
    let mut roots: HashMap<&[u8], Vec<(usize, OwnedCommand)>> = HashMap::new();
    for (at, &(path, verb)) in items.iter().enumerate() {
        let owned = OwnedCommand::of(&command.about(Op::One(path, verb)));
        roots.entry(path.root()).or_default().push((at, owned));
    }
    let begin = Arc::new(begin);
    let start = |commands: Vec<(usize, OwnedCommand)>| {
        let begin = Arc::clone(&begin);
        let work = async move {
            let mut answers = Vec::with_capacity(commands.len());
            for (at, command) in commands {
                let later = command.lend(|command| begin(command));
                answers.push((at, later.await));
            }
            answers
        };
        tasks.as_ref().map(|tasks| tasks.spawn(work))
    };
    let started: Vec<_> = roots.into_values().map(start).collect();
    let count = items.len();
    Later::new(async move {
        let mut answers: Vec<Answer> = (0..count).map(|_| Err(closed())).collect();
        for task in started.into_iter().flatten() {
            for (at, answer) in task.await.unwrap_or_default() {
                answers[at] = answer;
            }
        }
        Ok(Reply::Batch(answers))
    })
}
