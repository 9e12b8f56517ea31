//! OpenAI's chat completions.

use serde_json::{Value, json};

use super::event::plain;
use crate::answer::Answer;

pub fn whole(answer: &Answer) -> Value {
    let message = match &answer.tool {
        None => {
            json!({ "role": "assistant", "content": answer.text(answer.tokens), "refusal": null })
        }
        Some(tool) => json!({
            "role": "assistant",
            "content": null,
            "refusal": null,
            "tool_calls": [{
                "id": tool_id(answer),
                "type": "function",
                "function": { "name": tool.name, "arguments": answer.text(answer.tokens) },
            }],
        }),
    };
    json!({
        "id": id(answer),
        "object": "chat.completion",
        "created": answer.created_seconds(),
        "model": answer.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish(answer),
        }],
        "usage": usage(answer),
    })
}

pub fn opening(answer: &Answer) -> String {
    chunk(
        answer,
        &json!({ "role": "assistant", "content": "" }),
        &Value::Null,
    )
}

pub fn piece(answer: &Answer, number: u64) -> String {
    let text = answer.piece(number);
    let delta = match &answer.tool {
        None => json!({ "content": text }),
        Some(tool) if number == 0 => json!({
            "tool_calls": [{
                "index": 0,
                "id": tool_id(answer),
                "type": "function",
                "function": { "name": tool.name, "arguments": "" },
            }],
        }),
        Some(_) => json!({ "tool_calls": [{ "index": 0, "function": { "arguments": text } }] }),
    };
    chunk(answer, &delta, &Value::Null)
}

pub fn closing(answer: &Answer) -> String {
    let mut events = chunk(answer, &json!({}), &json!(finish(answer)));
    if answer.stream_usage {
        let mut last = object(answer);
        last["choices"] = json!([]);
        last["usage"] = usage(answer);
        events += &plain(&last);
    }
    events + "data: [DONE]\n\n"
}

fn chunk(answer: &Answer, delta: &Value, finish: &Value) -> String {
    let mut chunk = object(answer);
    chunk["choices"] =
        json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
    if answer.stream_usage {
        chunk["usage"] = Value::Null;
    }
    plain(&chunk)
}

fn object(answer: &Answer) -> Value {
    json!({
        "id": id(answer),
        "object": "chat.completion.chunk",
        "created": answer.created_seconds(),
        "model": answer.model,
    })
}

fn id(answer: &Answer) -> String {
    format!("chatcmpl-{:016}", answer.id)
}

fn tool_id(answer: &Answer) -> String {
    format!("call_{:016}", answer.id)
}

fn finish(answer: &Answer) -> &'static str {
    match &answer.tool {
        _ if answer.is_bounded => "length",
        Some(_) => "tool_calls",
        None => "stop",
    }
}

fn usage(answer: &Answer) -> Value {
    json!({
        "prompt_tokens": answer.prompt,
        "completion_tokens": answer.tokens,
        "total_tokens": answer.prompt + answer.tokens,
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}
