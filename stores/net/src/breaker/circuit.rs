//! The states of a breaker, as transitions of plain data: time is a parameter.

use std::time::Duration;

use super::settings::Settings;

/// Whether the store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Everyone asks it.
    Closed,
    /// Nobody asks it.
    Open,
    /// Some ask it, to see whether it answers.
    HalfOpen,
}

/// What those who ask a store learn of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A request got no answer, the first after the last answer. Told once in the longest
    /// pause at most.
    Failed,
    /// Several in a row got none: the store is away, and gets no requests for a while. Told once
    /// until it answers.
    Away,
    /// A request got an answer, so long after the first that got none.
    Answers(Duration),
}

/// A place that a request has taken. Its outcome counts only for as long as the
/// circuit is as it was then: of a thousand asks that fail together, one turns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    turn: u64,
    /// It is of a request that may wait for its turn: that it takes long says nothing of the store.
    waits: bool,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    state: State,
    /// How often it has changed.
    turn: u64,
    /// How often it was opened since it was last closed.
    round: u32,
    /// The requests since the last answer that got none.
    trouble: Option<Trouble>,
    /// When a failure was told last.
    told: Option<Duration>,
}

/// Requests that got no answer, and none did since.
#[derive(Debug)]
struct Trouble {
    since: Duration,
    is_told: bool,
    is_away: bool,
}

#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
    },
    /// Until this long after the breaker began.
    Open {
        until: Duration,
    },
    HalfOpen {
        /// How many ask now.
        asking: u32,
        /// How many of these may wait for their turn.
        waiting: u32,
        /// How many may at once.
        most: u32,
        /// How many of these have been answered.
        answered: u32,
        /// How many since the last answer got none.
        failures: u32,
        /// When the last one began.
        last: Duration,
        /// When `most` was raised last, by answers or by time, or one got no answer; `None` before the
        /// first answer.
        raised: Option<Duration>,
        /// Whether one was answered since.
        answers: bool,
    },
}

