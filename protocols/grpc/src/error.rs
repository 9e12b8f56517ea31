//! Why not, as a status, or as a problem in place of one of several answers.

use tidegate_service::{Kind, ServiceError};
use tonic::{Code, Status};

use crate::proto;

/// The longest message of a status, in bytes: it goes in a head, where a byte may take three,
/// and clients take no more than 8 KiB of that.
const LONGEST_MESSAGE: usize = 2_048;

/// An error as a status.
pub fn status(error: &ServiceError) -> Status {
    let code = match error.kind() {
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::Forbidden => Code::PermissionDenied,
        Kind::NotFound => Code::NotFound,
        Kind::Invalid => Code::InvalidArgument,
        Kind::Never => Code::OutOfRange,
        Kind::Ended | Kind::InUse | Kind::Deleted => Code::FailedPrecondition,
        Kind::Conflict => Code::Aborted,
        Kind::Busy | Kind::Full => Code::ResourceExhausted,
        Kind::Unavailable => Code::Unavailable,
    };
    let mut message = error.to_string();
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push_str("...");
    }
    Status::new(code, message)
}

/// What is wrong with one of several.
pub fn problem(error: &ServiceError) -> proto::Problem {
    proto::Problem {
        code: error.kind().code().to_owned(),
        message: error.to_string(),
    }
}
