//! Changes as a table for people, or as JSON for programs.

use serde_json::{Value, json};
use tidegate_gateway::CostChange;
use tidegate_service::{Change, Sort};

use crate::output;
use tidegate_server::trouble::{Outcome, Trouble};

/// One change as it is shown.
pub struct Row {
    sort: String,
    /// The policy; nothing of a model.
    policy: Option<String>,
    /// The table that says what a model's tokens cost or count, and the model.
    model: Option<(&'static str, String)>,
    member: Option<String>,
    limit: Option<String>,
    setting: Option<String>,
    was: Option<String>,
    becomes: Option<String>,
    effect: String,
}

impl From<&Change> for Row {
    fn from(change: &Change) -> Self {
        Self {
            sort: change.sort.name().to_owned(),
            policy: Some(change.policy.clone()),
            model: None,
            member: change.member.clone(),
            limit: change.limit.clone(),
            setting: change.setting.clone(),
            was: change.was.clone(),
            becomes: change.becomes.clone(),
            effect: change.effect.to_string(),
        }
    }
}

/// What a change of a model's price means, and of its weight.
const fn effect(change: &CostChange) -> &'static str {
    match (change.table.as_bytes(), change.is_there) {
        (b"price", true) => "calls from then on cost that",
        (b"price", false) => "refused where money is counted, if no other price holds",
        (_, true) => "calls from then on count that",
        (_, false) => "a token is a token, if no other weight holds",
    }
}

impl From<&CostChange> for Row {
    fn from(change: &CostChange) -> Self {
        let sort = match (change.was_there, change.is_there) {
            (false, _) => Sort::Added,
            (true, false) => Sort::Removed,
            (true, true) => Sort::Changed,
        };
        Self {
            sort: sort.name().to_owned(),
            policy: None,
            model: Some((change.table, change.model.clone())),
            member: None,
            limit: None,
            setting: change.setting.map(str::to_owned),
            was: change.was.clone(),
            becomes: change.becomes.clone(),
            effect: effect(change).to_owned(),
        }
    }
}

/// As a server tells it.
impl From<&Value> for Row {
    fn from(change: &Value) -> Self {
        let text = |name: &str| change[name].as_str().map(str::to_owned);
        Self {
            sort: text("change").unwrap_or_default(),
            policy: text("policy"),
            model: None,
            member: text("member"),
            limit: text("limit"),
            setting: text("setting"),
            was: text("was"),
            becomes: text("becomes"),
            effect: text("effect").unwrap_or_default(),
        }
    }
}

impl Row {
    fn json(&self) -> Value {
        let of = |table| {
            let model = self.model.as_ref();
            model.filter(|(of, _)| *of == table).map(|(_, model)| model)
        };
        json!({
            "policy": self.policy, "member": self.member, "limit": self.limit,
            "price": of("price"), "token_weight": of("token-weight"), "setting": self.setting, "change": self.sort, "was": self.was,
            "becomes": self.becomes, "effect": self.effect,
        })
    }

    fn cells(&self) -> [String; 6] {
        let model = self.model.as_ref();
        let of_model = model.map(|(table, model)| format!("{table} {model}"));
        let mut subject = of_model.or_else(|| self.policy.clone()).unwrap_or_default();
        if let Some(member) = &self.member {
            subject = format!("{subject}/{member}");
        }
        if let Some(limit) = &self.limit {
            subject = format!("{subject}.{limit}");
        }
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [
            self.sort.clone(),
            subject,
            or_none(&self.setting),
            or_none(&self.was),
            or_none(&self.becomes),
            self.effect.clone(),
        ]
    }
}

/// A row for each change of policies.
pub fn rows(changes: &[Change]) -> Vec<Row> {
    changes.iter().map(Row::from).collect()
}

/// Shows what changes.
pub fn show(rows: &[Row], as_json: bool) -> Outcome<()> {
    if as_json {
        let changes: Vec<Value> = rows.iter().map(Row::json).collect();
        return print_json(&json!({"changes": changes}));
    }
    let text = if rows.is_empty() {
        "nothing changes\n".to_owned()
    } else {
        table(rows)
    };
    print(&text)
}

/// Prints JSON.
pub fn print_json(value: &Value) -> Outcome<()> {
    print(&format!("{value:#}\n"))
}

/// Prints a text.
pub fn print(text: &str) -> Outcome<()> {
    output::print(text).map(drop).map_err(Trouble::failure)
}

fn table(rows: &[Row]) -> String {
    let head = [
        "change",
        "what",
        "setting",
        "was",
        "becomes",
        "for keys in use",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| {
        let cells = lines.iter().map(|cells| cells[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for cells in &lines {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            line += &format!("{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
