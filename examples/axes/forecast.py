"""How many such requests fit, and when the next does: nothing is taken."""

from tidegate import Client

client = Client("http://127.0.0.1:7400")
client.check("cost", {"tokens": 5_000}, key="alice")
for limit, fit in client.forecast("cost", {"tokens": 2_000}, key="alice").items():
    print(f"{limit}: {fit} requests for 2,000 fit now")
next_one = client.peek("cost", {"tokens": 9_000}, key="alice")
print(f"one for 9,000 fits in {next_one.retry_after:.0f} s")
