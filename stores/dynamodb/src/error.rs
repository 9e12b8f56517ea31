//! Why a store cannot be opened, and what an error of DynamoDB means.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use tidegate_store::StoreError;

/// The store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DynamodbError {
    /// The table's name makes no sense.
    #[error(
        "`{0}` is no name of a DynamoDB table; write 3 to 255 letters, digits and `_-.`, as dynamodb://tidegate"
    )]
    Table(String),
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
    /// There is no such table.
    #[error("the DynamoDB table `{0}` is not there; make it with `tidegate dynamodb create`")]
    NotThere(String),
    /// The table is protected: DynamoDB does not delete it.
    #[error(
        "the DynamoDB table `{0}` is protected, and stays; `tidegate dynamodb upgrade --protect off` lets it be deleted"
    )]
    Protected(String),
    /// DynamoDB cannot be reached, or the table cannot be used.
    #[error("{0}")]
    Server(String),
}

/// What is over its limit where DynamoDB throttles a request: nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Throttle {
    /// One partition: 1,000 units written or 3,000 read a second.
    KeyRange,
    /// What is provisioned for the table.
    Provisioned,
    /// The most that the table may use on demand.
    MaxOnDemand,
    /// The account's quota.
    Account,
    /// DynamoDB does not say.
    Unsaid,
}

impl Throttle {
    /// From what DynamoDB gives as the reason, as `TableWriteKeyRangeThroughputExceeded`, and
    /// the error's code.
    fn of(reason: &str, code: &str) -> Self {
        match (reason, code) {
            (reason, _) if reason.contains("KeyRange") => Self::KeyRange,
            (reason, _) if reason.contains("Provisioned") => Self::Provisioned,
            (reason, _) if reason.contains("MaxOnDemand") => Self::MaxOnDemand,
            (reason, _) if reason.contains("AccountLimit") => Self::Account,
            (_, "RequestLimitExceeded") => Self::Account,
            (_, "ProvisionedThroughputExceededException" | "ProvisionedThroughputExceeded") => {
                Self::Provisioned
            }
            _ => Self::Unsaid,
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::KeyRange => "one key's root is asked more often than a partition takes",
            Self::Provisioned => {
                "the table has too little provisioned; provision more, or let it be billed on demand"
            }
            Self::MaxOnDemand => "the table's own maximum on demand is reached; raise it",
            Self::Account => "the account's quota is reached; have it raised",
            Self::Unsaid => "more is asked of the table than it takes",
        }
    }
}

