//! Grants over the wire: taken, spent by the Rust client without asking, and returned.

use std::time::Duration;

use tidegate_client::{Client, Error, Grant, GrantAnswer, Quantity, Request, Spender};
use tokio::time::timeout;

use crate::proxy::Proxy;
use crate::server::Server;

/// Nothing comes back while a test runs, and none of it is over.
const POLICIES: &str = "
[policy.chat.limits]
rpm = { calls = 1_000, per = '400d' }
tpm = { rate = 1_000, per = '400d' }
[policy.few.limits]
rpm = { calls = 100, per = '400d' }
[policy.money.limits]
usd = { budget = 5, per = '400d', unit = '0.001' }
[policy.jobs.limits]
running = { concurrency = 1 }
";

const LONG: Duration = Duration::from_secs(60);

fn client(server: &Server) -> Client {
    Client::new(&server.url).expect("a client")
}

fn spender(client: &Client, policy: &str, limit: &str, batch: u64) -> Spender {
    let spender = client.spender(policy, "alice").batch(limit, batch);
    spender.hold(LONG).idle(LONG).low_water(0).build()
}

#[track_caller]
fn granted(answer: GrantAnswer) -> Grant {
    match answer {
        GrantAnswer::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

async fn left(client: &Client, policy: &str, limit: &str) -> Quantity {
    let answer = client.peek(&Request::new(policy, "alice").cost(0)).await;
    let limits = answer.expect("an answer").limits;
    limits.get(limit).expect("a limit").remaining.clone()
}

/// Until so much is left, for some time.
async fn until_left(client: &Client, policy: &str, limit: &str, amount: u64) {
    let waited = timeout(LONG, async {
        while left(client, policy, limit).await != amount.into() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("it comes");
}

async fn admitted(spender: &Spender) -> bool {
    let take = spender.take([("rpm", 1)]).await.expect("an answer");
    take.is_admitted()
}

#[tokio::test]
async fn a_grant_is_spent_and_returned_once() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let wish = Request::new("chat", "alice")
        .amount("rpm", 20)
        .amount("tpm", 5_000);
    let wish = wish.least("tpm", 100).hold(LONG);
    let grant = granted(client.grant(&wish).await.expect("an answer"));
    assert_eq!(grant.amounts().get("rpm"), Some(&20.into()));
    assert_eq!(grant.amounts().get("tpm"), Some(&1_000.into()));
    assert_eq!(
        (grant.calls(), grant.good_for()),
        (&["rpm".to_owned()][..], LONG)
    );
    assert_eq!(grant.sure_until() - grant.sent(), LONG - LONG / 1_000);
    assert!(!format!("{:?}", grant.lease_ref()).contains(grant.lease_ref().id()));
    let refused = client.grant(&wish).await.expect("an answer");
    assert!(
        matches!(&refused, GrantAnswer::Refused(answer) if answer.binding.as_deref() == Some("tpm"))
    );
    for is_repeated in [false, true] {
        let used = [("rpm", 5), ("tpm", 400)];
        let ended = client.return_grant(grant.lease_ref(), used).await;
        assert_eq!(ended.expect("returned").repeated, is_repeated);
    }
    assert_eq!(left(&client, "chat", "rpm").await, 995.into());
    assert_eq!(left(&client, "chat", "tpm").await, 600.into());
}

#[tokio::test]
async fn a_spender_asks_once_for_many_and_gives_the_rest_back_when_it_is_closed() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let spender = spender(&client, "chat", "rpm", 100);
    let takes = (0..50).map(|_| {
        let spender = spender.clone();
        tokio::spawn(async move { admitted(&spender).await })
    });
    for take in takes.collect::<Vec<_>>() {
        assert!(take.await.expect("it ends"));
    }
    assert_eq!(
        left(&client, "chat", "rpm").await,
        900.into(),
        "one grant serves them all"
    );
    for _ in 50..150 {
        assert!(admitted(&spender).await);
    }
    assert_eq!(left(&client, "chat", "rpm").await, 800.into());
    spender.close().await;
    assert_eq!(left(&client, "chat", "rpm").await, 850.into());
    assert!(admitted(&spender).await, "from here on the server decides");
    assert_eq!(left(&client, "chat", "rpm").await, 849.into());
}

#[tokio::test]
async fn two_spenders_admit_the_last_unit_and_no_more() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let spenders = [40, 7].map(|batch| spender(&client, "few", "rpm", batch));
    let mut count = 0;
    for turn in 0..200 {
        count += u32::from(admitted(&spenders[turn % 2]).await);
    }
    assert_eq!(count, 100);
    let take = spenders[0].take(()).await.expect("an answer");
    let refusal = take.refusal().expect("nothing is left");
    assert_eq!(refusal.binding.as_deref(), Some("rpm"));
    assert!(refusal.retry_after.is_some());
}

#[tokio::test]
async fn a_spender_that_is_dropped_or_lies_idle_gives_the_rest_back() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let one = spender(&client, "chat", "rpm", 100);
    assert!(admitted(&one).await);
    drop(one);
    until_left(&client, "chat", "rpm", 999).await;
    let idle = client.spender("chat", "alice").batch("rpm", 100);
    let idle = idle.idle(Duration::from_millis(10)).build();
    assert!(admitted(&idle).await);
    until_left(&client, "chat", "rpm", 998).await;
    assert!(admitted(&idle).await, "it asks again");
}

