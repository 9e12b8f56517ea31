//! Why not, as a code word and a sentence.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_service::{Field, INVALID_CURSOR, Kind, ServiceError};

/// How much of an unknown word an error repeats.
const QUOTED: usize = 64;

/// What a command may answer instead of its reply. Nothing was changed, unless
/// the word is `UNAVAILABLE`: then the command may have been executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// What the service says.
    #[error("{}", in_words(.0))]
    Service(#[from] ServiceError),
    /// Nobody has said who they are.
    #[error("Authentication required.")]
    NoAuthentication,
    /// A name and token that do not belong together.
    #[error("invalid username-password pair or user is disabled.")]
    WrongToken,
    /// No such command.
    #[error("unknown command '{0}'")]
    UnknownCommand(String),
    /// No such subcommand: of which command, what was typed, and which there are.
    #[error("unknown subcommand '{1}' of {0}; there is {2}")]
    UnknownSubcommand(&'static str, String, &'static str),
    /// Too few arguments, or too many.
    #[error("wrong number of arguments for '{0}' command; it is {0} {1}")]
    Arity(&'static str, &'static str),
    /// A word where the command has another, or none.
    #[error("syntax error at '{0}'")]
    Syntax(String),
    /// The same, where the command is shown whole.
    #[error("syntax error at '{0}'; it is {1}")]
    Words(String, Cow<'static, str>),
    /// A word twice that is meant once.
    #[error("'{0}' is given twice")]
    GivenTwice(&'static str),
    /// A number that cannot be one.
    #[error("{name} is not {}: '{found}'", expected(name, *.least, *.most))]
    Number {
        name: &'static str,
        least: i64,
        most: i64,
        found: String,
    },
    /// A name that is not text.
    #[error("{0} is not UTF-8")]
    NotText(&'static str),
    /// The end of a page that was never one.
    #[error("{INVALID_CURSOR}")]
    Cursor,
    /// A protocol that nobody speaks.
    #[error("unsupported protocol version")]
    Protocol,
    /// A database other than the one there is.
    #[error("DB index is out of range; there is only 0")]
    Database,
    /// A client's name with blanks in it, or too long.
    #[error("Client names cannot contain spaces, newlines or special characters.")]
    ClientName,
    /// The server closes.
    #[error("the server is closing")]
    Closing,
    /// The first byte, or the rest of a command, did not come in this time.
    #[error("no whole command came within {0:?}; the connection is closed")]
    Late(Duration),
    /// The answer is that to a call that no command makes.
    #[error("internal error: an answer to another verb came; please report it")]
    Other,
    /// As many connections as there may be.
    #[error("max number of clients reached")]
    TooManyConnections,
    /// As many connections as one token may have.
    #[error("max number of clients of this token reached; the connection is closed")]
    TooManyOfToken,
}

impl Fault {
    /// The same, told to whoever typed the command of this name and shape.
    #[cold]
    pub(crate) fn of(self, name: &str, usage: &str) -> Self {
        match self {
            Self::Syntax(word) => Self::Words(word, format!("{name} {usage}").into()),
            fault => fault,
        }
    }

    /// The word that programs go by; it never changes.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Service(error) => code(error),
            Self::NoAuthentication => "NOAUTH",
            Self::WrongToken => "WRONGPASS",
            Self::Protocol => "NOPROTO",
            Self::Closing => "UNAVAILABLE",
            Self::Late(_) => "TIMEOUT",
            _ => "ERR",
        }
    }
}

/// What a number of this name has to be.
fn expected(name: &str, least: i64, most: i64) -> Cow<'static, str> {
    match name {
        "WAIT" | "TTL" => "a whole number of milliseconds, such as 2000".into(),
        _ => format!("a number from {least} to {most}").into(),
    }
}

/// What the service says, in the words of commands.
fn in_words(error: &ServiceError) -> Cow<'static, str> {
    match error {
        ServiceError::Bound {
            field,
            least,
            most,
            found,
        } => {
            let word = word(*field);
            format!("{word} is not a number from {least} to {most}: '{found}'").into()
        }
        ServiceError::Form { field, wrong } => match field {
            Field::Handle => "a lease's handle is 16 hexadecimal digits; TG.LEASES tells it".into(),
            Field::Lease | Field::Cursor => (*wrong).into(),
            field => format!("{}: {wrong}", word(*field)).into(),
        },
        ServiceError::Missing(field) => format!("{} is missing", word(*field)).into(),
        error => error.to_string().into(),
    }
}

/// The word that a command has for a part of a request.
const fn word(field: Field) -> &'static str {
    match field {
        Field::Policy => "POLICY",
        Field::Key => "KEY",
        Field::Amounts => "AMOUNT",
        Field::Priority => "PRIORITY",
        Field::Ttl => "TTL",
        Field::Wait => "WAIT",
        Field::Idempotency => "IDEMPOTENCY",
        Field::CoolDown => "COOLDOWN",
        Field::Cursor => "CURSOR",
        Field::PageSize => "COUNT",
        Field::Reason => "REASON",
        Field::ExpiresIn => "EXPIRES",
        Field::Until => "UNTIL",
        Field::Parent => "PARENT",
        Field::Name => "NAME",
        Field::Metadata => "META",
        field => field.name(),
    }
}

fn code(error: &ServiceError) -> &'static str {
    match error.kind() {
        Kind::Unauthenticated => "NOAUTH",
        Kind::Forbidden => "NOPERM",
        Kind::Never => "NEVER",
        Kind::Busy => "BUSY",
        Kind::Full => "FULL",
        Kind::Unavailable => "UNAVAILABLE",
        Kind::Ended => "NOLEASE",
        Kind::Conflict => "CONFLICT",
        Kind::InUse => "INUSE",
        Kind::Deleted => "DELETED",
        Kind::NotFound if error.field() == Some(Field::Lease) => "NOLEASE",
        Kind::NotFound | Kind::Invalid => "ERR",
    }
}

/// The beginning of what was sent, for an error.
pub(crate) fn quoted(word: &[u8]) -> String {
    let beginning = &word[..word.len().min(QUOTED)];
    String::from_utf8_lossy(beginning).into_owned()
}
