// Prints the responses that the AI SDK gets from a server, as one JSON object.
// Usage: node libraries.mjs MODULES_FOLDER URL MODEL

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, url, model] = process.argv.slice(2);
const require = createRequire(join(modules, "libraries.cjs"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { embedMany, generateText, jsonSchema, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOllama } = await load("ai-sdk-ollama");

const schema = jsonSchema({ type: "object", properties: { city: { type: "string" } } });
const tools = { weather: tool({ description: "It", inputSchema: schema }) };

async function chat(languageModel) {
  const answer = await generateText({ model: languageModel, prompt: "hi" });
  const stream = streamText({ model: languageModel, prompt: "hi" });
  let streamed = "";
  for await (const piece of stream.textStream) streamed += piece;
  return {
    "chat": answer.text,
    "chat tokens": [answer.usage.inputTokens, answer.usage.outputTokens],
    "chat streamed": streamed,
  };
}

async function called(languageModel) {
  const { toolCalls } = await generateText({ model: languageModel, prompt: "use it", tools });
  return { name: toolCalls[0].toolName, arguments: toolCalls[0].input };
}

async function embeddings(embeddingModel) {
  const { embeddings } = await embedMany({ model: embeddingModel, values: ["hi", "there"] });
  return embeddings;
}

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const ollama = createOllama({ baseURL: url });
console.log(
  JSON.stringify({
    "openai chat": await chat(openai.chat(model)),
    "openai tool": await called(openai.chat(model)),
    "openai completion": await chat(openai.completion(model)),
    "openai response": await chat(openai.responses(model)),
    "openai embeddings": await embeddings(openai.embeddingModel(model)),
    "ollama chat": await chat(ollama(model)),
    "ollama tool": await called(ollama(model)),
    "ollama embeddings": await embeddings(ollama.embeddingModel(model)),
  }),
);
