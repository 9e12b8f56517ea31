//! Bodies of calls: read whole, in the room for them that callers share.
//!
//! A caller may hold as much as it leaves free (the dynamic thresholds of Choudhury and Hahne): one
//! that calls alone has half of all, of several that want everything each has one part, and one part
//! is always left for whoever comes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tidegate_protocol::{Late, TimedBody};

use crate::refuse::Refusal;
use crate::settings::Settings;

/// So many bytes a second come of a body at least, behind those of the first
/// [`head_timeout`](Settings::head_timeout).
const LEAST_PACE: u64 = 4 * 1_024;

/// Room is taken in pieces of so many bytes.
const PIECE: usize = 1_024;

/// Room for bodies.
pub struct Bodies(Mutex<State>);

/// All of it in pieces.
struct State {
    free: usize,
    /// What callers hold, of those that hold something: no more of them than there are pieces.
    held: HashMap<Arc<[u8]>, usize>,
}

/// What one body takes of it, which comes back when this is dropped.
pub struct Room {
    bodies: Arc<Bodies>,
    caller: Arc<[u8]>,
    pieces: usize,
}

/// A caller holds as much as it may.
#[derive(Debug)]
pub struct NoRoom;

impl Bodies {
    /// Room for so many bytes.
    pub fn new(most: usize) -> Arc<Self> {
        let state = State {
            free: most / PIECE,
            held: HashMap::new(),
        };
        Arc::new(Self(Mutex::new(state)))
    }

    /// None yet, for a body of that caller's.
    pub fn room(self: &Arc<Self>, caller: &Arc<[u8]>) -> Room {
        Room {
            bodies: Arc::clone(self),
            caller: Arc::clone(caller),
            pieces: 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Grows to so many bytes.
    ///
    /// # Errors
    /// [`NoRoom`], and nothing has changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes.div_ceil(PIECE).saturating_sub(self.pieces);
        if more == 0 {
            return Ok(());
        }
        let mut state = self.bodies.state();
        let held = state.held.get(&self.caller).copied().unwrap_or(0) + more;
        if held + more > state.free {
            return Err(NoRoom);
        }
        state.free -= more;
        state.held.insert(Arc::clone(&self.caller), held);
        self.pieces += more;
        Ok(())
    }

    /// Gives all of it back.
    fn clear(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        if pieces == 0 {
            return;
        }
        let mut state = self.bodies.state();
        state.free += pieces;
        if let Some(held) = state.held.get_mut(&self.caller) {
            *held -= pieces;
            if *held == 0 {
                state.held.remove(&self.caller);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A body, read whole, and the room that it takes: bounded in size and in time, and all together. It
/// takes room as it comes, whatever it announces.
///
/// # Errors
/// [`Refusal`]: it does not come, or there is no room for it.
pub async fn whole(
    settings: &Settings,
    mut room: Room,
    body: Incoming,
) -> Result<(Bytes, Room), Refusal> {
    if body.size_hint().lower() > settings.max_body_bytes as u64 {
        return Err(Refusal::too_large(settings.max_body_bytes));
    }
    let timed = TimedBody::new(body, "gateway", settings.head_timeout).at_least(LEAST_PACE);
    let mut limited = Limited::new(timed, settings.max_body_bytes);
    let (mut whole, mut has_room) = (BytesMut::new(), true);
    while let Some(frame) = limited.frame().await {
        let frame = frame.map_err(|error| unread(settings, &*error))?;
        let data = frame.into_data().unwrap_or_default();
        has_room = has_room && room.grow(whole.len() + data.len()).is_ok();
        if has_room {
            whole.extend_from_slice(&data);
        } else {
            // It is read to its end all the same: who still writes does not read an answer.
            whole = BytesMut::new();
            room.clear();
        }
    }
    match has_room {
        true => Ok((whole.freeze(), room)),
        false => Err(Refusal::busy()),
    }
}

/// Why a body was not read.
fn unread(settings: &Settings, error: &(dyn std::error::Error + Send + Sync + 'static)) -> Refusal {
    if error.is::<LengthLimitError>() {
        Refusal::too_large(settings.max_body_bytes)
    } else if error.is::<Late>() {
        Refusal::late(&format!(
            "the body came too slowly: it may pause for {:?}, and has that time and a second more for \
             each {LEAST_PACE} bytes that come",
            settings.head_timeout
        ))
    } else {
        Refusal::late(&format!("the body broke off: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_holds_as_much_as_it_leaves_and_all_comes_back() {
        let bodies = Bodies::new(12 * PIECE);
        let caller = |name: &str| Arc::from(name.as_bytes());
        let mut one = bodies.room(&caller("one"));
        one.grow(6 * PIECE).unwrap();
        assert!(one.grow(6 * PIECE + 1).is_err(), "half of all");
        let mut another = bodies.room(&caller("one"));
        assert!(another.grow(1).is_err(), "whichever call of it holds that");
        let mut two = bodies.room(&caller("two"));
        two.grow(3 * PIECE).unwrap();
        assert!(two.grow(4 * PIECE).is_err(), "half of what is left");
        drop((one, another));
        two.grow(6 * PIECE).unwrap();
        drop(two);
        let state = bodies.state();
        assert_eq!((state.free, state.held.len()), (12, 0));
    }
}
