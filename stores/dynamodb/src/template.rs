//! The table, who may do what on it, and alarms, for those who have their infrastructure made by
//! CloudFormation or Terraform.

use crate::error::DynamodbError;
use crate::item::INDEX;
use crate::options::is_table_name;
use crate::rights::Rights;
use crate::schema::{KEY, TTL};

/// In which language a [`Template`] is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Language {
    /// YAML for CloudFormation: the table, a managed policy for who decides, alarms.
    CloudFormation,
    /// HCL for Terraform, with the provider `hashicorp/aws`: the same.
    Terraform,
    /// A policy of IAM alone, in JSON.
    Policy(Rights),
}

/// What is written for a table. Who deploys it opens the store with `migrate=off`.
#[derive(Clone, Debug)]
pub struct Template {
    table: String,
}

/// When an operator is told of something: a metric of `AWS/DynamoDB` for the table, or for each of
/// these operations.
struct Alarm {
    name: &'static str,
    about: &'static str,
    metric: &'static str,
    operations: &'static [Option<&'static str>],
    /// A statistic, and above how much of it in each of five minutes.
    above: (Statistic, u32),
}

enum Statistic {
    Sum,
    P99,
}

const ALARMS: &[Alarm] = &[
    Alarm {
        name: "WritesThrottled",
        about: "decisions are throttled: a hot key, or a quota of the account",
        metric: "WriteThrottleEvents",
        operations: &[None],
        above: (Statistic::Sum, 0),
    },
    Alarm {
        name: "ReadsThrottled",
        about: "reads are throttled: a hot key, or a quota of the account",
        metric: "ReadThrottleEvents",
        operations: &[None],
        above: (Statistic::Sum, 0),
    },
    Alarm {
        name: "SystemErrors",
        about: "DynamoDB fails: decisions are tried again, and then answered by the failure mode",
        metric: "SystemErrors",
        operations: &[
            Some("PutItem"),
            Some("TransactWriteItems"),
            Some("GetItem"),
            Some("TransactGetItems"),
            Some("Query"),
        ],
        above: (Statistic::Sum, 0),
    },
    Alarm {
        name: "Slow",
        about: "a write takes longer than 100 ms for one in a hundred",
        metric: "SuccessfulRequestLatency",
        operations: &[Some("PutItem"), Some("TransactWriteItems")],
        above: (Statistic::P99, 100),
    },
];

/// Each alarm, with the operation that it is about.
fn alarms() -> impl Iterator<Item = (&'static Alarm, Option<&'static str>)> {
    ALARMS.iter().flat_map(|alarm| {
        let operations = alarm.operations.iter();
        operations.map(move |operation| (alarm, *operation))
    })
}

impl Template {
    /// For the table called `table`.
    ///
    /// # Errors
    /// [`DynamodbError::Table`].
    pub fn new(table: &str) -> Result<Self, DynamodbError> {
        match is_table_name(table) {
            true => Ok(Self {
                table: table.to_owned(),
            }),
            false => Err(DynamodbError::Table(table.to_owned())),
        }
    }

