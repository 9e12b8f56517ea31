//! One question over HTTP, before the load begins: what the limits of a policy are.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More header fields than a server of ours sends.
const MOST_FIELDS: usize = 48;

/// The status of the answer to a GET of `path`, and its body, if it is JSON.
///
/// # Errors
/// What went wrong, in words.
pub async fn get(
    place: SocketAddr,
    path: &str,
    token: Option<&str>,
) -> Result<(u16, Value), String> {
    let token = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {place}\r\n{token}Connection: close\r\n\r\n");
    let mut answer = Vec::new();
    let talk = async {
        let mut stream = TcpStream::connect(place).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    talk.await.map_err(|error| error.to_string())?;
    read(&answer)
}

fn read(answer: &[u8]) -> Result<(u16, Value), String> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    match head.parse(answer).map_err(|error| error.to_string())? {
        httparse::Status::Complete(start) => {
            let body = serde_json::from_slice(&answer[start..]).unwrap_or(Value::Null);
            Ok((head.code.unwrap_or(0), body))
        }
        httparse::Status::Partial => Err("the answer ends in its head".to_owned()),
    }
}

/// A segment of a path: whatever a path may not hold as it is, by its bytes.
pub fn segment(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(char::from(byte));
            }
            _ => segment += &format!("%{byte:02X}"),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{read, segment};

    #[test]
    fn a_name_is_one_segment_whatever_is_in_it() {
        assert_eq!(segment("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(segment("a/b?ü%"), "a%2Fb%3F%C3%BC%25");
    }

    #[test]
    fn an_answer_has_a_status_and_perhaps_json() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
        assert_eq!(read(answer), Ok((200, json!({"a": 1}))));
        let answer = b"HTTP/1.1 502 Bad\r\n\r\nno JSON";
        assert_eq!(read(answer), Ok((502, json!(null))));
        assert!(read(b"HTTP/1.1 200 OK\r\n").is_err());
        assert!(read(b"-ERR\r\n").is_err());
    }
}
