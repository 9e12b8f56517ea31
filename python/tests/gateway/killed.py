"""A client that is to be killed: it reads a stream, and says how much came, token by token."""

import json
import sys

sdk, url, secret, asked = sys.argv[1:]
HOW = {"x-sim": "output=40,gap=10ms,silence=8"}
asked = json.loads(asked)

if sdk == "openai":
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key=secret)
    for chunk in client.chat.completions.create(**asked, stream=True, extra_headers=HOW):
        if chunk.choices and chunk.choices[0].delta.content:
            print("token", flush=True)
else:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key=secret)
    for event in client.messages.create(**asked, stream=True, extra_headers=HOW):
        if event.type == "content_block_delta":
            print("token", flush=True)
