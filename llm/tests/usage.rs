//! What bodies and streams of each dialect say of usage.

use http::{HeaderMap, HeaderName};
use proptest::prelude::*;
use tidegate_llm::usage::LONGEST_LINE;
use tidegate_llm::{StreamReader, Usage};

/// Input, cache read, cache write, output, reasoning.
fn parts(usage: Usage) -> [Option<u64>; 5] {
    [
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
        usage.reasoning,
    ]
}

#[track_caller]
fn says(body: &str, expected: [Option<u64>; 5], total: u64) {
    let usage = Usage::of_body(body.as_bytes());
    assert_eq!((parts(usage), usage.total()), (expected, total));
}

#[test]
fn every_dialect_says_it_in_its_own_words() {
    says(
        r#"{"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,
            "prompt_tokens_details":{"cached_tokens":64},
            "completion_tokens_details":{"reasoning_tokens":20}}}"#,
        [Some(36), Some(64), None, Some(30), Some(20)],
        130,
    );
    says(
        r#"{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},
            "output_tokens":30,"output_tokens_details":{"reasoning_tokens":0}}}"#,
        [Some(60), Some(40), None, Some(30), Some(0)],
        130,
    );
    says(
        r#"{"type":"message","usage":{"input_tokens":10,"cache_creation_input_tokens":5,
            "cache_read_input_tokens":200,"output_tokens":7}}"#,
        [Some(10), Some(200), Some(5), Some(7), None],
        222,
    );
    says(
        r#"{"usageMetadata":{"promptTokenCount":50,"cachedContentTokenCount":20,
            "candidatesTokenCount":8,"thoughtsTokenCount":12,"toolUsePromptTokenCount":3,
            "totalTokenCount":73}}"#,
        [Some(33), Some(20), None, Some(20), Some(12)],
        73,
    );
    says(
        r#"{"usage":{"inputTokens":9,"outputTokens":4,"totalTokens":13}}"#,
        [Some(9), None, None, Some(4), None],
        13,
    );
    // Embeddings have no answer.
    says(
        r#"{"usage":{"prompt_tokens":8,"total_tokens":8}}"#,
        [Some(8), None, None, None, None],
        8,
    );
}

