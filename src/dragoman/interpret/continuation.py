"""A prompt and what a decoder goes on with, looked at as one text: where places look, and what they might have said."""

from typing import Any

import torch
from torch import Tensor

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.interpret.explanation import Study, completed, steps_of
from dragoman.interpret.forward_pass import Ids, Pass, module_of, of_one_text, without_dropout
from dragoman.interpret.model_calls import Asked, masked, repeated
from dragoman.models.protocols import DecoderOnly
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Float


def study_continuation(
    model: DecoderOnly[Any, Any],
    side: LanguageTokenizer,
    prompt: Ids,
    output: Ids,
    *,
    prompt_text: str | None = None,
    ended: bool = True,
    symbols: SpecialSymbols | None = None,
) -> Study:
    """Look at an output, given without its end, after a prompt with the begin symbol wherever it stands.

    An output that is not `ended` was cut off, so that no end symbol is asked about.
    """
    symbols = symbols or SpecialSymbols()
    asked = of_continuation(model, prompt, output, ended=ended, symbols=symbols)
    wanted = tuple(asked.wanted.tolist())
    read = [*prompt, *wanted[:-1]]
    with torch.no_grad(), without_dropout(asked.network):
        log_probs = asked.of_all_classes().cpu()
        tokens = repeated(read, 1, asked.wanted.device)
        passed: Pass = of_one_text(
            asked.network, lambda: model.hidden(tokens), source=tuple(prompt), target=wanted, log_probs=log_probs
        )
    names = tuple(side.ids_to_tokens(read))
    target = tuple(side.ids_to_tokens(wanted))
    begun = Study(
        task="continuation",
        source_text=side.decode([*prompt]) if prompt_text is None else prompt_text,
        target_text=side.decode([*output]),
        source=names[: len(prompt)],
        target=target,
        read=names,
        places=tuple(range(len(prompt) - 1, len(read))),
        passed=passed,
        steps=steps_of(log_probs, wanted, side.ids_to_tokens),
    )
    return completed(begun, asked, columns=names, rows=target)


def of_continuation(
    model: DecoderOnly[Any, Any], prompt: Ids, output: Ids, *, ended: bool, symbols: SpecialSymbols
) -> Asked:
    """The tokens of a continuation, its end symbol the last where it has one. Its tokens are all that is read."""
    module: Any = module_of(model)
    device = next(module.parameters()).device
    wanted = [*output, symbols.eos] if ended else [*output]
    read = [*prompt, *wanted[:-1]]

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows steps size"]:
        ids = masked(read, symbols) if unknown else read
        return model.hidden(repeated(ids, rows, device))[:, len(prompt) - 1 :]

    return Asked(module, (module.embedding,), torch.tensor(wanted, device=device), states, model.unembed)
