// The official SDKs of Node, unchanged but for their base URL: one deed of one SDK, which says on its
// last line how many tokens came. The deed `killed` says each of them as it comes, until it is killed.
//
//   node sdks.mjs openai|anthropic DEED URL SECRET     beside a folder node_modules that has both

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const [sdk, deed, url, secret] = process.argv.slice(2);
const require = createRequire(path.join(process.env.TIDEGATE_NODE_SDKS, "package.json"));

const QUESTION = "How high is the tide?";
const ASKED = { model: "m", messages: [{ role: "user", content: QUESTION }], max_tokens: 40 };
const SCHEMA = { type: "object", properties: { harbour: { type: "string" } }, required: ["harbour"] };

const wish = (how) => ({ headers: { "x-sim": how } });

function openai() {
  const OpenAI = require("openai").default;
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: secret, maxRetries: 0 });
  const create = (more, how, options = {}) =>
    client.chat.completions.create({ ...ASKED, ...more }, { ...wish(how), ...options });
  return {
    whole: async () => (await create({}, "output=3")).choices[0].message.content,
    stream: (how, options) => create({ stream: true }, how, options),
    text: (chunk) => chunk.choices[0]?.delta?.content,
    tool: async () => {
      const tools = [{ type: "function", function: { name: "tide", parameters: SCHEMA } }];
      const answer = await create({ tools }, "gap=0ms");
      return JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments);
    },
    other: async () => {
      const answer = await client.responses.create({ model: "m", input: QUESTION }, wish("output=5"));
      return answer.output_text;
    },
  };
}

function anthropic() {
  const Anthropic = require("@anthropic-ai/sdk").default;
  const client = new Anthropic({ baseURL: url, apiKey: secret, maxRetries: 0 });
  const create = (more, how, options = {}) =>
    client.messages.create({ ...ASKED, ...more }, { ...wish(how), ...options });
  return {
    whole: async () => (await create({}, "output=3")).content[0].text,
    stream: (how, options) => create({ stream: true }, how, options),
    text: (event) => (event.type === "content_block_delta" ? event.delta.text : ""),
    tool: async () => {
      const answer = await create({ tools: [{ name: "tide", input_schema: SCHEMA }] }, "gap=0ms");
      return answer.content[0].input;
    },
    other: async () => {
      const stream = client.messages.stream(ASKED, wish("output=5"));
      return (await stream.finalMessage()).content[0].text;
    },
  };
}

const of = { openai, anthropic }[sdk]();
const words = (text) => text.split(" ").filter((word) => word).length;

const deeds = {
  async whole() {
    assert.equal(words(await of.whole()), 3);
    assert.deepEqual(await of.tool(), { harbour: "tide" });
    assert.equal(words(await of.other()), 5);
    let came = 0;
    for await (const part of await of.stream("output=9")) came += of.text(part) ? 1 : 0;
    return came;
  },
  async left() {
    await of.whole();
    let came = 0;
    for await (const part of await of.stream("output=40,gap=10ms,silence=8")) {
      came += of.text(part) ? 1 : 0;
      if (came === 4) break;
    }
    return came;
  },
  async aborted() {
    await of.whole();
    let came = 0;
    const controller = new AbortController();
    const stream = await of.stream("output=40,gap=10ms,silence=8", { signal: controller.signal });
    try {
      for await (const part of stream) {
        came += of.text(part) ? 1 : 0;
        if (came === 4) controller.abort();
      }
    } catch (error) {
      assert.equal(controller.signal.aborted, true, error);
    }
    return came;
  },
  async killed() {
    await of.whole();
    for await (const part of await of.stream("output=40,gap=10ms,silence=8")) {
      if (of.text(part)) console.log("token");
    }
    return "all came";
  },
  async broken() {
    await of.whole();
    let came = 0;
    const read = async () => {
      for await (const part of await of.stream("output=40,cut=6")) came += of.text(part) ? 1 : 0;
    };
    await assert.rejects(read);
    return came;
  },
};

console.log(await deeds[deed]());
