"""Charge what was used already, though it fits no more."""

from tidegate import Client

client = Client("http://127.0.0.1:7400")
for tokens in (9_000, 4_000):
    answer = client.debit("cost", {"tokens": tokens}, key="alice")
    print(f"{tokens} charged; more may start: {answer.admitted}")
