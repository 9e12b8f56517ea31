//! How a gateway begins without a file.

use super::{Gateway, Provider};

#[test]
fn a_gateway_needs_no_file() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let provider = Provider::start();
    let words = |upstream| ["--http", "off", "--upstream", upstream];
    // As the page has it: it would call OpenAI itself.
    drop(Gateway::run(folder.path(), &words("openai")));
    let elsewhere = format!("openai=openai@http://{}", provider.at);
    let gateway = Gateway::run(folder.path(), &words(&elsewhere));
    assert_eq!(gateway.status("Hi"), 200);
    assert_eq!(provider.calls.try_iter().count(), 1);
}