impl Circuit {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Closed { failures: 0 },
            turn: 0,
            round: 0,
            trouble: None,
            told: None,
        }
    }

    pub(crate) const fn position(&self) -> Position {
        match self.state {
            State::Closed { .. } => Position::Closed,
            State::Open { .. } => Position::Open,
            State::HalfOpen { .. } => Position::HalfOpen,
        }
    }

    /// A place for one request, or how long there is none for sure. `waits`: it may wait for its turn.
    pub(crate) fn enter(
        &mut self,
        now: Duration,
        waits: bool,
        settings: &Settings,
    ) -> Result<Place, Duration> {
        if let State::Open { until } = self.state {
            if now < until {
                return Err(until - now);
            }
            self.turn_to(State::HalfOpen {
                asking: 0,
                waiting: 0,
                most: 1,
                answered: 0,
                failures: 0,
                last: now,
                raised: None,
                answers: false,
            });
        }
        self.raise(now, settings);
        if let State::HalfOpen {
            asking,
            waiting,
            most,
            last,
            ..
        } = &mut self.state
        {
            // Those who wait for their turn keep nobody from trying for long.
            if asking >= most && now.saturating_sub(*last) < settings.patience {
                return Err(Duration::ZERO);
            }
            *asking += 1;
            *waiting += u32::from(waits);
            *last = now;
        }
        let turn = self.turn;
        Ok(Place { turn, waits })
    }

    /// Twice as many may ask at once after each pause in which one was answered, or nobody asked:
    /// else a server of few requests, which by answers alone takes hours, would be shut off from a
    /// store that is well by some that come together.
    fn raise(&mut self, now: Duration, settings: &Settings) {
        let State::HalfOpen {
            asking,
            waiting,
            most,
            raised: Some(raised),
            answers,
            ..
        } = &mut self.state
        else {
            return;
        };
        let nobody_asks = asking == waiting;
        // Twice as many, thirty-two times, are all.
        for _ in 0..u32::BITS {
            let by = raised.saturating_add(settings.pause);
            if now < by || *most > settings.ramp || !(*answers || nobody_asks) {
                break;
            }
            *most = most.saturating_mul(2);
            *raised = if nobody_asks { by } else { now };
            *answers = false;
        }
        self.close_if_all_may(settings);
    }

    fn close_if_all_may(&mut self, settings: &Settings) {
        if let State::HalfOpen { most, failures, .. } = self.state
            && (most > settings.ramp || most == u32::MAX)
        {
            // By time alone nothing is forgotten: the next answer says that the store is back.
            if failures == 0 {
                self.round = 0;
            }
            self.turn_to(State::Closed { failures });
        }
    }

    /// The request got its answer.
    pub(crate) fn answered(
        &mut self,
        place: Place,
        now: Duration,
        settings: &Settings,
    ) -> Option<Change> {
        if place.turn != self.turn {
            return None;
        }
        self.leave(place);
        self.count_answer(now, settings);
        let trouble = self.trouble.take().filter(|trouble| trouble.is_told)?;
        Some(Change::Answers(now.saturating_sub(trouble.since)))
    }

    fn count_answer(&mut self, now: Duration, settings: &Settings) {
        match &mut self.state {
            State::Closed { failures } => (*failures, self.round) = (0, 0),
            State::Open { .. } => {}
            State::HalfOpen {
                most,
                answered,
                failures,
                raised,
                answers,
                ..
            } => {
                (*answered, *failures, *answers) = (*answered + 1, 0, true);
                raised.get_or_insert(now);
                if *answered >= *most {
                    *answered = 0;
                    *most = most.saturating_mul(2);
                    (*raised, *answers) = (Some(now), false);
                }
                self.close_if_all_may(settings);
            }
        }
    }

    /// The request got none. `jitter` is from 0 to 1.
    pub(crate) fn failed(
        &mut self,
        place: Place,
        now: Duration,
        settings: &Settings,
        jitter: f64,
    ) -> Option<Change> {
        if place.turn != self.turn {
            return None;
        }
        self.leave(place);
        let failed = self.note_failure(now, settings);
        let (failures, enough) = match &mut self.state {
            State::Closed { failures } => (failures, settings.failures),
            // One that has answered is not away because one request was lost.
            State::HalfOpen {
                failures,
                raised: Some(raised),
                ..
            } => {
                // What it took was no pause in which nobody asked.
                *raised = now;
                (failures, settings.failures.min(2))
            }
            State::HalfOpen { failures, .. } => (failures, 1),
            State::Open { .. } => return None,
        };
        *failures += 1;
        if *failures < enough {
            return failed;
        }
        self.open(now, settings, jitter);
        let trouble = self.trouble.as_mut()?;
        trouble.is_told = true;
        let is_news = !std::mem::replace(&mut trouble.is_away, true);
        is_news.then_some(Change::Away)
    }

    /// The change, if it is the first failure after an answer and none was told just now.
    fn note_failure(&mut self, now: Duration, settings: &Settings) -> Option<Change> {
        if self.trouble.is_some() {
            return None;
        }
        let is_told = self
            .told
            .is_none_or(|told| now >= told + settings.longest_pause);
        if is_told {
            self.told = Some(now);
        }
        self.trouble = Some(Trouble {
            since: now,
            is_told,
            is_away: false,
        });
        is_told.then_some(Change::Failed)
    }

    fn open(&mut self, now: Duration, settings: &Settings, jitter: f64) {
        let longer = 1_u32.checked_shl(self.round).unwrap_or(u32::MAX);
        let pause = settings.pause.saturating_mul(longer);
        let pause = pause.min(settings.longest_pause);
        let pause = pause.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0);
        self.round = self.round.saturating_add(1);
        self.turn_to(State::Open {
            until: now.saturating_add(pause),
        });
    }

    /// The request was given up before it was known what became of it.
    pub(crate) fn given_up(&mut self, place: Place) {
        if place.turn == self.turn {
            self.leave(place);
        }
    }

    /// One that asked does so no more.
    fn leave(&mut self, place: Place) {
        if let State::HalfOpen {
            asking, waiting, ..
        } = &mut self.state
        {
            *asking = asking.saturating_sub(1);
            *waiting = waiting.saturating_sub(u32::from(place.waits));
        }
    }

    fn turn_to(&mut self, state: State) {
        self.turn += 1;
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: Settings = Settings {
        failures: 3,
        patience: Duration::from_millis(50),
        pause: Duration::from_millis(100),
        longest_pause: Duration::from_secs(2),
        ramp: 8,
    };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn enter(circuit: &mut Circuit, now: Duration) -> Result<Place, Duration> {
        circuit.enter(now, false, &SETTINGS)
    }

    fn opened() -> Circuit {
        let mut circuit = Circuit::new();
        let places: Vec<_> = (0..100)
            .map(|_| enter(&mut circuit, ms(0)).unwrap())
            .collect();
        for place in places {
            circuit.failed(place, ms(0), &SETTINGS, 0.5);
        }
        circuit
    }

    /// One that has answered once again, at 100 ms.
    fn half_open() -> Circuit {
        let mut circuit = opened();
        let place = enter(&mut circuit, ms(100)).unwrap();
        circuit.answered(place, ms(100), &SETTINGS);
        circuit
    }

    #[test]
    fn several_failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut circuit = Circuit::new();
        for outcome in [false, false, true, false, false, true] {
            let place = enter(&mut circuit, ms(0)).unwrap();
            match outcome {
                true => circuit.answered(place, ms(0), &SETTINGS),
                false => circuit.failed(place, ms(0), &SETTINGS, 0.5),
            };
            assert_eq!(circuit.position(), Position::Closed);
        }
        assert_eq!(opened().position(), Position::Open);
    }

    /// They were four, eight and more, the longer nobody had asked.
    #[test]
    fn two_in_a_row_open_it_again_while_it_is_half_open() {
        let mut circuit = half_open();
        let places = [ms(210), ms(210)].map(|now| enter(&mut circuit, now).unwrap());
        for place in places {
            assert_eq!(circuit.position(), Position::HalfOpen);
            circuit.failed(place, ms(300), &SETTINGS, 0.5);
        }
        assert_eq!(
            enter(&mut circuit, ms(300)),
            Err(ms(200)),
            "pauses go on from where they were"
        );
    }

    /// It forgot the failure and the pauses.
    #[test]
    fn what_failed_before_time_has_closed_it_counts() {
        let mut circuit = half_open();
        for begun in [150, 1_500, 2_600] {
            assert_ne!(circuit.position(), Position::Open);
            let place = enter(&mut circuit, ms(begun)).unwrap();
            circuit.failed(place, ms(begun + 100), &SETTINGS, 0.5);
        }
        assert_eq!(
            enter(&mut circuit, ms(2_700)),
            Err(ms(200)),
            "the second pause"
        );
    }

    #[test]
    fn many_that_fail_together_make_one_pause() {
        let mut circuit = opened();
        assert_eq!(enter(&mut circuit, ms(99)), Err(ms(1)));
        assert!(enter(&mut circuit, ms(100)).is_ok());
    }

    #[test]
    fn one_tries_and_the_pause_is_longer_each_time_it_fails() {
        let (mut circuit, mut now) = (opened(), ms(100));
        for pause in [200, 400, 800, 1_600, 2_000, 2_000] {
            let place = enter(&mut circuit, now).unwrap();
            assert_eq!(enter(&mut circuit, now), Err(Duration::ZERO), "one at once");
            circuit.failed(place, now, &SETTINGS, 0.5);
            assert_eq!(enter(&mut circuit, now), Err(ms(pause)));
            now += ms(pause);
        }
    }

    #[test]
    fn when_it_answers_twice_as_many_are_let_through_each_time() {
        let mut circuit = opened();
        // At one instant.
        for most in [1, 2, 4, 8] {
            let places: Vec<_> = (0..most)
                .map(|_| enter(&mut circuit, ms(100)).unwrap())
                .collect();
            assert!(enter(&mut circuit, ms(100)).is_err(), "no more than {most}");
            for place in places {
                circuit.answered(place, ms(100), &SETTINGS);
            }
        }
        assert_eq!(circuit.position(), Position::Closed);
    }

    /// It was half open until 127 requests had been answered: of forty that came together half an hour
    /// later, twenty-four were not sent to a store that was well.
    #[test]
    fn a_store_that_has_answered_for_a_while_is_asked_by_all() {
        for one_is_lost in [false, true] {
            let mut circuit = half_open();
            if one_is_lost {
                let place = enter(&mut circuit, ms(110)).unwrap();
                circuit.failed(place, ms(110), &SETTINGS, 0.5);
            }
            // Two by the answer, and twice as many with each pause.
            for (now, many) in [(150, 2), (250, 4), (350, 8)] {
                let places: Vec<_> = (0..many)
                    .map(|_| enter(&mut circuit, ms(now)).unwrap())
                    .collect();
                assert!(enter(&mut circuit, ms(now)).is_err(), "{many}");
                places.into_iter().for_each(|p| circuit.given_up(p));
            }
            for _ in 0..40 {
                assert!(enter(&mut circuit, ms(420)).is_ok());
            }
            assert_eq!(circuit.position(), Position::Closed);
        }
    }

    #[test]
    fn one_that_answers_once_and_hangs_then_is_not_asked_by_all() {
        let mut circuit = half_open();
        let hangs = enter(&mut circuit, ms(120)).unwrap();
        // Somebody tries after each patience, and no more.
        let asked = (121..2_000).filter(|&now| enter(&mut circuit, ms(now)).is_ok());
        assert!((30..=45).contains(&asked.count()));
        circuit.failed(hangs, ms(2_000), &SETTINGS, 0.5);
        assert_eq!(circuit.position(), Position::HalfOpen);
    }

    /// The time of each was taken for one in which nobody asked: after two seconds without an answer
    /// all were let through.
    #[test]
    fn one_that_hangs_for_one_request_after_the_other_is_opened() {
        let mut circuit = half_open();
        for now in [110, 1_120] {
            let place = enter(&mut circuit, ms(now)).unwrap();
            circuit.failed(place, ms(now + 1_000), &SETTINGS, 0.5);
        }
        assert_eq!(circuit.position(), Position::Open);
    }

    /// One that waited for its turn for minutes kept it half open.
    #[test]
    fn who_waits_for_a_turn_keeps_nobody_from_a_store_that_is_well() {
        let mut circuit = half_open();
        let waits = circuit.enter(ms(110), true, &SETTINGS).unwrap();
        for _ in 0..40 {
            assert!(enter(&mut circuit, ms(60_000)).is_ok());
        }
        circuit.given_up(waits);
        assert_eq!(circuit.position(), Position::Closed);
    }

    /// One lost request shut the server off for up to six seconds, by the pauses of an outage before.
    #[test]
    fn one_that_is_lost_after_answers_opens_nothing_and_several_do() {
        let (mut circuit, mut now) = (opened(), ms(100));
        for pause in [200, 400] {
            let place = enter(&mut circuit, now).unwrap();
            circuit.failed(place, now, &SETTINGS, 0.5);
            now += ms(pause);
        }
        for outcome in [true, false, true] {
            let place = enter(&mut circuit, now).unwrap();
            match outcome {
                true => circuit.answered(place, now, &SETTINGS),
                false => circuit.failed(place, now, &SETTINGS, 0.5),
            };
            assert_eq!(circuit.position(), Position::HalfOpen);
        }
        while circuit.position() == Position::HalfOpen {
            let place = enter(&mut circuit, now).unwrap();
            circuit.failed(place, now, &SETTINGS, 0.5);
        }
        // One that comes and goes is asked more seldom, until it has stayed.
        assert_eq!(enter(&mut circuit, now), Err(ms(800)));
    }

    #[test]
    fn an_outage_is_told_as_it_begins_and_ends_and_a_failure_now_and_then_seldom() {
        let mut circuit = Circuit::new();
        let fail = |circuit: &mut Circuit, now| {
            let place = enter(circuit, now).unwrap();
            circuit.failed(place, now, &SETTINGS, 0.5)
        };
        let answer = |circuit: &mut Circuit, now| {
            let place = enter(circuit, now).unwrap();
            circuit.answered(place, now, &SETTINGS)
        };
        assert_eq!(answer(&mut circuit, ms(0)), None);
        assert_eq!(fail(&mut circuit, ms(10)), Some(Change::Failed));
        assert_eq!(fail(&mut circuit, ms(20)), None);
        assert_eq!(fail(&mut circuit, ms(30)), Some(Change::Away));
        // Who tries and gets no answer tells nothing new.
        assert_eq!(fail(&mut circuit, ms(130)), None);
        // The first answer is one, long before the store is asked by everyone.
        let back = Some(Change::Answers(ms(500)));
        assert_eq!(answer(&mut circuit, ms(510)), back);
        assert_eq!(circuit.position(), Position::HalfOpen);
        assert_eq!(answer(&mut circuit, ms(511)), None);
        // Soon after, one failure is not worth a line, but another outage is.
        assert_eq!(fail(&mut circuit, ms(520)), None);
        assert_eq!(fail(&mut circuit, ms(521)), Some(Change::Away));
        let back = Some(Change::Answers(ms(480)));
        assert_eq!(answer(&mut circuit, ms(1_000)), back);
        for _ in 0..200 {
            assert_eq!(answer(&mut circuit, ms(1_001)), None);
        }
        assert_eq!(circuit.position(), Position::Closed);
        assert_eq!(fail(&mut circuit, ms(1_100)), None);
        assert_eq!(answer(&mut circuit, ms(1_110)), None);
        assert_eq!(fail(&mut circuit, ms(2_010)), Some(Change::Failed));
        assert_eq!(
            answer(&mut circuit, ms(2_020)),
            Some(Change::Answers(ms(10)))
        );
    }

    #[test]
    fn a_try_that_takes_long_keeps_its_place_only_for_so_long() {
        let mut circuit = opened();
        let slow = enter(&mut circuit, ms(100)).unwrap();
        assert!(enter(&mut circuit, ms(149)).is_err());
        let other = enter(&mut circuit, ms(150)).unwrap();
        circuit.answered(other, ms(150), &SETTINGS);
        circuit.answered(slow, ms(150), &SETTINGS);
        assert!(enter(&mut circuit, ms(151)).is_ok());
    }

    #[test]
    fn a_try_that_is_given_up_leaves_its_place_to_another() {
        let mut circuit = opened();
        let place = enter(&mut circuit, ms(100)).unwrap();
        circuit.given_up(place);
        assert!(enter(&mut circuit, ms(100)).is_ok());
    }

    proptest! {
        /// Whatever comes back, and when: no more ask a store that was away than
        /// may, and a store that answers is asked again within the longest pause.
        #[test]
        fn nobody_is_locked_out_of_a_store_that_answers(
            outcomes in proptest::collection::vec((0_u8..4, 0_u64..3_000, 0_f64..1.0), 0..200),
        ) {
            let (mut circuit, mut now, mut open) = (Circuit::new(), ms(0), Vec::new());
            for (what, gap, jitter) in outcomes {
                now += ms(gap);
                match what {
                    0 => open.extend(enter(&mut circuit, now).ok()),
                    1 => open.pop().into_iter().for_each(|p| { circuit.answered(p, now, &SETTINGS); }),
                    2 => open.pop().into_iter().for_each(|p| circuit.given_up(p)),
                    _ => if let Some(place) = open.pop() {
                        circuit.failed(place, now, &SETTINGS, jitter);
                    },
                }
            }
            for place in open {
                circuit.given_up(place);
            }
            now += SETTINGS.longest_pause.mul_f64(1.25);
            while circuit.position() != Position::Closed {
                let place = enter(&mut circuit, now);
                prop_assert!(place.is_ok(), "{circuit:?}");
                circuit.answered(place.unwrap(), now, &SETTINGS);
            }
        }
    }
}
