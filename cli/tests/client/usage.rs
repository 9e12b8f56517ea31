//! What was used, listed, added up, drawn and exported.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::server::{Server, tidegate, unread};

const POLICY: &str = "[policy.chat]\nusage = '400d'\n[policy.chat.limits]\n\
                      total = { rate = 1000, per = '1h' }\n\
                      spend = { budget = '90', per = 'month', zone = 'UTC', unit = '0.01' }\n";

fn of<'a>(verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["usage", verb, "-p", "chat"], more].concat()
}

#[test]
fn usage_is_listed_added_up_drawn_and_exported() {
    let server = Server::start(POLICY);
    let take = |key: &str, amounts: &[&str]| {
        let asked = ["check", "-p", "chat", "-k", key, "-q"];
        server.request(&[&asked[..], amounts].concat()).ends(0);
    };
    take("alice", &["total=40", "spend=1.25"]);
    take("bob", &["total=2", "spend=0.5"]);
    take("a,\"b\"", &["total=1"]);
    let json = |said: String| -> Vec<Value> {
        let lines = said.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let listed = server
        .request(&of("list", &["-k", "alice", "--json"]))
        .ends(0);
    let mut listed = json(listed.out);
    listed.sort_by_key(Value::to_string);
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (&listed[0]["amount"], &listed[0]["limit"]),
        (&"1.25".into(), &"spend".into())
    );
    let line = server.request(&of("list", &["-k", "bob"])).ends(0).out;
    assert!(
        line.contains("  bob  total 2\n") && line.contains("  bob  spend 0.50\n"),
        "{line}"
    );
    let summary = |more: &[&str]| server.request(&of("summary", more)).ends(0).out;
    assert_eq!(
        summary(&["--by", "all"]),
        "chat  spend  1.75\nchat  total  43\n"
    );
    let per_key = json(summary(&["--by", "all", "--per", "key", "--json"]));
    assert_eq!(per_key.len(), 5);
    let alice = per_key
        .iter()
        .find(|sum| sum["key"] == "alice" && sum["limit"] == "total");
    assert_eq!(alice.unwrap()["amount"], 40);
    // Who asks around midnight has two days.
    let days: u64 = json(summary(&["--json"]))
        .iter()
        .filter(|sum| sum["limit"] == "total")
        .map(|sum| sum["amount"].as_u64().unwrap())
        .sum();
    assert_eq!(days, 43);
    let drawn = summary(&["--by", "all", "--per", "key", "--plot"]);
    let longest = "\u{2588}".repeat(50);
    assert!(
        drawn.contains(&format!("chat  total  alice  {longest} 40\n")),
        "{drawn}"
    );
    let csv = server.request(&of("export", &["--csv"])).ends(0).out;
    assert!(
        csv.starts_with("policy,member,key,limit,hour,amount\n"),
        "{csv}"
    );
    assert!(csv.contains("\nchat,,\"a,\"\"b\"\"\",total,2"), "{csv}");
    let exported = json(server.request(&of("export", &[])).ends(0).out);
    assert!(exported.len() >= 5 && exported.iter().all(|used| used["policy"] == "chat"));
    let ahead = summary(&["--since", "2200-01-01T00:00:00Z"]);
    assert_eq!(ahead, "");
    let nobody = server.request(&of("list", &["-k", "nobody"])).ends(0);
    assert_eq!(nobody.out, "");
    assert!(
        nobody.error.contains("nothing was used"),
        "{}",
        nobody.error
    );
    let none = server.request(&["leases", "-p", "chat"]).ends(0);
    assert_eq!(
        (none.out.as_str(), none.error.trim_end()),
        ("", "no leases")
    );
    server.request(&["usage", "list", "-p", "none"]).ends(6);
    server
        .request(&of("list", &["-k", "a", "--entity", "b"]))
        .ends(2);
}

/// What listens as a server with usage without end does, and says how many pages it was asked for
/// once somebody connects and asks for none.
fn endless() -> (String, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let pages = std::thread::spawn(move || {
        let used = r#"{"key":"k","limit":"l","hour":"2026-01-01T00:00:00Z","amount":1}"#;
        let body = format!(r#"{{"usage":[{used},{used}],"cursor":"more"}}"#);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let mut pages = 0;
        for stream in listener.incoming() {
            let (mut stream, mut asked) = (stream.expect("a connection"), Vec::new());
            while !asked.ends_with(b"\r\n\r\n") {
                let mut some = [0; 1_024];
                match stream.read(&mut some).expect("it is read") {
                    0 => return pages,
                    length => asked.extend(&some[..length]),
                }
            }
            pages += 1;
            stream.write_all(answer.as_bytes()).expect("it is answered");
        }
        pages
    });
    (url, pages)
}

/// `tidegate usage export | head -1` went on through every page.
#[test]
fn no_page_is_asked_for_that_nobody_reads() {
    for (more, expected) in [(&[][..], 1), (&["--csv"], 0)] {
        let (url, pages) = endless();
        let mut export = tidegate();
        export.args(of("export", more)).args(["--server", &url]);
        assert_eq!(unread(export).ends(0).error, "");
        drop(TcpStream::connect(url.trim_start_matches("http://")).expect("it listens"));
        assert_eq!(pages.join().expect("it ended"), expected, "{more:?}");
    }
}
