//! Several commands as one call, as `lua/batch.lua` reads it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::pack::Pack;

/// Who decides a command, as the script numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deciding {
    Whole = 1,
    Straight = 2,
    SingleBucket = 3,
}

/// The commands so far. What several have in common is there once.
#[derive(Debug)]
pub(crate) struct Together {
    time: Option<[Arc<[u8]>; 2]>,
    keys: Places<Vec<u8>>,
    arguments: Places<Arc<[u8]>>,
    commands: Vec<(Deciding, Vec<usize>, Vec<usize>)>,
}

impl Together {
    /// None yet; `time` is the instant at which the first of the batch were decided.
    pub(crate) fn new(time: Option<[Arc<[u8]>; 2]>) -> Self {
        Self {
            time,
            keys: Places::default(),
            arguments: Places::default(),
            commands: Vec::new(),
        }
    }

    /// Adds a command, as it would be called by itself.
    pub(crate) fn add(&mut self, by: Deciding, keys: &[Vec<u8>], arguments: &[Arc<[u8]>]) {
        let keys = keys.iter().map(|key| self.keys.of(key)).collect();
        let arguments = arguments.iter().map(|one| self.arguments.of(one)).collect();
        self.commands.push((by, keys, arguments));
    }

    /// The keys and the arguments of the call.
    pub(crate) fn done(self) -> (Vec<Vec<u8>>, Vec<Arc<[u8]>>) {
        let mut pack = Pack::default();
        pack.array(self.commands.len());
        for (by, keys, arguments) in &self.commands {
            pack.array(3).int(*by as i64);
            for places in [keys, arguments] {
                pack.array(places.len());
                for &place in places {
                    pack.int(place as i64 + 1);
                }
            }
        }
        let time = self.time.unwrap_or_default();
        let first = time.into_iter().chain([pack.done().into()]);
        let arguments = first.chain(self.arguments.all).collect();
        (self.keys.all, arguments)
    }
}

/// Each of them once, and where.
#[derive(Debug)]
struct Places<T> {
    all: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            known: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Places<T> {
    fn of(&mut self, one: &T) -> usize {
        if let Some(&place) = self.known.get(one) {
            return place;
        }
        let place = self.all.len();
        self.all.push(one.clone());
        self.known.insert(one.clone(), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_commands_have_in_common_is_sent_once() {
        let mut together = Together::new(None);
        let plan: Arc<[u8]> = [1_u8; 100].as_slice().into();
        let command = |n: u8| Arc::from([n].as_slice());
        for n in 0..3 {
            let keys = [b"ledger".to_vec(), vec![n % 2]];
            together.add(Deciding::Whole, &keys, &[Arc::clone(&plan), command(n)]);
        }
        let (keys, arguments) = together.done();
        assert_eq!(keys, [b"ledger".to_vec(), vec![0], vec![1]]);
        // The instant, which is not known yet, and who is about which.
        assert_eq!((arguments.len(), arguments[0].len()), (3 + 4, 0));
        let one = |row, command| vec![0x93, 1, 0x92, 1, row, 0x92, 1, command];
        let expected = [vec![0x93], one(2, 2), one(3, 3), one(2, 4)].concat();
        assert_eq!(*arguments[2], *expected);
    }
}
