"""Says what PyPI's ollama and openai find at a server, as one JSON object.

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
    return {
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
