//! What a principal of AWS has to be allowed to do on the table.

/// Whom a policy is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// A process that opens the store with `migrate=off`.
    Decide,
    /// The same, which also makes the table where there is none (`migrate=on`).
    Migrate,
    /// A person or a pipeline that runs `tidegate dynamodb`.
    Administer,
}

impl Rights {
    /// The actions, as IAM calls them, in the order of the alphabet. A transaction needs those of
    /// its items.
    #[must_use]
    pub const fn actions(self) -> &'static [&'static str] {
        match self {
            Self::Decide => &[
                "dynamodb:DeleteItem",
                "dynamodb:DescribeTable",
                "dynamodb:GetItem",
                "dynamodb:PutItem",
                "dynamodb:Query",
                "dynamodb:Scan",
                "dynamodb:UpdateItem",
            ],
            Self::Migrate => &[
                "dynamodb:CreateTable",
                "dynamodb:DeleteItem",
                "dynamodb:DescribeTable",
                "dynamodb:DescribeTimeToLive",
                "dynamodb:GetItem",
                "dynamodb:PutItem",
                "dynamodb:Query",
                "dynamodb:Scan",
                "dynamodb:UpdateItem",
                "dynamodb:UpdateTimeToLive",
            ],
            Self::Administer => &[
                "dynamodb:CreateTable",
                "dynamodb:DeleteTable",
                "dynamodb:DescribeTable",
                "dynamodb:DescribeTimeToLive",
                "dynamodb:GetItem",
                "dynamodb:PutItem",
                "dynamodb:UpdateTable",
                "dynamodb:UpdateTimeToLive",
            ],
        }
    }

    /// Its name in a template.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Migrate => "migrate",
            Self::Administer => "administer",
        }
    }
}
