//! Gemini's content.

use serde_json::{Value, json};

use super::event::plain;
use crate::answer::Answer;

pub fn whole(answer: &Answer) -> Value {
    let part = match answer.tool {
        None => json!({ "text": answer.text(answer.tokens) }),
        Some(_) => call(answer),
    };
    content(answer, &part, answer.tokens, Some(finish(answer)))
}

/// A tool's call comes whole, with its last token.
pub fn piece(answer: &Answer, number: u64) -> String {
    let is_last = number + 1 == answer.tokens;
    let part = match answer.tool {
        None => json!({ "text": answer.piece(number) }),
        Some(_) if is_last && !answer.is_bounded => call(answer),
        Some(_) => json!({ "text": "" }),
    };
    plain(&content(answer, &part, number + 1, None))
}

/// The last event has usage, and no word.
pub fn closing(answer: &Answer) -> String {
    plain(&content(
        answer,
        &json!({ "text": "" }),
        answer.tokens,
        Some(finish(answer)),
    ))
}

fn call(answer: &Answer) -> Value {
    let tool = answer.tool.as_ref();
    let (name, arguments) = tool.map_or(("", "{}"), |tool| (&*tool.name, &*tool.arguments));
    let arguments: Value = serde_json::from_str(arguments).unwrap_or(json!({}));
    json!({ "functionCall": { "name": name, "args": arguments } })
}

fn content(answer: &Answer, part: &Value, tokens: u64, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": answer.prompt,
            "candidatesTokenCount": tokens,
            "totalTokenCount": answer.prompt + tokens,
        },
        "modelVersion": answer.model,
        "responseId": format!("{:016}", answer.id),
    })
}

fn finish(answer: &Answer) -> &'static str {
    if answer.is_bounded {
        "MAX_TOKENS"
    } else {
        "STOP"
    }
}
