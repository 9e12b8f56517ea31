//! A conversation with one server or two in turn, noted as it goes.

use std::time::{Duration, Instant};

use crate::questions::common::expect;
use crate::talk::{Answer, Call, Client, Verb, Word};

/// A verb, and a conversation in which it is asked.
pub(in crate::questions) struct Scenario {
    pub(in crate::questions) case: &'static str,
    pub(super) verb: Verb,
    /// What it needs beside: a protocol without it has no such row.
    pub(super) besides: &'static [Verb],
    /// Whether the servers can be asked in turn; where one has to be told by the other
    /// first, another question asks for that.
    pub(super) in_turn: bool,
    pub(super) play: fn(&mut Talk<'_>) -> Result<(), String>,
}

pub(super) const fn row(
    case: &'static str,
    verb: Verb,
    play: fn(&mut Talk<'_>) -> Result<(), String>,
) -> Scenario {
    Scenario {
        case,
        verb,
        besides: &[],
        in_turn: true,
        play,
    }
}

pub(super) const fn at_one(
    case: &'static str,
    verb: Verb,
    play: fn(&mut Talk<'_>) -> Result<(), String>,
) -> Scenario {
    Scenario {
        in_turn: false,
        ..row(case, verb, play)
    }
}

/// A conversation about one key with one client after the other, noted as it goes.
pub(super) struct Talk<'a> {
    clients: &'a mut [Box<dyn Client>],
    turn: usize,
    pub(super) key: String,
    noted: Vec<String>,
    /// A pool was so slow that its next member may have been asked beside the first.
    is_late: bool,
}

/// A member of a pool that takes longer is late (300 ms, and what it takes to get there).
const LATE: Duration = Duration::from_millis(250);

/// So often a conversation is begun anew in which a pool was late.
const ATTEMPTS: usize = 20;

impl Talk<'_> {
    #[expect(
        clippy::disallowed_methods,
        reason = "which member of a pool answers depends on how long the first one takes"
    )]
    pub(super) fn say(&mut self, call: Call) -> Result<Answer, String> {
        let client = self.turn % self.clients.len();
        self.turn += 1;
        let asked_at = Instant::now();
        let mut answer = self.clients[client].ask_all(&call)?;
        // The others' are no part of this conversation.
        let ours = match call.verb {
            Verb::ListEntities => Some(format!("entity {}", self.key)),
            Verb::ListNamespaces => Some(format!("namespace {}", self.name())),
            _ => None,
        };
        if let Some(ours) = ours {
            answer.facts.retain(|name, _| name.starts_with(&ours));
        }
        self.is_late |= call.policy == "pool" && asked_at.elapsed() > LATE;
        let noted = format!("{:?}: {answer:?}", call.verb);
        let noted = noted.replace(&self.key, "KEY");
        self.noted.push(noted.replace(&self.name(), "NAME"));
        Ok(answer)
    }

    /// The key as a namespace is called.
    pub(super) fn name(&self) -> String {
        let name = self
            .key
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        name.replace("--", "-")
    }

    pub(super) fn often(
        &mut self,
        times: usize,
        call: impl Fn(&str) -> Call,
    ) -> Result<(), String> {
        (0..times).try_for_each(|_| self.say(call(&self.key)).map(drop))
    }

    /// The lease that is granted, or the handle of one that is listed.
    pub(super) fn lease(&mut self, mut call: Call) -> Result<String, String> {
        // The row of acquire asks without patience.
        call.wait = (call.verb == Verb::Acquire).then_some(20_000);
        let answer = self.say(call)?;
        answer
            .lease
            .clone()
            .ok_or_else(|| format!("no lease: {answer:?}"))
    }

    /// A root, and one that belongs to it.
    pub(super) fn family(&mut self) -> Result<(String, String), String> {
        let (root, team) = (self.key.clone(), format!("{} team", self.key));
        self.say(Call::entity(Verb::CreateEntity, &root))?;
        self.say(Call::entity(Verb::CreateEntity, &team).below(&root))?;
        Ok((root, team))
    }

    /// A root, two teams below it, and a user below the first.
    pub(super) fn staff(&mut self) -> Result<[String; 4], String> {
        let root = self.key.clone();
        let [search, ads, ann] = ["search", "ads", "ann"].map(|id| format!("{root} {id}"));
        self.say(Call::entity(Verb::CreateEntity, &root))?;
        for (id, parent) in [(&search, &root), (&ads, &root), (&ann, &search)] {
            self.say(Call::entity(Verb::CreateEntity, id).below(parent))?;
        }
        Ok([root, search, ads, ann])
    }

    pub(super) fn peek(&mut self, policy: &str) -> Result<(), String> {
        self.peek_of(policy, "tokens")
    }

    pub(super) fn peek_of(&mut self, policy: &str, limit: &str) -> Result<(), String> {
        self.say(Call::of(Verb::Peek, policy, &self.key).amount(limit, 1))
            .map(drop)
    }

    pub(super) fn batches(&mut self, verb: Verb) -> Result<(), String> {
        for _ in 0..3 {
            let each = vec![Call::of(Verb::Check, "calls", &self.key); 4];
            self.say(Call {
                each,
                ..Call::of(verb, "", "")
            })?;
        }
        Ok(())
    }

    pub(super) fn ends(&mut self, verb: Verb) -> Result<(), String> {
        let lease = self.lease(Call::of(Verb::Acquire, "job", &self.key).amount("tokens", 20))?;
        self.peek("job")?;
        self.say(Call::of(verb, "job", &self.key).lease(&lease))?;
        self.say(Call::of(verb, "job", &self.key).lease(&lease))?;
        self.peek("job")?;
        let unknown = "0123456789abcdef0123456789abcdef";
        self.say(Call::of(verb, "job", &self.key).lease(unknown))
            .map(drop)
    }

    /// What it tells is the server's own: that it is answered is all that is held.
    pub(super) fn runs(&mut self, call: Call) -> Result<(), String> {
        for _ in 0..2 {
            let answer = self.say(call.clone())?;
            expect(answer.word == Word::Done, || format!("{answer:?}"))?;
            self.noted.clear();
        }
        Ok(())
    }
}

pub(super) fn play(
    scenario: &Scenario,
    key: &str,
    clients: &mut [Box<dyn Client>],
) -> Result<Vec<String>, String> {
    for attempt in 0..ATTEMPTS {
        let mut talk = Talk {
            clients: &mut *clients,
            turn: 0,
            key: format!("{key}, {attempt}"),
            noted: Vec::new(),
            is_late: false,
        };
        (scenario.play)(&mut talk)?;
        if !talk.is_late {
            return Ok(talk.noted);
        }
    }
    Err(format!(
        "in {ATTEMPTS} conversations an answer of the pool took longer than {LATE:?}"
    ))
}