#[test]
fn a_place_without_a_number_hides_no_other_and_of_two_names_the_first_counts() {
    let said = [Some(8), None, None, Some(2), None];
    says(
        r#"{"usage" : null,"message":{"usage":{"input_tokens":8,"output_tokens":2}}}"#,
        said,
        10,
    );
    says(
        r#"{"message":"m","usage":{"input_tokens":9,"prompt_tokens":8,"output_tokens":2}}"#,
        said,
        10,
    );
    says(
        r#"{"response":{"usage":{"input_tokens":9}},"usage":{"prompt_tokens":8,"completion_tokens":2}}"#,
        said,
        10,
    );
    let none = [None; 5];
    says(r#"{"id":1,"choices":[],"usage":null}"#, none, 0);
    says(
        r#"{"x":{"usage":{"input_tokens":9}},"usage":[{"input_tokens":9}]}"#,
        none,
        0,
    );
}

#[test]
fn bedrock_says_it_in_headers() {
    let all = [
        ("x-amzn-bedrock-input-token-count", "18"),
        ("x-amzn-bedrock-output-token-count", "386"),
        ("x-amzn-bedrock-cache-read-input-token-count", "7502"),
        ("x-amzn-bedrock-cache-write-input-token-count", "40"),
        ("x-amzn-bedrock-invocation-latency", "776"),
    ];
    let all: HeaderMap = all
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let usage = Usage::of_headers(&all);
    assert_eq!(
        parts(usage),
        [Some(18), Some(7_502), Some(40), Some(386), None]
    );
    assert_eq!((usage.prompt(), usage.total()), (7_560, 7_946));
    let mut headers = HeaderMap::new();
    headers.insert("x-amzn-bedrock-input-token-count", "12".parse().unwrap());
    headers.insert("x-amzn-bedrock-output-token-count", "x".parse().unwrap());
    assert_eq!(
        parts(Usage::of_headers(&headers)),
        [Some(12), None, None, None, None]
    );
}

#[test]
fn what_cannot_be_is_not_believed() {
    for body in [
        r#"{"usage":{"prompt_tokens":-5,"completion_tokens":1e30}}"#,
        r#"{"usage":{"prompt_tokens":9007199254740992,"completion_tokens":"7"}}"#,
        r#"{"usage":null}"#,
        r#"{"usage":"#,
        "",
    ] {
        assert!(!Usage::of_body(body.as_bytes()).is_known(), "{body}");
    }
}

#[test]
fn a_number_with_a_fraction_of_nothing_is_whole() {
    let body = r#"{"usage":{"prompt_tokens":100.0,"completion_tokens":3e1}}"#;
    says(body, [Some(100), None, None, Some(30), None], 130);
}

/// Wherever it is cut off in front.
#[test]
fn the_end_of_a_long_answer_says_its_usage_and_nothing_within_it_does() {
    let said = r#""usage" : {"prompt_tokens":12,"completion_tokens":30}"#;
    let within = r#"{"usage":{"prompt_tokens":1},"a":["usage",{"usage":{"prompt_tokens":2}}]}"#;
    let whole = format!(
        r#"{{"choices":[{{"text":"\\","args":{within},"say":"\"usage\":{{}}"}}],{said},"tail":[{within}]}}"#
    );
    let begins = whole.find(said).unwrap();
    for from in 0..whole.len() {
        let usage = Usage::of_end(&whole.as_bytes()[from..]);
        let expected = match from <= begins {
            true => [Some(12), None, None, Some(30), None],
            false => [None; 5],
        };
        assert_eq!(parts(usage), expected, "{}", &whole[from..]);
    }
}

/// Gemini's streams are one list where its caller asks for no events.
#[test]
fn of_a_list_of_answers_the_last_that_says_it_counts_whole_or_broken_off() {
    let part = |answer: u64| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"[1, 2]"}}]}}}}],
            "usageMetadata":{{"promptTokenCount":4,"candidatesTokenCount":{answer}}},"modelVersion":"m"}}"#
        )
    };
    let list = format!("[{},\r\n{},\r\n{{}}\n]\n", part(1), part(9));
    let expected = |answer| [Some(4), None, None, Some(answer), None];
    assert_eq!(parts(Usage::of_body(list.as_bytes())), expected(9));
    // Nothing of a part that did not come whole.
    let second = list.find("\r\n").expect("there are three");
    assert_eq!(
        parts(Usage::of_body(&list.as_bytes()[..second])),
        expected(1)
    );
    let (broken, _) = list.split_at(second + 100);
    assert_eq!(parts(Usage::of_body(broken.as_bytes())), expected(1));
    assert_eq!(
        parts(Usage::of_body(b"[7, {}, \"usage\", [{\"usage\":3}]]")),
        [None; 5]
    );
    // The end of a long one.
    let long = format!("[{},{}\n]\n", part(1), part(9));
    assert_eq!(parts(Usage::of_end(&long.as_bytes()[20..])), expected(9));
}

/// What one event says of half a character ended the reading of it: no text of it was counted, and
/// the last one was none.
#[test]
fn a_stream_with_halves_of_surrogate_pairs_is_measured_and_ends() {
    let mut stream = StreamReader::new();
    let text = "word ".repeat(100);
    let event = format!(
        "data: {{\"type\":\"response.output_text.delta\",\"delta\":\"\\ud83d{text}\"}}\n\n"
    );
    stream.read(event.as_bytes());
    assert_eq!(stream.output(), 126);
    stream.read(b"data: {\"type\":\"response.completed\",\"text\":\"\\ud83d\"}\n\n");
    assert!(stream.has_ended());
}

const OPENAI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n\
    data: [DONE]\n\n";

const ANTHROPIC: &str = "event: message_start\r\n\
    data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\
    \"cache_read_input_tokens\":3,\"output_tokens\":1}}}\r\n\r\n\
    event: content_block_delta\r\n\
    data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"say \\\"usage\\\":\"}}\r\n\r\n\
    event: message_delta\r\n\
    data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\r\n\r\n\
    event: message_stop\r\n\
    data: {\"type\":\"message_stop\"}\r\n\r\n";

const GEMINI: &str = "data: {\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\n\n\
    data: {\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":9}}\n\n";

const RESPONSES: &str = "event: response.completed\n\
    data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":8}}}\n\n";

