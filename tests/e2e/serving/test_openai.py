"""The unmodified `openai` client against a server with small models."""

import asyncio
import base64
import json
import struct
import time
import urllib.request
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.serving.access.api_keys import add_key
from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_encoder, finished_language_model, finished_run

openai = pytest.importorskip("openai", reason="needs the openai client")

TURNS = {"user": {"prefix": "a", "suffix": " "}, "assistant": {"prefix": "t", "suffix": " "}}
PROMPT = "two dogs"
SAMPLED = {"temperature": 1.5, "seed": 7, "max_tokens": 19}
ENDLESS = {
    "model": "story",
    "prompt": "a",
    "temperature": 1.5,
    "max_tokens": 20000,
    "extra_body": {"min_tokens": 20000},
}
QUESTION = [{"role": "user", "content": "dogs"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of runs: a language model, one with a chat template, an embedder and a translator."""
    folder = tmp_path_factory.mktemp("openai")
    finished_language_model(folder / "story", {"data": {"context_length": 64}})
    finished_language_model(folder / "talk", {"chat_template": TURNS, "data": {"context_length": 64}})
    finished_encoder(folder / "vectors", "masked_lm")
    finished_run(folder / "en-de")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    limits = ("--set", "limits.max_new_tokens=20000", "--set", "limits.max_requests=24")
    with running_server(folder, "story", "talk", "vectors", "en-de=en-de", *limits) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Any:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


@pytest.fixture(scope="module")
def generator(folder: Path) -> dragoman.Generator:
    return dragoman.load(folder / "story", dragoman.Generator)


def test_models_are_listed(client):
    assert {one.id for one in client.models.list()} == {"story", "talk", "vectors"}
    assert client.models.retrieve("talk").object == "model"
    with pytest.raises(openai.NotFoundError, match="no language model or embedder en-de"):
        client.models.retrieve("en-de")


def test_completions_are_those_of_the_generator(client, generator):
    prompts = [PROMPT, "a cat"]
    found = client.completions.create(model="story", prompt=prompts, n=2, logprobs=0, **SAMPLED)
    rows = generator.generate_n_best(prompts, num_samples=2, temperature=1.5, seed=7, max_new_tokens=19)
    expected = [one for row in rows for one in row]
    assert [one.index for one in found.choices] == [0, 1, 2, 3]
    for choice, one in zip(found.choices, expected, strict=True):
        assert choice.text == one.text
        assert choice.finish_reason == ("length" if one.finish_reason == "length" else "stop")
        assert "".join(choice.logprobs.tokens) == one.text
        assert choice.logprobs.token_logprobs == list(one.hypothesis.token_log_probs[: len(one.tokens)])
        for text, begin in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
            assert one.text.startswith(text, begin)
    assert found.usage.prompt_tokens == sum(len(prompt) + 1 for prompt in prompts)
    assert found.usage.completion_tokens == sum(len(one.tokens) for one in expected)
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


@pytest.mark.parametrize("stop", [None, ["e", "to"]])
def test_streamed_completions_are_the_same(client, stop):
    wanted = {
        "model": "story",
        "prompt": [PROMPT, "a cat"],
        "n": 2,
        "logprobs": 0,
        "echo": True,
        "stop": stop,
        **SAMPLED,
    }
    whole = client.completions.create(**wanted)
    pieces = list(client.completions.create(**wanted, stream=True, stream_options={"include_usage": True}))
    assert pieces[-1].choices == []
    assert pieces[-1].usage == whole.usage
    assert {(one.id, one.model, one.object) for one in pieces} == {(pieces[0].id, "story", "text_completion")}
    for choice in whole.choices:
        mine = [one for piece in pieces for one in piece.choices if one.index == choice.index]
        assert "".join(one.text for one in mine) == choice.text
        assert [one.finish_reason for one in mine] == [None] * (len(mine) - 1) + [choice.finish_reason]
        for name in ("tokens", "token_logprobs", "text_offset"):
            assert [value for one in mine for value in getattr(one.logprobs, name)] == getattr(choice.logprobs, name)
        assert choice.text.startswith((PROMPT, "a cat"))


def test_chat_answers_by_the_template(client, folder):
    chat = dragoman.load(folder / "talk", dragoman.Generator)
    messages = [*QUESTION, {"role": "assistant", "content": "so"}, {"role": "user", "content": "sees"}]
    expected = chat.chat(messages, temperature=1.5, seed=7, max_new_tokens=19)
    found = client.chat.completions.create(model="talk", messages=messages, logprobs=True, **SAMPLED)
    [choice] = found.choices
    assert choice.message.content == expected.text
    assert choice.message.role == "assistant"
    assert "".join(one.token for one in choice.logprobs.content) == expected.text
    assert bytes(choice.logprobs.content[0].bytes).decode() == choice.logprobs.content[0].token
    parts = [{"role": "user", "content": [{"type": "text", "text": "do"}, {"type": "text", "text": "gs"}]}]
    [one], [other] = (
        client.chat.completions.create(model="talk", messages=some, **SAMPLED).choices for some in (QUESTION, parts)
    )
    assert one == other
    again = [*QUESTION, one.message, *QUESTION]
    assert client.chat.completions.create(model="talk", messages=again, **SAMPLED).choices


def test_streamed_chat_is_the_same(client):
    wanted = {"model": "talk", "messages": QUESTION, "n": 2, "logprobs": True, **SAMPLED}
    whole = client.chat.completions.create(**wanted)
    pieces = list(client.chat.completions.create(**wanted, stream=True, stream_options={"include_usage": True}))
    assert pieces[-1].usage == whole.usage
    for choice in whole.choices:
        mine = [one for piece in pieces for one in piece.choices if one.index == choice.index]
        assert mine[0].delta.role == "assistant"
        assert "".join(one.delta.content or "" for one in mine) == choice.message.content
        assert mine[-1].finish_reason == choice.finish_reason
        tokens = [token for one in mine if one.logprobs is not None for token in one.logprobs.content]
        assert tokens == choice.logprobs.content


def test_many_streams_at_once_are_those_alone(server):
    async def read(client: Any, number: int) -> str:
        stream = await client.completions.create(
            model="story", prompt=PROMPT[: 1 + number % 7], temperature=1.5, seed=number, max_tokens=40, stream=True
        )
        return "".join([piece.choices[0].text async for piece in stream])

    async def read_all() -> tuple[list[str], list[str]]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            together = await asyncio.gather(*(read(client, number) for number in range(16)))
            return together, [await read(client, number) for number in range(16)]

    together, alone = asyncio.run(read_all())
    assert together == alone
    assert len(set(alone)) > 10


def measured(server: RunningServer, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"dragoman:{name}"))


def test_client_that_leaves_ends_its_request(client, server):
    begin = measured(server, "generation_tokens_total")
    with client.completions.create(**ENDLESS, stream=True) as stream:
        next(iter(stream))
        assert measured(server, "http_requests_running") == 1
        assert measured(server, "num_requests_running") == 1
    deadline = time.monotonic() + 120
    while measured(server, "http_requests_running") or measured(server, "num_requests_running"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert measured(server, "generation_tokens_total") - begin < 20000


def test_embeddings_are_those_of_the_embedder(client, folder):
    texts = ["two dogs", "a cat sits"]
    expected = dragoman.load(folder / "vectors", dragoman.Embedder).embed(texts)
    found = client.embeddings.create(model="vectors", input=texts)
    numbers = client.embeddings.create(model="vectors", input=texts, encoding_format="float")
    single = client.embeddings.create(model="vectors", input=texts[0])
    assert [one.embedding for one in found.data] == pytest.approx(expected, abs=1e-6)
    assert [one.embedding for one in numbers.data] == [one.embedding for one in found.data]
    assert single.data[0].embedding == pytest.approx(expected[0], abs=1e-6)
    assert found.usage.prompt_tokens == 2 + 2 + 3 + 2
    with pytest.raises(openai.BadRequestError, match="have 12"):
        client.embeddings.create(model="vectors", input="two", dimensions=5)
    with pytest.raises(openai.BadRequestError, match=r"input\[1\] has 202 tokens"):
        client.embeddings.create(model="vectors", input=["a", "a " * 200])


def test_base64_is_that_of_32_bit_floats(server):
    status, found = server.post("/v1/embeddings", {"input": "two dogs", "encoding_format": "base64"})
    vector = struct.unpack("<12f", base64.b64decode(found["data"][0]["embedding"]))
    assert status == 200
    assert server.post("/v1/embeddings", {"input": "two dogs"})[1]["data"][0]["embedding"] == pytest.approx(vector)


@pytest.mark.parametrize(
    ("changed", "status", "message"),
    [
        ({"model": "gpt"}, 404, "There is no model gpt"),
        ({"model": "vectors"}, 400, "cannot generate text"),
        ({"model": "en-de"}, 400, "would translate instructions"),
        ({"n": 2, "temperature": 0}, 400, "with temperature = 0 all samples are the same"),
        ({"temperature": 3}, 400, "temperature"),
        ({"presence_penalty": 0.5}, 400, "presence_penalty: this server supports 0 only"),
        ({"presence_penalty": False}, 400, "presence_penalty: this server supports 0 only"),
        ({"logit_bias": {"3": 1}}, 400, "logit_bias"),
        ({"extra_body": {"size": 3}}, 400, "size: unknown parameter"),
        ({"max_tokens": 20001}, 400, "20,001 tokens exceed the limit"),
        ({"prompt": "a" * 64}, 400, "a prompt has 65 tokens"),
        ({"prompt": []}, 400, "prompt"),
        ({"stop": ""}, 400, "never generates it"),
        ({"stream": False, "stream_options": {"include_usage": True}}, 400, "no effect without stream"),
        ({"temperature": 0, "top_p": 0.5}, 400, "top_p has no effect"),
        ({"n": 11}, 400, "at most 10"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_say_what_is_wrong(client, changed, status, message, stream):
    with pytest.raises(openai.APIStatusError, match=message) as raised:
        client.completions.create(**{"model": "story", "prompt": "a", "stream": stream, **changed})
    assert raised.value.status_code == status
    assert raised.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "story"}, "without a chat template"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "b"}, *QUESTION]}, "no system messages"),
        ({"messages": [{"role": "user", "content": "dat"}]}, "marks a turn"),
        ({"messages": [{"role": "tool", "content": "b", "tool_call_id": "1"}]}, "messages"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 2}, "top_logprobs has no effect"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "the same limit"),
    ],
)
def test_errors_of_chats_say_what_is_wrong(client, changed, message):
    with pytest.raises(openai.BadRequestError, match=message):
        client.chat.completions.create(**{"model": "talk", "messages": QUESTION, **changed})


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[tuple[RunningServer, str]]:
    """A server that needs a key, and has little time for a request; and a key."""
    key = add_key(folder / "keys", "tests")
    limits = ("--set", "limits.max_new_tokens=20000", "--set", "limits.timeout=2")
    with running_server(folder, "story", "--api-keys", folder / "keys", *limits) as running:
        yield running, key


def test_wrong_key_is_answered_with_status_401(guarded):
    running, key = guarded
    good, bad = (openai.OpenAI(base_url=f"{running.url}/v1", api_key=one, max_retries=0) for one in (key, f"{key}x"))
    assert good.completions.create(model="story", prompt="a", max_tokens=1).choices
    for call in (bad.models.list, lambda: bad.completions.create(model="story", prompt="a", stream=True)):
        with pytest.raises(openai.AuthenticationError) as raised:
            call()
        assert raised.value.code == "invalid_api_key"


def test_slow_stream_ends_with_an_error_event(guarded):
    """The limit of time applies to the whole stream, whose beginning was sent with status 200."""
    running, key = guarded
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=0)
    with pytest.raises(openai.APIError, match="took too long"):
        list(client.completions.create(**ENDLESS, stream=True))
    assert measured(running, "http_requests_running") == 0
    assert running.get("/health") == {"status": "ok"}


def test_events_have_the_form_of_the_protocol(server):
    body = {"model": "talk", "messages": QUESTION, "stream": True, "max_tokens": 3}
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        text = response.read().decode()
    events = text.removesuffix("\n\n").split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(one.removeprefix("data: ")) for one in events[:-1]]
    assert all(one.startswith("data: ") for one in events)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert all("usage" not in one for one in chunks)


def test_prompts_may_be_token_ids(client, generator):
    ids = generator.tokenizer.source.encode(PROMPT)
    [text], [one], [many] = (
        client.completions.create(model="story", prompt=prompt, echo=True, logprobs=0, **SAMPLED).choices
        for prompt in (PROMPT, ids, [ids])
    )
    assert text == one == many
    with pytest.raises(openai.BadRequestError, match="999999 is no token"):
        client.completions.create(model="story", prompt=[999999])
    with pytest.raises(openai.BadRequestError, match="a prompt has 100 tokens"):
        client.completions.create(model="story", prompt=[5] * 100)


def test_echo_has_the_log_probabilities_of_the_prompt(client, generator):
    found = client.completions.create(model="story", prompt=[PROMPT, ""], echo=True, logprobs=0, **SAMPLED)
    first, second = (one.logprobs for one in found.choices)
    [expected] = generator.score([PROMPT])
    size = len(PROMPT)
    assert first.tokens[:size] == list(PROMPT)
    assert first.token_logprobs[:size] == pytest.approx(expected.token_log_probs[:-1], abs=1e-5)
    for one in found.choices:
        assert "".join(one.logprobs.tokens) == one.text
        assert one.logprobs.text_offset == [0, *accumulate(map(len, one.logprobs.tokens))][:-1]
    assert len(second.tokens) == len(second.token_logprobs) == len(found.choices[1].text)


def test_alternatives_are_the_most_probable_tokens(client, generator):
    wanted = {"model": "story", "prompt": PROMPT, "temperature": 0, "max_tokens": 9}
    [whole] = client.completions.create(**wanted, logprobs=3).choices
    pieces = [one.choices[0] for one in client.completions.create(**wanted, logprobs=3, stream=True)]
    assert [best for one in pieces for best in one.logprobs.top_logprobs] == whole.logprobs.top_logprobs
    letters = generator.tokenizer.target.tokens[4:]
    text = PROMPT
    for token, log_prob, best in zip(
        whole.logprobs.tokens, whole.logprobs.token_logprobs, whole.logprobs.top_logprobs, strict=True
    ):
        assert max(best.values()) == best[token] == log_prob
        assert 1 <= len(best) <= 3  # tokens of single bytes have the same text
        for other in set(best) & set(letters):
            [scored] = generator.score([text + other])
            assert best[other] == pytest.approx(scored.token_log_probs[-2], abs=1e-4)
        text += token
    chat = {"model": "talk", "messages": QUESTION, "logprobs": True, "top_logprobs": 2, **SAMPLED}
    [choice] = client.chat.completions.create(**chat).choices
    for one in choice.logprobs.content:
        assert len(one.top_logprobs) == 2
        assert one.top_logprobs[0].logprob >= one.top_logprobs[1].logprob
        assert one.top_logprobs[0].logprob >= one.logprob


def test_echo_has_the_most_probable_tokens_of_the_prompt(client, generator):
    """A prompt that the model has written itself has the most probable token at every place."""
    wanted = {"model": "story", "temperature": 0, "max_tokens": 9}
    text = client.completions.create(**wanted, prompt=PROMPT).choices[0].text
    whole = client.completions.create(**wanted, prompt=[PROMPT + text, "a"], echo=True, logprobs=2).choices[0]
    greedy = client.completions.create(**wanted, prompt=PROMPT, logprobs=2).choices[0]
    found = whole.logprobs.top_logprobs
    assert len(found) == len(whole.logprobs.tokens)
    for best, expected in zip(found[len(PROMPT) :], greedy.logprobs.top_logprobs, strict=False):
        assert list(best) == list(expected)
        assert list(best.values()) == pytest.approx(list(expected.values()), abs=1e-4)
    for token, log_prob, best in zip(whole.logprobs.tokens, whole.logprobs.token_logprobs, found, strict=True):
        assert best[token] == pytest.approx(log_prob, abs=1e-4)
        assert max(best.values()) >= log_prob - 1e-4