#[tokio::test]
async fn what_is_known_afterwards_is_charged_once_and_beyond_a_grant_too() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let spender = client.spender("money", "alice").hold(LONG).idle(LONG);
    let spender = spender.low_water(0).batch("usd", 1).build();
    let usd = |text: &str| Quantity::Decimal(text.to_owned());
    // Nothing is held yet: it is debited.
    spender
        .spend([("usd", usd("0.25"))])
        .await
        .expect("charged");
    assert_eq!(left(&client, "money", "usd").await, usd("4.750"));
    let take = spender
        .take([("usd", usd("0.001"))])
        .await
        .expect("an answer");
    assert!(take.is_admitted());
    assert_eq!(left(&client, "money", "usd").await, usd("3.750"));
    spender.spend([("usd", usd("0.5"))]).await.expect("covered");
    assert_eq!(
        left(&client, "money", "usd").await,
        usd("3.750"),
        "nobody was asked"
    );
    // More than is left of the grant: that is over, and the excess is charged.
    spender.spend([("usd", usd("2"))]).await.expect("charged");
    assert_eq!(left(&client, "money", "usd").await, usd("2.249"));
    spender.close().await;
    assert_eq!(left(&client, "money", "usd").await, usd("2.249"));
}

#[tokio::test]
async fn what_no_grant_covers_is_the_servers_and_what_cannot_be_granted_says_why() {
    let server = Server::start(POLICIES);
    let client = client(&server);
    let chat = spender(&client, "chat", "tpm", 100);
    assert!(
        chat.take([("tpm", 50)])
            .await
            .expect("an answer")
            .is_admitted()
    );
    assert_eq!(left(&client, "chat", "tpm").await, 900.into());
    assert!(
        chat.take([("tpm", 600)])
            .await
            .expect("an answer")
            .is_admitted()
    );
    assert_eq!(left(&client, "chat", "tpm").await, 300.into());
    let wrong = chat.take([("tokens", 1)]).await.expect_err("there is none");
    assert!(matches!(wrong, Error::InvalidRequest(_)), "{wrong:?}");
    let jobs = spender(&client, "jobs", "running", 1);
    let wrong = jobs.take(()).await.expect_err("it holds slots");
    assert!(
        wrong.to_string().contains("no grant is made of `running`"),
        "{wrong}"
    );
    let nobody = spender(&client, "nobody", "rpm", 1);
    assert!(matches!(nobody.take(()).await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_given_back() {
    let server = Server::start(POLICIES);
    // What gives it back waits until the proxy is mended.
    let proxy = Proxy::before_a_cut(&server, 1);
    let far = Client::builder(&proxy.url)
        .retries(1)
        .build()
        .expect("a client");
    let lost = far
        .grant(&Request::new("few", "alice").amount("rpm", 30).hold(LONG))
        .await;
    assert!(matches!(lost, Err(Error::Unreachable(_))), "{lost:?}");
    let near = client(&server);
    assert_eq!(left(&near, "few", "rpm").await, 70.into());
    proxy.mend();
    until_left(&near, "few", "rpm", 100).await;
}