/// A stream, what it says, and whether it says that it is complete.
const STREAMS: [(&str, [Option<u64>; 5], bool); 4] = [
    (OPENAI, [Some(5), None, None, Some(2), None], true),
    (ANTHROPIC, [Some(25), Some(3), None, Some(15), None], true),
    (GEMINI, [Some(4), None, None, Some(9), None], false),
    (RESPONSES, [Some(7), None, None, Some(8), None], true),
];

#[test]
fn a_stream_says_it_wherever_its_chunks_end() {
    for (stream, expected, ended) in STREAMS {
        for size in 1..stream.len() {
            let mut reader = StreamReader::new();
            for chunk in stream.as_bytes().chunks(size) {
                reader.read(chunk);
            }
            assert_eq!(parts(reader.usage()), expected, "{size}: {stream}");
            assert_eq!(reader.has_ended(), ended, "{size}: {stream}");
        }
    }
}

#[test]
fn a_stream_that_breaks_off_has_said_what_came_before() {
    let (before, _) = ANTHROPIC.split_once("event: message_delta").unwrap();
    let mut reader = StreamReader::new();
    reader.read(before.as_bytes());
    assert_eq!(
        parts(reader.usage()),
        [Some(25), Some(3), None, Some(1), None]
    );
    assert!(!reader.has_ended());
}

#[test]
fn a_line_without_end_takes_no_more_memory_than_the_bound_and_the_next_is_read() {
    let mut reader = StreamReader::new();
    reader.read(b"data: ");
    for _ in 0..64 {
        reader.read(&[b'x'; LONGEST_LINE / 16]);
    }
    reader.read(b"\n");
    reader.read(GEMINI.as_bytes());
    assert_eq!(reader.usage().output, Some(9));
}

proptest! {
    #[test]
    fn any_bytes_are_a_stream(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20)) {
        let mut reader = StreamReader::new();
        for chunk in chunks {
            reader.read(&chunk);
        }
    }
}

/// An event counted as one token, however much it brought.
#[test]
fn an_answer_is_as_long_as_the_texts_that_came() {
    let words = "word ".repeat(160);
    let output = |event: &str| {
        let mut reader = StreamReader::new();
        for event in [event, event] {
            reader.read(format!("data: {event}\n\n").replace('W', &words).as_bytes());
        }
        reader.output()
    };
    for event in [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"W"}}],"usage":null}"#,
        r#"{"choices":[{"index":0,"text":"W","logprobs":null}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"arguments":"W"}}]}}]}"#,
        r#"{"type":"response.output_text.delta","item_id":"m","delta":"W","obfuscation":"xxxxxxxx"}"#,
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"W"}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"W"}],"role":"model"},"index":0}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":["W",1.5]}}}]}}]}"#,
    ] {
        assert_eq!(output(event), 400, "{event}");
    }
    // What is told a second time, or is no text.
    for event in [
        r#"{"type":"response.output_text.done","text":"W"}"#,
        r#"{"type":"response.created","response":{"instructions":"W","output":[{"text":"W"}]}}"#,
        r#"{"choices":[{"delta":{"audio":{"id":"W","data":"W"}}}]}"#,
        r#"{"delta":{"type":"signature_delta","signature":"W"}}"#,
        r#"["W"]"#,
        r#""W""#,
        "W",
        r#"{"delta":-1,"choices":{"delta":true}}"#,
    ] {
        assert_eq!(output(event), 2, "one for each event: {event}");
    }
}

/// A tool of that name ended the stream, so that who hung up then paid for one token.
#[test]
fn the_word_for_the_end_of_a_stream_ends_none_where_it_is_the_answers() {
    let mut reader = StreamReader::new();
    for event in [
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"message_stop"}}"#,
        r#"{"choices":[{"delta":{"content":"\"message_stop\" \"response.completed\""}}]}"#,
        r#"{"type":"response.output_text.delta","delta":"x","name":"response.completed"}"#,
        r#""message_stop""#,
        r#"{"type":7,"name":"message_stop"}"#,
    ] {
        reader.read(format!("data: {event}\n\n").as_bytes());
        assert!(!reader.has_ended(), "{event}");
    }
    reader.read(b"data: {\"type\":\"message_stop\"}\n");
    assert!(reader.has_ended());
}
