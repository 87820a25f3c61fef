"""Prints the responses that litellm and LangChain get from a server, as one JSON object.

Usage: python libraries.py URL MODEL
"""

import json
import os
import sys

# Keeps litellm from downloading a list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

url, model = sys.argv[1:]
messages = [{"role": "user", "content": "hi"}]
asking = [{"role": "user", "content": "use it"}]
parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "weather", "description": "It", "parameters": parameters}}]


def with_litellm(chat, text, embedder, options):
    answer = litellm.completion(model=chat, messages=messages, **options)
    stream = litellm.completion(model=chat, messages=messages, stream=True, **options)
    call = litellm.completion(model=chat, messages=asking, tools=tools, **options).choices[0].message.tool_calls[0]
    embedded = litellm.embedding(model=embedder, input=["hi", "there"], **options)
    return {
        "chat": answer.choices[0].message.content,
        "chat tokens": [answer.usage.prompt_tokens, answer.usage.completion_tokens],
        "chat streamed": "".join(chunk.choices[0].delta.content or "" for chunk in stream),
        "tool": {"name": call.function.name, "arguments": json.loads(call.function.arguments)},
        "completion": litellm.text_completion(model=text, prompt="hi", **options).choices[0].text,
        "embeddings": [one["embedding"] for one in embedded.data],
    }


def with_langchain(chat, embeddings):
    call = chat.bind_tools(tools).invoke("use it").tool_calls[0]
    answer = chat.invoke("hi")
    return {
        "chat": answer.content,
        "chat tokens": [answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]],
        "chat streamed": "".join(chunk.content for chunk in chat.stream("hi")),
        "tool": {"name": call["name"], "arguments": call["args"]},
        "embeddings": embeddings.embed_documents(["hi", "there"]),
    }


openai = {"api_base": f"{url}/v1", "api_key": "none"}
for_openai = {"base_url": f"{url}/v1", "api_key": "none", "model": model}
print(
    json.dumps(
        {
            "litellm ollama": with_litellm(
                f"ollama_chat/{model}", f"ollama/{model}", f"ollama/{model}", {"api_base": url}
            ),
            "litellm openai": with_litellm(
                f"openai/{model}", f"text-completion-openai/{model}", f"openai/{model}", openai
            ),
            "langchain ollama": with_langchain(
                ChatOllama(model=model, base_url=url), OllamaEmbeddings(model=model, base_url=url)
            ),
            # Otherwise it sends numbers of tokens, and downloads their list.
            "langchain openai": with_langchain(
                ChatOpenAI(**for_openai), OpenAIEmbeddings(check_embedding_ctx_length=False, **for_openai)
            ),
            "langchain response": ChatOpenAI(use_responses_api=True, **for_openai).invoke("hi").text,
        }
    )
)
