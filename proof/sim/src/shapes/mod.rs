//! Answers, in each dialect: whole as JSON, or as server-sent events.
//!
//! | file | whose |
//! |---|---|
//! | `event` | server-sent events, which all of them have |
//! | `chat` | OpenAI's chat completions |
//! | `responses` | OpenAI's responses |
//! | `embeddings` | OpenAI's embeddings |
//! | `messages` | Anthropic's messages |
//! | `gemini` | Gemini's content |

mod chat;
mod embeddings;
mod event;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use self::event::{named, plain};
use crate::answer::Answer;
use crate::call::Shape;

/// An answer as one object.
#[must_use]
pub fn whole(answer: &Answer) -> Value {
    match answer.shape {
        Shape::Chat => chat::whole(answer),
        Shape::Responses => responses::whole(answer),
        Shape::Embeddings => embeddings::whole(answer),
        Shape::Messages => messages::whole(answer),
        Shape::Gemini => gemini::whole(answer),
    }
}

/// The events before the first token.
#[must_use]
pub fn opening(answer: &Answer) -> String {
    match answer.shape {
        Shape::Chat => chat::opening(answer),
        Shape::Responses => responses::opening(answer),
        Shape::Messages => messages::opening(answer),
        Shape::Embeddings | Shape::Gemini => String::new(),
    }
}

/// The event of a token, by its number.
#[must_use]
pub fn piece(answer: &Answer, number: u64) -> String {
    match answer.shape {
        Shape::Chat => chat::piece(answer, number),
        Shape::Responses => responses::piece(answer, number),
        Shape::Messages => messages::piece(answer, number),
        Shape::Gemini => gemini::piece(answer, number),
        Shape::Embeddings => String::new(),
    }
}

/// The events behind the last token.
#[must_use]
pub fn closing(answer: &Answer) -> String {
    match answer.shape {
        Shape::Chat => chat::closing(answer),
        Shape::Responses => responses::closing(answer),
        Shape::Messages => messages::closing(answer),
        Shape::Gemini => gemini::closing(answer),
        Shape::Embeddings => String::new(),
    }
}

/// An event that says in the middle that the provider failed.
#[must_use]
pub fn failure(answer: &Answer) -> String {
    let message = "The server had an error while processing your request.";
    let openai = json!({ "error": { "message": message, "type": "server_error", "code": null, "param": null } });
    match answer.shape {
        Shape::Messages => {
            let error = json!({ "type": "overloaded_error", "message": "Overloaded" });
            named("error", &json!({ "type": "error", "error": error }))
        }
        Shape::Responses => {
            let event = json!({
                "type": "error", "code": "server_error", "message": message, "param": null,
                "sequence_number": 0,
            });
            named("error", &event)
        }
        Shape::Gemini => {
            let error = json!({ "code": 500, "message": message, "status": "INTERNAL" });
            plain(&json!({ "error": error }))
        }
        Shape::Chat | Shape::Embeddings => plain(&openai),
    }
}
