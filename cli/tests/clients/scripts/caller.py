"""A user of gRPC from Python: caller.py SCENE HOST:PORT.

The stubs were made by grpcio-tools and are on the path. The server has the
policies `chat` (10 calls, 1,000 units) and `jobs` (one slot), and the tokens
`all` and `decider`.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import grpc
from tidegate.v1 import tidegate_pb2 as words
from tidegate.v1.tidegate_pb2_grpc import TidegateStub

PATIENCE = 60


def bearer(token):
    return [("authorization", f"Bearer {token}")]


def ask(key, policy="chat", **amounts):
    """A unit of `chat` unless more is said; a call or a slot goes without saying."""
    if policy == "chat":
        amounts = {"units": 1} | amounts
    return words.CheckRequest(policy=policy, key=key.encode(), amounts=amounts)


class Client:
    """The stub, with a token and a deadline on every call."""

    def __init__(self, channel, token="all"):
        self.stub, self.token = TidegateStub(channel), token

    def __getattr__(self, verb):
        method = getattr(self.stub, verb)

        def call(request, timeout=PATIENCE):
            return method(request, metadata=bearer(self.token), timeout=timeout)

        return call


def is_refused(code, call, *others):
    try:
        answer = call()
        # The error of a stream comes with its first message.
        list(answer if hasattr(answer, "__next__") else [])
    except grpc.RpcError as error:
        assert error.code() in (code, *others), (error.code(), error.details())
        told = error.details() or code == grpc.StatusCode.UNIMPLEMENTED
        assert told, "nobody is told why"
        return
    raise AssertionError(f"{code} did not come")


def unary(channel):
    client = Client(channel)
    first = client.Check(ask("k", units=100))
    assert first.admitted and first.limits["calls"].remaining == 9, first
    assert first.limits["units"].remaining == 900, first
    taken = words.AcquireRequest(request=ask("k", units=400), ttl_ms=60_000)
    taken.idempotency_key = b"once"
    acquired = client.Acquire(taken)
    lease = words.LeaseRequest(policy="chat", key=b"k", lease=acquired.lease.id)
    assert len(lease.lease) == 32 and not acquired.lease.repeated, acquired
    again = client.Acquire(taken).lease
    assert again.repeated and again.id == lease.lease, again
    renewed = client.Renew(words.RenewRequest(lease=lease, ttl_ms=3_600_000))
    assert renewed.expires_at_us > acquired.lease.expires_at_us
    settled = client.Settle(words.SettleRequest(lease=lease, used={"units": 150}))
    share = settled.limits["units"]
    assert (share.taken, share.used, settled.repeated) == (400, 150, False), settled
    assert client.Settle(words.SettleRequest(lease=lease, used={"units": 150})).repeated
    peeked = client.Peek(ask("k"))
    assert peeked.limits["units"].remaining == 1_000 - 100 - 150, peeked
    endings(client)
    many(client)
    client.Debit(ask("k", units=2_000))
    standing = client.Peek(ask("k")).limits["units"]
    assert (standing.remaining, standing.debt) == (0, 1_250), standing
    foreseen = client.Forecast(ask("new", units=300))
    assert foreseen.limits["units"].spendable == 3, foreseen
    client.Reset(words.ResetRequest(policy="chat", key=b"k"))
    assert client.Peek(ask("k")).limits["calls"].remaining == 10
    listed = client.ListPolicies(words.ListPoliciesRequest()).policies
    assert {policy.name for policy in listed} == {"chat", "jobs"}, listed


def endings(client):
    """A slot comes back from whoever releases or cancels it."""
    fences = []
    for end in (client.Release, client.Cancel):
        lease = client.Acquire(words.AcquireRequest(request=ask("k", "jobs"))).lease
        fences.append(lease.fence)
        busy = client.Acquire(words.AcquireRequest(request=ask("k", "jobs")))
        assert not busy.decision.admitted and not busy.HasField("lease"), busy
        end(words.LeaseRequest(policy="jobs", key=b"k", lease=lease.id))
    assert fences[0] < fences[1], fences


def many(client):
    batch = words.CheckManyRequest(correlation=7)
    batch.checks.extend([ask("m"), ask("m", "nowhere"), ask("m")])
    answers = client.CheckMany(batch)
    assert answers.correlation == 7
    assert [a.admitted for a in answers.answers] == [True, False, True], answers
    assert answers.answers[1].problem.code == "not_found", answers


def stream(channel):
    """Each batch is answered before the next is sent, and then many at once."""
    queue = Queue()
    requests = iter(queue.get, None)
    answers = Client(channel).CheckStream(requests)
    admitted = 0
    for number in range(6):
        queue.put(words.CheckManyRequest(checks=[ask("k")] * 2, correlation=number))
        answer = next(answers)
        assert answer.correlation == number, answer
        admitted += sum(a.admitted for a in answer.answers)
    assert admitted == 10, admitted
    for number in range(100):
        queue.put(words.CheckManyRequest(checks=[ask("l")] * 50, correlation=number))
    queue.put(None)
    rest = list(answers)
    assert [a.correlation for a in rest] == list(range(100)), "out of order"
    assert sum(one.admitted for a in rest for one in a.answers) == 10
    assert answers.code() == grpc.StatusCode.OK


def denials(channel):
    client = Client(channel)
    watched = client.WatchDenials(words.WatchDenialsRequest(policy="chat"))
    # From then on it is told.
    watched.initial_metadata()
    refused = [answer for _ in range(12) if not (answer := client.Check(ask("k"))).admitted]
    assert len(refused) == 2
    for answer in refused:
        denial = next(watched)
        assert (denial.policy, denial.key, denial.binding) == ("chat", b"k", "calls"), denial
        assert denial.not_until_us == answer.not_until_us and denial.missed == 0, denial
    watched.cancel()


def threads(channel):
    client = Client(channel)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.Check(ask("hot")), range(400)))
    assert sum(answer.admitted for answer in answers) == 10
    assert client.Peek(ask("hot")).limits["calls"].remaining == 0


def waiting(channel):
    client = Client(channel)
    slot = words.AcquireRequest(request=ask("k", "jobs"), wait_ms=30_000)
    lease = client.Acquire(slot).lease
    late = grpc.StatusCode.DEADLINE_EXCEEDED
    # The server knows the deadline, too, and may be first: cancelled, it says.
    is_refused(late, lambda: client.Acquire(slot, timeout=0.2), grpc.StatusCode.CANCELLED)
    call = client.stub.Acquire.future(slot, metadata=bearer("all"))
    call.cancel()
    assert call.cancelled()
    given = []
    waiter = threading.Thread(target=lambda: given.append(client.Acquire(slot).lease))
    waiter.start()
    client.Release(words.LeaseRequest(policy="jobs", key=b"k", lease=lease.id))
    waiter.join(PATIENCE)
    assert given and given[0].fence > lease.fence, given
    client.Release(words.LeaseRequest(policy="jobs", key=b"k", lease=given[0].id))
    assert client.Peek(ask("k", "jobs")).admitted, "one who gave up has taken the slot"


def refusals(channel):
    client = Client(channel)
    code = grpc.StatusCode
    never = ask("k", units=1_001)
    is_refused(code.OUT_OF_RANGE, lambda: client.Check(never))
    is_refused(code.NOT_FOUND, lambda: client.Check(ask("k", "nowhere")))
    is_refused(code.INVALID_ARGUMENT, lambda: client.Check(ask("")))
    is_refused(code.INVALID_ARGUMENT, lambda: client.Check(ask("k", what=1)))
    unknown = words.LeaseRequest(policy="chat", key=b"k", lease="0" * 32)
    is_refused(code.NOT_FOUND, lambda: client.Release(unknown))
    too_many = words.CheckManyRequest(checks=[ask("k")] * 1_001)
    is_refused(code.INVALID_ARGUMENT, lambda: client.CheckMany(too_many))
    too_long = ask("k" * 300_000)
    is_refused(code.OUT_OF_RANGE, lambda: client.Check(too_long))
    watch = words.WatchDenialsRequest(policy="nowhere")
    is_refused(code.NOT_FOUND, lambda: client.WatchDenials(watch))
    unimplemented = channel.unary_unary("/tidegate.v1.Tidegate/Guess")
    is_refused(code.UNIMPLEMENTED, lambda: unimplemented(b"", metadata=bearer("all")))
    assert client.Check(ask("k")).limits["calls"].remaining == 9, "a refusal has taken"


def tokens(channel):
    code, batch = grpc.StatusCode, words.CheckManyRequest(checks=[ask("k")])
    stub, decider = TidegateStub(channel), Client(channel, "decider")
    for metadata in (None, bearer("guess"), [("authorization", "all")]):
        is_refused(code.UNAUTHENTICATED, lambda: stub.Check(ask("k"), metadata=metadata))
        is_refused(
            code.UNAUTHENTICATED, lambda: stub.CheckStream(iter([batch]), metadata=metadata)
        )
        watch = words.WatchDenialsRequest()
        is_refused(code.UNAUTHENTICATED, lambda: stub.WatchDenials(watch, metadata=metadata))
    assert decider.Check(ask("k")).admitted
    forbidden = code.PERMISSION_DENIED
    is_refused(forbidden, lambda: decider.Check(ask("k", "jobs")))
    is_refused(forbidden, lambda: decider.Peek(ask("k")))
    is_refused(forbidden, lambda: decider.Reset(words.ResetRequest(policy="chat", key=b"k")))


def health(channel):
    """Nobody needs a token to ask whether the server is well."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", "tidegate.v1.Tidegate"):
        request = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(request, timeout=PATIENCE).status == serving
        watched = stub.Watch(request, timeout=PATIENCE)
        assert next(watched).status == serving
        watched.cancel()
    unknown = health_pb2.HealthCheckRequest(service="nobody")
    is_refused(grpc.StatusCode.NOT_FOUND, lambda: stub.Check(unknown))


def reflection(channel):
    """What was never generated is asked: all from the server's own words."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
        ProtoReflectionDescriptorDatabase,
    )

    database = ProtoReflectionDescriptorDatabase(channel)
    assert {"tidegate.v1.Tidegate", "grpc.health.v1.Health"} <= set(database.get_services())
    pool = DescriptorPool(database)
    service = pool.FindServiceByName("tidegate.v1.Tidegate")
    ours = words.DESCRIPTOR.services_by_name["Tidegate"]
    assert [m.name for m in service.methods] == [m.name for m in ours.methods]
    check = service.FindMethodByName("Check")
    request = GetMessageClass(check.input_type)(policy="chat", key=b"k", cost=1)
    call = channel.unary_unary(
        "/tidegate.v1.Tidegate/Check",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(check.output_type).FromString,
    )
    assert call(request, metadata=bearer("all"), timeout=PATIENCE).admitted


SCENES = [unary, stream, denials, threads, waiting, refusals, tokens, health, reflection]


def main():
    scene, address = sys.argv[1:]
    play = {scene.__name__: scene for scene in SCENES}[scene]
    with grpc.insecure_channel(address) as channel:
        play(channel)
    print(f"{scene}: as it should be")


main()
