"""A small server over CTranslate2, as its users write it: FastAPI, and a queue that collects requests into batches.

    python ctranslate2_server.py FOLDER --port 8000

FOLDER is an export of `dragoman export --format ctranslate2`. Answers the requests of LibreTranslate's `/translate`.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

MAX_BATCH = 64
"""Requests that are translated together."""


class Asked(BaseModel):
    """Text to translate; the model has one language pair."""

    q: str
    source: str
    target: str


class Batcher:
    """Translates all requests that arrive while a batch is computed as the next batch."""

    def __init__(self, folder: Path, *, threads: int, beam_size: int) -> None:
        self._tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
        self._model = ctranslate2.Translator(str(folder), compute_type="int8", intra_threads=threads)
        self._beam_size = beam_size
        self._queue: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()

    async def translate(self, text: str) -> str:
        result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await self._queue.put((text, result))
        return await result

    async def run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            found = await asyncio.to_thread(self._translate_batch, [text for text, _ in batch])
            for (_, result), text in zip(batch, found, strict=True):
                if not result.done():
                    result.set_result(text)

    def _translate_batch(self, texts: list[str]) -> list[str]:
        tokens = self._tokenizer.encode(texts, out_type=str)
        found = self._model.translate_batch(tokens, beam_size=self._beam_size)
        return [self._tokenizer.decode(one.hypotheses[0]) for one in found]


def build_app(batcher: Batcher) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def translate(asked: Asked) -> dict[str, str]:
        return {"translatedText": await batcher.translate(asked.q)}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam-size", type=int, default=5)
    arguments = parser.parse_args()
    batcher = Batcher(arguments.folder, threads=arguments.threads, beam_size=arguments.beam_size)
    uvicorn.run(build_app(batcher), port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
