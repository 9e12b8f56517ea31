//! What goes out on a connection, and what comes back.

use crate::policy::Question;

/// What settles a lease: 32 hexadecimal digits.
pub type LeaseId = [u8; 32];

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Who we are.
    Greeting,
    /// The ask.
    Ask,
    /// The end of a lease.
    Settle,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Admitted(Option<LeaseId>),
    Refused,
    /// To something other than an ask.
    Done,
    /// It says why.
    Failed(String),
}

/// A protocol in which answers come in the order of their asks.
pub trait Wire {
    /// What is said first, if anything; it is answered, too.
    fn greet(&self, out: &mut Vec<u8>) -> bool;

    /// Asks for a key.
    fn ask(&mut self, key: u32, out: &mut Vec<u8>);

    /// Ends a lease.
    fn settle(&mut self, key: u32, lease: &LeaseId, out: &mut Vec<u8>);

    /// The first answer, and its length, once all of it is there.
    ///
    /// # Errors
    /// It is none: the connection is of no use any more.
    fn answer(&self, bytes: &[u8], step: Step) -> Result<Option<(usize, Answer)>, String>;
}

/// Text around a key.
#[derive(Clone, Debug)]
pub(super) struct Around {
    before: String,
    after: String,
    pub(super) keyed: bool,
}

impl Around {
    /// What stands around `{key}` in `text`.
    pub(super) fn of(text: &str, question: &Question) -> Self {
        match text.split_once("{key}") {
            Some((before, after)) => Self {
                before: before.to_owned() + &question.key_prefix,
                after: after.to_owned(),
                keyed: true,
            },
            None => Self {
                before: text.to_owned(),
                after: String::new(),
                keyed: false,
            },
        }
    }

    pub(super) fn len(&self, digits: &str) -> usize {
        self.before.len() + self.after.len() + if self.keyed { digits.len() } else { 0 }
    }

    pub(super) fn write(&self, digits: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        if self.keyed {
            out.extend_from_slice(digits.as_bytes());
        }
        out.extend_from_slice(self.after.as_bytes());
    }
}

pub(super) fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
}