/// What a failure is to who must decide whether to try again.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Others write the same: nothing was done, try again.
    Lost(String),
    /// Too much is asked: nothing was done, try again later.
    Throttled(Throttle, String),
    /// No answer, or one that says nothing: it may have been done.
    Broken(String),
    /// The signature is of another time: nothing was done. The answer says what time it is.
    Skewed(String),
    /// The answer to the command.
    Failed(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Trouble {
    /// What is told of it when nothing more is tried.
    pub(crate) fn told(self) -> StoreError {
        match self {
            Self::Lost(words) => StoreError::Busy(words),
            Self::Throttled(throttle, words) => StoreError::Busy(format!(
                "DynamoDB throttles: {}: {words}",
                throttle.advice()
            )),
            Self::Broken(words) | Self::Skewed(words) => StoreError::Unavailable(words),
            Self::Failed(error) => error,
        }
    }

    /// What an error of DynamoDB means.
    pub(crate) fn of<E, R>(error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug,
    {
        match error {
            SdkError::ServiceError(service) => {
                let error = service.err();
                Self::of_code(
                    error.code().unwrap_or_default(),
                    error.message().unwrap_or_default(),
                )
            }
            SdkError::TimeoutError(_) => Self::Broken("DynamoDB does not answer in time".into()),
            SdkError::ConstructionFailure(_) => Self::Failed(StoreError::Unavailable(format!(
                "a request to DynamoDB cannot be made: {}",
                DisplayErrorContext(error)
            ))),
            SdkError::DispatchFailure(failure) if failure.is_user() || failure.is_other() => {
                Self::Broken(format!(
                    "DynamoDB cannot be asked (are there credentials?): {}",
                    DisplayErrorContext(error)
                ))
            }
            _ => Self::Broken(format!(
                "DynamoDB cannot be reached: {}",
                DisplayErrorContext(error)
            )),
        }
    }

    /// What an error of this code and with these words means, of a request or of one item of
    /// a transaction.
    pub(crate) fn of_code(code: &str, message: &str) -> Self {
        let words = format!("{code}: {message}");
        match code {
            "TransactionConflict"
            | "TransactionConflictException"
            | "TransactionInProgressException" => {
                Self::Lost(format!("others write the same key's root; {words}"))
            }
            "ThrottlingException"
            | "ThrottlingError"
            | "ProvisionedThroughputExceededException"
            | "ProvisionedThroughputExceeded"
            | "RequestLimitExceeded" => Self::Throttled(Throttle::of(message, code), words),
            "InternalServerError" | "InternalServerErrorException" | "ServiceUnavailable" | "" => {
                Self::Broken(format!("DynamoDB failed: {words}"))
            }
            "InvalidSignatureException" | "RequestTimeTooSkewed" | "RequestExpired" => {
                Self::Skewed(format!("DynamoDB did not accept the signature: {words}"))
            }
            "ItemCollectionSizeLimitExceeded" | "ItemCollectionSizeLimitExceededException" => {
                Self::Failed(StoreError::Full(format!(
                    "DynamoDB keeps 10 GB for one root; {words}"
                )))
            }
            _ => Self::Failed(StoreError::Unavailable(format!(
                "{}: {words}",
                advice(code)
            ))),
        }
    }
}

fn advice(code: &str) -> &'static str {
    match code {
        "ResourceNotFoundException" => {
            "the DynamoDB table is not there; create it, or open the store without migrate=off"
        }
        "AccessDeniedException" => {
            "the credentials may not do this; allow them what docs/stores/dynamodb.md says"
        }
        "UnrecognizedClientException" | "MissingAuthenticationToken" | "ExpiredTokenException" => {
            "DynamoDB did not accept the credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        _ => "DynamoDB answered with an error",
    }
}

/// An item that none of our writes left.
pub(crate) fn garbled(what: &str) -> Trouble {
    Trouble::Failed(StoreError::Unavailable(format!(
        "an item of the DynamoDB table cannot be read ({what})"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_told_from_what_was_not() {
        let lost = Trouble::of_code("TransactionConflict", "");
        assert!(matches!(lost, Trouble::Lost(_)));
        let failed = Trouble::of_code("InternalServerError", "");
        assert!(matches!(failed, Trouble::Broken(_)));
        let told = Trouble::of_code("ValidationException", "").told();
        assert!(matches!(told, StoreError::Unavailable(_)));
    }

    #[test]
    fn the_reason_of_a_throttle_is_told() {
        let of = |message| match Trouble::of_code("ThrottlingException", message) {
            Trouble::Throttled(throttle, _) => throttle,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            of("TableWriteKeyRangeThroughputExceeded"),
            Throttle::KeyRange
        );
        assert_eq!(
            of("TableReadProvisionedThroughputExceeded"),
            Throttle::Provisioned
        );
        assert_eq!(
            of("TableWriteMaxOnDemandThroughputExceeded"),
            Throttle::MaxOnDemand
        );
        assert_eq!(of("TableWriteAccountLimitExceeded"), Throttle::Account);
        assert_eq!(of("Rate exceeded"), Throttle::Unsaid);
        let told = Trouble::of_code("RequestLimitExceeded", "").told();
        let StoreError::Busy(words) = told else {
            panic!("{told:?}");
        };
        assert!(words.contains("quota"), "{words}");
    }
}