    /// The text of it.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        match language {
            Language::CloudFormation => self.cloud_formation(),
            Language::Terraform => self.terraform(),
            Language::Policy(rights) => self.policy(rights),
        }
    }

    fn cloud_formation(&self) -> String {
        let Self { table } = self;
        let [partition, sort] = KEY;
        let actions = list(Rights::Decide.actions(), "              - ", "");
        let mut text = format!(
            r#"AWSTemplateFormatVersion: "2010-09-09"
Description: The table in which Tidegate remembers limits, who may use it, and alarms

Parameters:
  TableName:
    Type: String
    Default: "{table}"
    Description: The table of dynamodb://TABLE?migrate=off
  Recovery:
    Type: String
    Default: "true"
    AllowedValues: ["true", "false"]
    Description: Whether the table can be restored to any second of the last 35 days
  AlarmTopic:
    Type: String
    Default: ""
    Description: The ARN of the SNS topic that alarms are told to; none if empty

Conditions:
  HasTopic: !Not [!Equals [!Ref AlarmTopic, ""]]

Resources:
  Table:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      TableName: !Ref TableName
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      AttributeDefinitions:
        - {{AttributeName: {partition}, AttributeType: B}}
        - {{AttributeName: {sort}, AttributeType: B}}
        - {{AttributeName: {INDEX}, AttributeType: B}}
      KeySchema:
        - {{AttributeName: {partition}, KeyType: HASH}}
        - {{AttributeName: {sort}, KeyType: RANGE}}
      LocalSecondaryIndexes:
        - IndexName: {INDEX}
          KeySchema:
            - {{AttributeName: {partition}, KeyType: HASH}}
            - {{AttributeName: {INDEX}, KeyType: RANGE}}
          Projection: {{ProjectionType: ALL}}
      TimeToLiveSpecification: {{AttributeName: {TTL}, Enabled: true}}
      PointInTimeRecoverySpecification:
        PointInTimeRecoveryEnabled: !Ref Recovery

  Decide:
    Type: AWS::IAM::ManagedPolicy
    Properties:
      Description: What a process needs that decides by the table
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Effect: Allow
            Action:
{actions}
            Resource:
              - !GetAtt Table.Arn
              - !Sub "${{Table.Arn}}/index/{INDEX}"
"#
        );
        for (alarm, operation) in alarms() {
            text += &alarm.cloud_formation(operation);
        }
        text += r#"
Outputs:
  Store:
    Description: What --store is
    Value: !Sub "dynamodb://${TableName}?region=${AWS::Region}&migrate=off"
  DecidePolicy:
    Description: The policy to attach to the role of each process
    Value: !Ref Decide
"#;
        text
    }

    fn terraform(&self) -> String {
        let Self { table } = self;
        let [partition, sort] = KEY;
        let actions = list(Rights::Decide.actions(), "      \"", "\",");
        let mut text = format!(
            r#"# The table in which Tidegate remembers limits, who may use it, and alarms.

terraform {{
  required_providers {{
    aws = {{
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }}
  }}
}}

variable "table_name" {{
  description = "The table of dynamodb://TABLE?migrate=off"
  type        = string
  default     = "{table}"
}}

variable "recovery" {{
  description = "Whether the table can be restored to any second of the last 35 days"
  type        = bool
  default     = true
}}

variable "alarm_topics" {{
  description = "The ARNs of the SNS topics that alarms are told to"
  type        = list(string)
  default     = []
}}

data "aws_region" "here" {{}}

resource "aws_dynamodb_table" "tidegate" {{
  name                        = var.table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "{partition}"
  range_key                   = "{sort}"
  deletion_protection_enabled = true

  attribute {{
    name = "{partition}"
    type = "B"
  }}

  attribute {{
    name = "{sort}"
    type = "B"
  }}

  attribute {{
    name = "{INDEX}"
    type = "B"
  }}

  local_secondary_index {{
    name            = "{INDEX}"
    range_key       = "{INDEX}"
    projection_type = "ALL"
  }}

  ttl {{
    attribute_name = "{TTL}"
    enabled        = true
  }}

  point_in_time_recovery {{
    enabled = var.recovery
  }}

  lifecycle {{
    prevent_destroy = true
  }}
}}

data "aws_iam_policy_document" "decide" {{
  statement {{
    actions = [
{actions}
    ]

    resources = [
      aws_dynamodb_table.tidegate.arn,
      "${{aws_dynamodb_table.tidegate.arn}}/index/{INDEX}",
    ]
  }}
}}

resource "aws_iam_policy" "decide" {{
  name_prefix = "tidegate-decide-"
  description = "What a process needs that decides by the table"
  policy      = data.aws_iam_policy_document.decide.json
}}
"#
        );
        for (alarm, operation) in alarms() {
            text += &alarm.terraform(operation);
        }
        text += r#"
output "store" {
  description = "What --store is"
  value       = "dynamodb://${var.table_name}?region=${data.aws_region.here.name}&migrate=off"
}

output "decide_policy" {
  description = "The policy to attach to the role of each process"
  value       = aws_iam_policy.decide.arn
}
"#;
        text
    }

    fn policy(&self, rights: Rights) -> String {
        let Self { table } = self;
        let actions = list(rights.actions(), "        \"", "\",");
        let actions = actions.trim_end_matches(',');
        let name = rights.name();
        format!(
            r#"{{
  "Version": "2012-10-17",
  "Statement": [
    {{
      "Sid": "{name}",
      "Effect": "Allow",
      "Action": [
{actions}
      ],
      "Resource": [
        "arn:aws:dynamodb:*:*:table/{table}",
        "arn:aws:dynamodb:*:*:table/{table}/index/{INDEX}"
      ]
    }}
  ]
}}
"#
        )
    }
}

