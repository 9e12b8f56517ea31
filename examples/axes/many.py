"""Several keys in one question, each answered by itself."""

from tidegate import Client, TidegateError

client = Client("http://127.0.0.1:7400")
asked = [("alice", 7_000), ("bob", 7_000), ("alice", 7_000)]
answers = client.check_many([{"policy": "cost", "key": key, "requested": {"tokens": tokens}} for key, tokens in asked])
for (key, tokens), answer in zip(asked, answers):
    if isinstance(answer, TidegateError):
        raise answer
    print(f"{key}, {tokens}: admitted = {answer.admitted}")
