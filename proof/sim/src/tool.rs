//! Tools: an answer calls the first that a request offers, with arguments that fit its schema.

use serde_json::{Map, Value, json};

/// A call of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is called with: a JSON object.
    pub arguments: String,
}

/// The tool that an answer to this body calls: the first, unless the caller brings the result of
/// one, or wants none.
pub fn wanted(body: &Value) -> Option<Tool> {
    let choice = &body["tool_choice"];
    let wants_none = choice == "none" || choice["type"] == "none";
    if wants_none || brings_result(body) {
        return None;
    }
    let tool = body["tools"].as_array()?.first()?;
    // OpenAI's chat, OpenAI's responses, Anthropic, Gemini.
    let places = ["/function", "", "/functionDeclarations/0"];
    let named = |place: &&str| tool.pointer(place).is_some_and(|it| it["name"].is_string());
    let tool = tool.pointer(places.iter().find(|place| named(place))?)?;
    let schema = tool.get("parameters").or_else(|| tool.get("input_schema"));
    Some(Tool {
        name: tool["name"].as_str()?.to_owned(),
        arguments: schema.map_or_else(|| json!({}), example).to_string(),
    })
}

/// Whether the last message is what a tool has answered.
fn brings_result(body: &Value) -> bool {
    let messages = ["messages", "input", "contents"].iter();
    let last = messages
        .filter_map(|name| body[name].as_array()?.last())
        .next();
    last.is_some_and(|last| {
        let parts = [&last["content"], &last["parts"]].into_iter();
        let mut parts = parts.filter_map(Value::as_array).flatten();
        last["role"] == "tool"
            || last["type"] == "function_call_output"
            || parts
                .any(|part| part["type"] == "tool_result" || part.get("functionResponse").is_some())
    })
}

/// A value that fits a schema, as far as its types say: what it requires is there.
fn example(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"]
        .as_str()
        .unwrap_or("object")
        .to_ascii_lowercase()
        .as_str()
    {
        "string" => json!("tide"),
        "number" => json!(1.5),
        "integer" => json!(1),
        "boolean" => json!(true),
        "array" => json!([]),
        "null" => Value::Null,
        _ => {
            let names = schema["required"].as_array().into_iter().flatten();
            let names = names.filter_map(Value::as_str);
            let members = names.map(|name| (name.to_owned(), example(&schema["properties"][name])));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tool_is_called_with_what_it_requires_in_every_dialect() {
        let schema = json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "x": {}},
            "required": ["city", "days"],
        });
        let tools = [
            json!({"type": "function", "function": {"name": "weather", "parameters": schema}}),
            json!({"type": "function", "name": "weather", "parameters": schema}),
            json!({"name": "weather", "input_schema": schema}),
            json!({"functionDeclarations": [{"name": "weather", "parameters": schema}]}),
        ];
        for tool in tools {
            let called = wanted(&json!({"tools": [tool]})).unwrap();
            assert_eq!(called.name, "weather");
            assert_eq!(called.arguments, r#"{"city":"tide","days":1}"#);
            assert_eq!(
                wanted(&json!({"tools": [tool], "tool_choice": "none"})),
                None
            );
            let result = json!({"role": "user", "content": [{"type": "tool_result"}]});
            assert_eq!(
                wanted(&json!({"tools": [tool], "messages": [result]})),
                None
            );
        }
        assert_eq!(wanted(&json!({"tools": []})), None);
    }
}
