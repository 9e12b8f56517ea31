"""Another process that calls within the same limits: five calls, whole and streamed."""

import sys

import httpx2
import openai
from metered import LIMITS, PRICES

from tidegate import LimitSet
from tidegate.llm.httpx2 import LlmTransport

url, secret, name, store = sys.argv[1:]
limits = LimitSet(LIMITS, name=name, store=store)
client = httpx2.Client(transport=LlmTransport(limits, prices=PRICES))
asked = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}

with openai.OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0, http_client=client) as calls:
    for number in range(5):
        how = {"x-sim": f"output={7 + number}"}
        if number % 2:
            more = {"stream": True, "stream_options": {"include_usage": True}}
            list(calls.chat.completions.create(**asked, **more, extra_headers=how))
        else:
            calls.chat.completions.create(**asked, extra_headers=how)
