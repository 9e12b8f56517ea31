//! Pools over the wire: who serves, with which words, and who cools down.

use tidegate::ManualClock;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_policy::parse;
use tidegate_service::Service;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Channel;

const POLICY: &str = "[policy.chat]\nbalancer = 'first_available'\nmetadata = { team = 'ml' }\n\
    [policy.chat.member.eu]\nmetadata = { region = 'eu-west' }\ncool_down = '30s'\n\
    limits.rpm = { calls = 2, per = '1h' }\n\
    [policy.chat.member.us]\nlimits.rpm = { calls = 2, per = '1h' }\n\
    [policy.deep]\nkey = 'org/user'\nlimits.all = { calls = 1, per = '1h', level = 'org' }\n\
    [policy.shady]\nshadow = true\nlimits.rpm = { calls = 1, per = '1h' }\n";

async fn client() -> TidegateClient<Channel> {
    client_of(POLICY).await
}

async fn client_of(policy: &str) -> TidegateClient<Channel> {
    let time = ManualClock::default();
    let builder = Service::builder().clock(time.clock());
    let service = builder.build(&parse("t", policy).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let forever = std::future::pending();
    tokio::spawn(
        Server::new(service, Settings::default())
            .serve(Listener::from(listener).connections(), forever),
    );
    TidegateClient::connect(format!("http://{at}"))
        .await
        .unwrap()
}

fn about(policy: &str, key: &str, member: &str) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: policy.into(),
        key: key.as_bytes().to_vec().into(),
        member: member.into(),
        ..Default::default()
    }
}

fn request(policy: &str) -> proto::AcquireRequest {
    proto::AcquireRequest {
        request: Some(about(policy, "k", "")),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_lease_names_its_member_which_cools_down_when_it_drops_work() {
    let mut client = client().await;
    let granted = client.acquire(request("chat")).await.unwrap().into_inner();
    let lease = granted.lease.expect("it fits");
    assert_eq!(lease.member, "eu");
    assert_eq!(lease.metadata["region"], "eu-west");
    assert_eq!(lease.metadata["team"], "ml");
    let ended = proto::LeaseRequest {
        policy: "chat".into(),
        key: b"k".to_vec().into(),
        lease: lease.id,
        outcome: proto::Outcome::Dropped.into(),
        ..Default::default()
    };
    let ended = client.release(ended).await.unwrap().into_inner();
    assert_eq!(ended.member, "eu");
    assert!(ended.cooling_until_us.is_some());
    let granted = client.acquire(request("chat")).await.unwrap().into_inner();
    assert_eq!(granted.decision.unwrap().member, "us");
    let listed = client.list_policies(proto::ListPoliciesRequest {}).await;
    let policies = listed.unwrap().into_inner().policies;
    let chat = policies
        .iter()
        .find(|policy| policy.name == "chat")
        .unwrap();
    assert!(chat.members[0].cooling_until_us.is_some());
    assert_eq!(
        (chat.members[1].load, &*chat.members[1].limits),
        (1, &["rpm".to_owned()][..])
    );
}

#[tokio::test]
async fn a_debit_names_its_member_and_a_forecast_may() {
    let mut client = client().await;
    let unsaid = client.debit(about("chat", "k", "")).await.unwrap_err();
    assert_eq!(unsaid.code(), Code::InvalidArgument);
    let mut debit = about("chat", "k", "eu");
    debit.amounts = [("rpm".to_owned(), 2)].into();
    client.debit(debit).await.unwrap();
    let foreseen = client
        .forecast(about("chat", "k", ""))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(foreseen.members["eu"].limits["rpm"].spendable, 0);
    assert_eq!(foreseen.members["us"].limits["rpm"].spendable, 2);
    let one = client
        .forecast(about("chat", "k", "us"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(one.limits["rpm"].spendable, 2);
    // Where the pool chooses, nobody else does.
    let chosen = client.check(about("chat", "k", "us")).await.unwrap_err();
    assert_eq!(chosen.code(), Code::InvalidArgument);
    let many = proto::CheckManyRequest {
        checks: vec![about("chat", "k", "us"), about("chat", "k", "")],
        correlation: 1,
    };
    let answers = client.check_many(many).await.unwrap().into_inner().answers;
    assert_eq!(answers[0].problem.as_ref().unwrap().code, "invalid");
    assert_eq!(answers[1].member, "us");
}

/// It was told as if the policy had no members, and not which of them it was about.
#[tokio::test]
async fn a_forecast_names_the_member_that_alone_could_serve_the_ask() {
    let policy = "[policy.chat.member.eu]\nlimits.rpm = { calls = 2, per = '1h' }\n\
        [policy.chat.member.us]\nlimits.rpm = { calls = 2, per = '1h' }\n\
        limits.tpm = { rate = 9, per = '1h' }\n";
    let mut request = about("chat", "k", "");
    request.amounts = [("tpm".to_owned(), 3)].into();
    let foreseen = client_of(policy).await.forecast(request).await.unwrap();
    let foreseen = foreseen.into_inner();
    assert!(foreseen.limits.is_empty());
    assert_eq!(foreseen.members["us"].limits["tpm"].spendable, 3);
}

#[tokio::test]
async fn a_refusal_names_the_level_and_a_shadow_says_so() {
    let mut client = client().await;
    client.check(about("deep", "acme/a", "")).await.unwrap();
    let refused = client
        .check(about("deep", "acme/b", ""))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((refused.admitted, &*refused.level), (false, "org"));
    client.acquire(request("shady")).await.unwrap();
    let second = client.acquire(request("shady")).await.unwrap().into_inner();
    assert!(second.lease.is_some() && second.decision.unwrap().shadowed);
}
