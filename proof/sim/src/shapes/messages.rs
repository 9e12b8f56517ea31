//! Anthropic's messages.

use serde_json::{Value, json};

use super::event::named;
use crate::answer::Answer;

pub fn whole(answer: &Answer) -> Value {
    let mut message = message(answer);
    message["content"] = match &answer.tool {
        None => json!([{ "type": "text", "text": answer.text(answer.tokens) }]),
        Some(tool) => {
            // One that was cut short has no whole object.
            let input = serde_json::from_str(&answer.text(answer.tokens)).unwrap_or(json!({}));
            json!([{ "type": "tool_use", "id": tool_id(answer), "name": tool.name, "input": input }])
        }
    };
    message["stop_reason"] = json!(stop(answer));
    message["usage"] = usage(answer, answer.tokens);
    message
}

pub fn opening(answer: &Answer) -> String {
    let block = match &answer.tool {
        None => json!({ "type": "text", "text": "" }),
        Some(tool) => {
            json!({ "type": "tool_use", "id": tool_id(answer), "name": tool.name, "input": {} })
        }
    };
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": block });
    named(
        "message_start",
        &json!({ "type": "message_start", "message": message(answer) }),
    ) + &named("content_block_start", &block)
        + &named("ping", &json!({ "type": "ping" }))
}

pub fn piece(answer: &Answer, number: u64) -> String {
    let text = answer.piece(number);
    let delta = match &answer.tool {
        None => json!({ "type": "text_delta", "text": text }),
        Some(_) => json!({ "type": "input_json_delta", "partial_json": text }),
    };
    let event = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    named("content_block_delta", &event)
}

pub fn closing(answer: &Answer) -> String {
    let delta = json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop(answer), "stop_sequence": null },
        "usage": { "output_tokens": answer.tokens },
    });
    named(
        "content_block_stop",
        &json!({ "type": "content_block_stop", "index": 0 }),
    ) + &named("message_delta", &delta)
        + &named("message_stop", &json!({ "type": "message_stop" }))
}

/// A message that has no content yet.
fn message(answer: &Answer) -> Value {
    json!({
        "id": format!("msg_{:016}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(answer, answer.tokens.min(1)),
    })
}

fn tool_id(answer: &Answer) -> String {
    format!("toolu_{:016}", answer.id)
}

fn stop(answer: &Answer) -> &'static str {
    match &answer.tool {
        _ if answer.is_bounded => "max_tokens",
        Some(_) => "tool_use",
        None => "end_turn",
    }
}

fn usage(answer: &Answer, output: u64) -> Value {
    json!({
        "input_tokens": answer.prompt,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
    })
}
