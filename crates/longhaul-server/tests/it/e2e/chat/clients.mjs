// Prints the responses that npm's ollama and openai get from a server, as one JSON object.
// Usage: node clients.mjs MODULES_FOLDER URL MODEL

import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, url, model] = process.argv.slice(2);
const require = createRequire(join(modules, "clients.cjs"));
const { Ollama } = require("ollama");
const { OpenAI } = require("openai");

const messages = [{ role: "user", content: "hi" }];
const asking = [{ role: "user", content: "use it" }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", function: { name: "weather", description: "It", parameters } }];

async function gathered(stream, text) {
  const pieces = [];
  for await (const piece of stream) pieces.push(text(piece) ?? "");
  return [pieces.join(""), pieces.filter((piece) => piece !== "").length > 1];
}

async function failure(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return error;
  }
}

async function ollama() {
  const client = new Ollama({ host: url });
  const chat = await client.chat({ model, messages });
  const chats = await client.chat({ model, messages, stream: true });
  const [streamed, inPieces] = await gathered(chats, (part) => part.message.content);
  const generate = await client.generate({ model, prompt: "hi" });
  const generates = await client.generate({ model, prompt: "hi", stream: true });
  const [generated] = await gathered(generates, (part) => part.response);
  const tool = await client.chat({ model, messages: asking, tools });
  const unknown = await failure(() => client.chat({ model: "owl", messages }));
  const list = await client.list();
  const logged = await client.chat({ model, messages, logprobs: true });
  return {
    "log probabilities": logged.logprobs.map((one) => one.token).join(""),
    "embed": (await client.embed({ model, input: ["hi", "there"] })).embeddings,
    "embeddings": (await client.embeddings({ model, prompt: "hi" })).embedding,
    "running": (await client.ps()).models.length,
    "chat": chat.message.content,
    "chat tokens": [chat.prompt_eval_count, chat.eval_count],
    "chat streamed": streamed,
    "chat streamed in pieces": inPieces,
    "generate": generate.response,
    "generate streamed": generated,
    "tool": { ...tool.message.tool_calls[0].function },
    "unknown model": [unknown.status_code, unknown.message],
    "models": list.models.map((one) => one.name),
  };
}

async function openai() {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const completions = client.chat.completions;
  const chat = await completions.create({ model, messages });
  const chats = await completions.create({ model, messages, stream: true });
  const [streamed, inPieces] = await gathered(chats, (chunk) => chunk.choices[0].delta.content);
  let usage = null;
  const options = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await completions.create({ model, messages, ...options })) usage = chunk.usage ?? usage;
  const called = (call) => ({ name: call.function.name, arguments: JSON.parse(call.function.arguments) });
  const tool = await completions.create({ model, messages: asking, tools });
  const runner = completions.stream({ model, messages: asking, tools });
  const streamedTool = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
  const unknown = await failure(() => completions.create({ model: "owl", messages }));
  const listed = [];
  for await (const one of client.models.list()) listed.push(one.id);
  const found = await client.models.retrieve(listed[0]);
  const logged = await completions.create({ model, messages, logprobs: true, top_logprobs: 1 });
  const text = (await client.completions.create({ model, prompt: "hi", logprobs: 1 })).choices[0];
  const texts = await client.completions.create({ model, prompt: "hi", stream: true });
  const [textStreamed] = await gathered(texts, (chunk) => chunk.choices[0].text);
  const embedded = await client.embeddings.create({ model, input: ["hi", "there"] });
  const response = await client.responses.create({ model, input: "hi" });
  const responses = client.responses.stream({ model, input: "hi" });
  const [deltas] = await gathered(responses, (event) => (event.type === "response.output_text.delta" ? event.delta : ""));
  const final = await responses.finalResponse();
  const image = await failure(() => client.images.generate({ model, prompt: "hi" }));
  return {
    "log probabilities": logged.choices[0].logprobs.content.map((one) => one.token).join(""),
    "completion": [text.text, text.logprobs.tokens.join("")],
    "completion streamed": textStreamed,
    "embeddings": embedded.data.map((one) => one.embedding),
    "response": [response.output_text, response.usage.total_tokens],
    "response streamed": [deltas, final.output_text],
    "unknown route": [image.status, image.type],
    "chat": chat.choices[0].message.content,
    "chat tokens": [chat.usage.prompt_tokens, chat.usage.completion_tokens],
    "chat streamed": streamed,
    "chat streamed in pieces": inPieces,
    "usage streamed": usage.total_tokens,
    "tool": called(tool.choices[0].message.tool_calls[0]),
    "tool streamed": called(streamedTool),
    "unknown model": [unknown.status, unknown instanceof OpenAI.NotFoundError],
    "models": found.id === listed[0] && found.id.startsWith(model),
  };
}

console.log(JSON.stringify({ ollama: await ollama(), openai: await openai() }));