impl Alarm {
    const fn parts(&self) -> (&str, &str, &str, (&Statistic, u32)) {
        let (statistic, above) = &self.above;
        (self.name, self.about, self.metric, (statistic, *above))
    }

    fn cloud_formation(&self, operation: Option<&str>) -> String {
        let (name, about, metric, (statistic, above)) = self.parts();
        let of = operation.map_or_else(String::new, |operation| format!("Of{operation}"));
        let operation = operation.map_or_else(String::new, |operation| {
            format!("\n        - {{Name: Operation, Value: {operation}}}")
        });
        let statistic = match statistic {
            Statistic::Sum => "Statistic: Sum",
            Statistic::P99 => "ExtendedStatistic: p99",
        };
        format!(
            r#"
  {name}{of}:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmDescription: "{about}"
      Namespace: AWS/DynamoDB
      MetricName: {metric}
      Dimensions:
        - {{Name: TableName, Value: !Ref Table}}{operation}
      {statistic}
      Period: 60
      EvaluationPeriods: 5
      ComparisonOperator: GreaterThanThreshold
      Threshold: {above}
      TreatMissingData: notBreaching
      AlarmActions: !If [HasTopic, [!Ref AlarmTopic], !Ref "AWS::NoValue"]
"#
        )
    }

    fn terraform(&self, operation: Option<&str>) -> String {
        let (name, about, metric, (statistic, above)) = self.parts();
        let of = operation.map_or_else(String::new, |operation| format!("Of{operation}"));
        let resource: String = format!("{name}{of}")
            .char_indices()
            .flat_map(|(at, letter)| {
                let joint = (at > 0 && letter.is_ascii_uppercase()).then_some('_');
                joint.into_iter().chain([letter.to_ascii_lowercase()])
            })
            .collect();
        let operation = operation.map_or_else(String::new, |operation| {
            format!("\n    Operation = \"{operation}\"")
        });
        let statistic = match statistic {
            Statistic::Sum => "statistic           = \"Sum\"",
            Statistic::P99 => "extended_statistic  = \"p99\"",
        };
        format!(
            r#"
resource "aws_cloudwatch_metric_alarm" "{resource}" {{
  alarm_name          = "${{var.table_name}}-{resource}"
  alarm_description   = "{about}"
  namespace           = "AWS/DynamoDB"
  metric_name         = "{metric}"
  {statistic}
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = {above}
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics

  dimensions = {{
    TableName = aws_dynamodb_table.tidegate.name{operation}
  }}
}}
"#
        )
    }
}

/// Each in a line of its own.
fn list(words: &[&str], before: &str, behind: &str) -> String {
    let lines: Vec<_> = words
        .iter()
        .map(|word| format!("{before}{word}{behind}"))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_table_may_have_gets_no_template() {
        let wrong = Template::new("a b").unwrap_err();
        assert_eq!(wrong, DynamodbError::Table("a b".to_owned()));
    }

    #[test]
    fn each_template_names_the_table_and_what_who_decides_may_do() {
        let template = Template::new("mine").unwrap();
        for language in [
            Language::CloudFormation,
            Language::Terraform,
            Language::Policy(Rights::Decide),
        ] {
            let text = template.text(language);
            assert!(text.contains("mine"), "{text}");
            for action in Rights::Decide.actions() {
                assert!(text.contains(action), "{action}: {text}");
            }
            let has_all = text.contains("\"dynamodb:*\"") || text.contains("- dynamodb:*");
            assert!(!has_all, "{text}");
        }
    }

    #[test]
    fn alarms_of_terraform_have_names_as_terraform_has_them() {
        let text = Template::new("mine").unwrap().text(Language::Terraform);
        assert!(text.contains("\"aws_cloudwatch_metric_alarm\" \"writes_throttled\""));
    }
}
