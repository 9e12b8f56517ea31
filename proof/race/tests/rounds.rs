//! What becomes of a run where a front is not to be reached.

use std::net::{Ipv4Addr, SocketAddr};

use tidegate_race::front::{FRONTS, Front};
use tidegate_race::provider::Provider;
use tidegate_race::round::ROUNDS;
use tidegate_race::rounds::{Opened, Whose, play};

/// Nobody listens there, and of one round it does not say what was spent.
struct Away(SocketAddr);

impl Front for Away {
    fn at(&self) -> [SocketAddr; FRONTS] {
        [self.0; FRONTS]
    }

    fn kill(&mut self, _: usize) {}

    fn start(&mut self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn restart_store(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn fields(&self, _: &str, _: &str) -> Vec<(&'static str, String)> {
        vec![]
    }

    fn spent(&self, key: &str) -> Result<u64, String> {
        match key == ROUNDS[1].name {
            true => Err("it is not to be reached".to_owned()),
            false => Ok(0),
        }
    }
}

/// One call of each of the first three rounds.
fn played(whose: Whose) -> (Result<bool, String>, Vec<String>) {
    // Who had the port is gone.
    let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let at = port.and_then(|port| port.local_addr()).expect("a port");
    let open = |_: &Provider| -> Opened { Ok(Some(Box::new(Away(at)))) };
    let mut rows = vec![];
    let holds = play(&ROUNDS[..3], 1, whose, open, |row| rows.push(row));
    (holds, rows)
}

/// A proxy of somebody else's that was not to be reached ended the run: of the rounds that were left
/// there were no rows.
#[test]
fn what_is_not_to_be_reached_ends_its_round_and_not_the_run() {
    let (holds, rows) = played(Whose::Theirs);
    assert_eq!(holds, Ok(true));
    let begin = ROUNDS.iter().map(|round| round.name);
    for (row, name) in rows.iter().zip(begin) {
        assert!(row.starts_with(name), "{row}");
    }
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(
        rows[1].ends_with("no result: it is not to be reached"),
        "{}",
        rows[1]
    );
    let (holds, rows) = played(Whose::Ours);
    assert_eq!(holds, Err("it is not to be reached".to_owned()));
    assert_eq!(rows.len(), 1);
}
