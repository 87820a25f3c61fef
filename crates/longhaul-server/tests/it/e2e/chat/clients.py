"""Prints the responses that PyPI's ollama and openai get from a server, as one JSON object.

Usage: python clients.py URL MODEL
"""

import json
import sys

from ollama import Client, ResponseError
from openai import NotFoundError, OpenAI

url, model = sys.argv[1:]
messages = [{"role": "user", "content": "hi"}]
asking = [{"role": "user", "content": "use it"}]
parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "weather", "description": "It", "parameters": parameters}}]


def gathered(pieces):
    pieces = [piece or "" for piece in pieces]
    return "".join(pieces), sum(piece != "" for piece in pieces) > 1


def ollama():
    client = Client(host=url)
    chat = client.chat(model=model, messages=messages)
    streamed, in_pieces = gathered(
        part.message.content for part in client.chat(model=model, messages=messages, stream=True)
    )
    generated, _ = gathered(part.response for part in client.generate(model=model, prompt="hi", stream=True))
    function = client.chat(model=model, messages=asking, tools=tools).message.tool_calls[0].function
    try:
        unknown = client.chat(model="owl", messages=messages)
    except ResponseError as error:
        unknown = [error.status_code, error.error]
    return {
        "chat": chat.message.content,
        "chat tokens": [chat.prompt_eval_count, chat.eval_count],
        "chat streamed": streamed,
        "chat streamed in pieces": in_pieces,
        "generate": client.generate(model=model, prompt="hi").response,
        "generate streamed": generated,
        "tool": {"name": function.name, "arguments": dict(function.arguments)},
        "unknown model": unknown,
        "log probabilities": "".join(one.token for one in client.chat(model=model, messages=messages, logprobs=True).logprobs),
        "embed": [list(one) for one in client.embed(model=model, input=["hi", "there"]).embeddings],
        "embeddings": list(client.embeddings(model=model, prompt="hi").embedding),
        "running": len(client.ps().models),
        "models": [one.model for one in client.list().models],
    }


def called(call):
    return {"name": call.function.name, "arguments": json.loads(call.function.arguments)}


def openai():
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    completions = client.chat.completions
    chat = completions.create(model=model, messages=messages)
    streamed, in_pieces = gathered(
        chunk.choices[0].delta.content for chunk in completions.create(model=model, messages=messages, stream=True)
    )
    options = {"stream": True, "stream_options": {"include_usage": True}}
    usage = [chunk.usage for chunk in completions.create(model=model, messages=messages, **options)][-1]
    tool = completions.create(model=model, messages=asking, tools=tools)
    with completions.stream(model=model, messages=asking, tools=tools) as stream:
        streamed_tool = stream.get_final_completion().choices[0].message.tool_calls[0]
    try:
        unknown = completions.create(model="owl", messages=messages)
    except NotFoundError as error:
        unknown = [error.status_code, True]
    listed = [one.id for one in client.models.list()]
    found = client.models.retrieve(listed[0]).id
    assert client.models.retrieve(model).id == model
    logged = completions.create(model=model, messages=messages, logprobs=True, top_logprobs=1)
    text = client.completions.create(model=model, prompt="hi", logprobs=1).choices[0]
    texts, _ = gathered(chunk.choices[0].text for chunk in client.completions.create(model=model, prompt="hi", stream=True))
    response = client.responses.create(model=model, input="hi")
    with client.responses.stream(model=model, input="hi") as stream:
        deltas, _ = gathered(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response().output_text
    try:
        image = client.images.generate(model=model, prompt="hi")
    except NotFoundError as error:
        image = [error.status_code, error.type]
    return {
        "log probabilities": "".join(one.token for one in logged.choices[0].logprobs.content),
        "completion": [text.text, "".join(text.logprobs.tokens)],
        "completion streamed": texts,
        "embeddings": [one.embedding for one in client.embeddings.create(model=model, input=["hi", "there"]).data],
        "response": [response.output_text, response.usage.total_tokens],
        "response streamed": [deltas, final],
        "unknown route": image,
        "chat": chat.choices[0].message.content,
        "chat tokens": [chat.usage.prompt_tokens, chat.usage.completion_tokens],
        "chat streamed": streamed,
        "chat streamed in pieces": in_pieces,
        "usage streamed": usage.total_tokens,
        "tool": called(tool.choices[0].message.tool_calls[0]),
        "tool streamed": called(streamed_tool),
        "unknown model": unknown,
        "models": found == listed[0] and found.startswith(model),
    }


print(json.dumps({"ollama": ollama(), "openai": openai()}))
