//! OpenAI's responses.

use serde_json::{Value, json};

use super::event::named;
use crate::answer::Answer;

/// So many events come before the first token.
const OPENING: u64 = 4;

pub fn whole(answer: &Answer) -> Value {
    let mut response = response(answer);
    let (status, details) = match answer.is_bounded {
        true => ("incomplete", json!({ "reason": "max_output_tokens" })),
        false => ("completed", Value::Null),
    };
    response["status"] = json!(status);
    response["incomplete_details"] = details;
    response["output"] = json!([item(answer, &answer.text(answer.tokens), status)]);
    response["usage"] = json!({
        "input_tokens": answer.prompt,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": answer.tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": answer.prompt + answer.tokens,
    });
    response
}

pub fn opening(answer: &Answer) -> String {
    let mut added = item(answer, "", "in_progress");
    if answer.tool.is_none() {
        added["content"] = json!([]);
    }
    let part = match answer.tool {
        None => json!({
            "type": "response.content_part.added",
            "item_id": item_id(answer), "output_index": 0, "content_index": 0, "part": part(""),
        }),
        // A tool's call has no parts; an event as good in its place, so that numbers go on.
        Some(_) => json!({ "type": "response.in_progress", "response": response(answer) }),
    };
    numbered(
        json!({ "type": "response.created", "response": response(answer) }),
        0,
    ) + &numbered(
        json!({ "type": "response.in_progress", "response": response(answer) }),
        1,
    ) + &numbered(
        json!({ "type": "response.output_item.added", "output_index": 0, "item": added }),
        2,
    ) + &numbered(part, 3)
}

pub fn piece(answer: &Answer, number: u64) -> String {
    let kind = match answer.tool {
        None => "response.output_text.delta",
        Some(_) => "response.function_call_arguments.delta",
    };
    let mut event = json!({
        "type": kind, "item_id": item_id(answer), "output_index": 0, "delta": answer.piece(number),
    });
    if answer.tool.is_none() {
        event["content_index"] = json!(0);
        event["logprobs"] = json!([]);
    }
    numbered(event, OPENING + number)
}

pub fn closing(answer: &Answer) -> String {
    let text = answer.text(answer.tokens);
    let whole = whole(answer);
    let item_id = item_id(answer);
    let mut events = match &answer.tool {
        None => vec![
            json!({
                "type": "response.output_text.done", "item_id": item_id, "output_index": 0,
                "content_index": 0, "text": text, "logprobs": [],
            }),
            json!({
                "type": "response.content_part.done", "item_id": item_id, "output_index": 0,
                "content_index": 0, "part": part(&text),
            }),
        ],
        Some(tool) => vec![json!({
            "type": "response.function_call_arguments.done", "item_id": item_id,
            "output_index": 0, "name": tool.name, "arguments": text,
        })],
    };
    let item = whole["output"][0].clone();
    events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
    let last = if answer.is_bounded {
        "response.incomplete"
    } else {
        "response.completed"
    };
    events.push(json!({ "type": last, "response": whole }));
    let numbers = OPENING + answer.tokens..;
    events
        .into_iter()
        .zip(numbers)
        .map(|(event, number)| numbered(event, number))
        .collect()
}

fn numbered(mut event: Value, number: u64) -> String {
    event["sequence_number"] = json!(number);
    let name = event["type"].as_str().unwrap_or_default().to_owned();
    named(&name, &event)
}

/// A response that has no output yet.
fn response(answer: &Answer) -> Value {
    json!({
        "id": format!("resp_{:016}", answer.id),
        "object": "response",
        "created_at": answer.created_seconds(),
        "status": "in_progress",
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": answer.model,
        "output": [],
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": null,
    })
}

fn item(answer: &Answer, text: &str, status: &str) -> Value {
    match &answer.tool {
        None => json!({
            "id": item_id(answer), "type": "message", "status": status, "role": "assistant",
            "content": [part(text)],
        }),
        Some(tool) => json!({
            "id": item_id(answer), "type": "function_call", "status": status,
            "call_id": format!("call_{:016}", answer.id), "name": tool.name, "arguments": text,
        }),
    }
}

fn item_id(answer: &Answer) -> String {
    let kind = if answer.tool.is_some() { "fc" } else { "msg" };
    format!("{kind}_{:016}", answer.id)
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}
