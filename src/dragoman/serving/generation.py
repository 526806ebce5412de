"""Generation of text for the prompts of a request: whole completions, or their pieces."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import final

from dragoman.inference.completion_result import Completion
from dragoman.inference.completion_stream import CompletionPiece
from dragoman.inference.generator import GenerationOptions, Generator
from dragoman.inference.prompts import encode_prompt
from dragoman.serving.admission import Client
from dragoman.serving.errors import invalid
from dragoman.serving.server import Server


@final
@dataclass(frozen=True)
class GenerationTask:
    """Samples of some prompts, for a client; admission lasts until the last token."""

    server: Server
    client: Client
    model_name: str
    generator: Generator
    prompts: Sequence[str]
    num_samples: int
    options: GenerationOptions
    parameters: tuple[str, str] = ("prompt", "max_tokens")
    """Names that the interface has for the prompts and for the length limit."""

    async def run(self) -> list[Completion]:
        """Return the completions, those of a prompt one after the other. Raises RequestError above a limit."""
        with self.server.work(self.client, self.prompts, self.num_samples) as answer_with:
            await self._check_limits()
            found = await self.generator.generate_n_best_async(
                self.prompts, num_samples=self.num_samples, **self.options
            )
            completions = [one for row in found for one in row]
            answer_with(self.model_name, (one.text for one in completions))
            return completions

    async def stream(self) -> AsyncGenerator[CompletionPiece, None]:
        """Yield the completions in pieces. Raises RequestError above a limit, before the first piece."""
        with self.server.work(self.client, self.prompts, self.num_samples) as answer_with:
            await self._check_limits()
            texts: list[str] = []
            stream = self.generator.stream_pieces_async(self.prompts, num_samples=self.num_samples, **self.options)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    texts.append(piece.text)
                    yield piece
            answer_with(self.model_name, texts)

    async def _check_limits(self) -> None:
        """Raise RequestError if a completion is too long for the server, or a prompt for the model."""
        most, wanted = self.server.config.limits.max_new_tokens, self.options.get("max_new_tokens") or 0
        if wanted > most:
            raise invalid(f"Invalid request: {wanted:,} tokens exceed the limit ({most:,})", self.parameters[1])
        longest = await asyncio.to_thread(self._longest_prompt)
        if longest > self.generator.context:
            raise invalid(
                f"Invalid request: a prompt has {longest:,} tokens, and the model reads {self.generator.context:,} at "
                "most. Shorten it.",
                self.parameters[0],
            )

    def _longest_prompt(self) -> int:
        """Return the tokens of the longest prompt."""
        tokenizer, pairs = self.generator.tokenizer, self.generator.pairs
        return max(len(encode_prompt(tokenizer, one, pairs=pairs).ids) for one in self.prompts)
