"""Our beam search over a random Marian model finds the hypotheses of Hugging Face's own beam search."""

from dataclasses import dataclass
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel
from transformers.modeling_outputs import BaseModelOutput

from dragoman.decoding import DecodingConfig
from tests.fake_models import SYMBOLS, rectangle
from tests.tensor_search import search

VOCABULARY, LIMIT = 43, 60
SEEDS = [107, 152, 153, 188, 232]
"""Random models that end every output of their own accord; many others repeat a symbol for ever."""
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3], [19, 23, 37, 5, 7, 11, 13, 3], [41, 41, 3]]


@dataclass(frozen=True)
class Encoded:
    """Encoder states of each source."""

    states: Tensor
    lengths: Tensor

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.states[rows], self.lengths[rows])

    def concat(self, other: Self) -> Self:
        raise NotImplementedError

    def mask(self, beam: int) -> Tensor:
        within = torch.arange(self.states.shape[1]) < self.lengths[:, None]
        return within.repeat_interleave(beam, dim=0)


@dataclass(frozen=True)
class Decoded:
    """Prefix of each hypothesis; the model decodes it again at every step."""

    prefixes: Tensor

    def reorder(self, parents: Tensor) -> Self:
        return type(self)(self.prefixes.gather(1, parents[..., None].expand(-1, -1, self.prefixes.shape[2])))

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.prefixes[rows])

    def concat(self, other: Self) -> Self:
        raise NotImplementedError


@dataclass(frozen=True)
class MarianStepper:
    """Adapter from Hugging Face's model to the protocol of our search."""

    model: MarianMTModel

    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        return Encoded(self.model.get_encoder()(source, attention_mask=mask).last_hidden_state, lengths)

    def start(self, memory: Encoded, *, beam_size: int) -> Decoded:
        return Decoded(torch.empty(len(memory.lengths), beam_size, 0, dtype=torch.long))

    def step(self, tokens: Tensor, memory: Encoded, state: Decoded) -> tuple[Tensor, Decoded]:
        prefixes = torch.cat([state.prefixes, tokens[..., None]], dim=2)
        batch, beam, _ = prefixes.shape
        answer = self.model(
            encoder_outputs=BaseModelOutput(memory.states.repeat_interleave(beam, dim=0)),
            attention_mask=memory.mask(beam),
            decoder_input_ids=prefixes.flatten(0, 1),
            use_cache=False,
        )
        return answer.logits[:, -1].view(batch, beam, -1), Decoded(prefixes)


@pytest.fixture(scope="module", params=SEEDS)
def model(request: pytest.FixtureRequest) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=12,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=19,
        decoder_ffn_dim=19,
        max_position_embeddings=LIMIT + 2,
        init_std=0.3,
        pad_token_id=SYMBOLS.pad,
        eos_token_id=SYMBOLS.eos,
        decoder_start_token_id=SYMBOLS.bos,
        forced_eos_token_id=None,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(request.param)
        built = MarianMTModel(config).eval()
    built.final_logits_bias[0, SYMBOLS.eos] = 1.0
    return built


def hugging_face_search(
    model: MarianMTModel, source: Tensor, lengths: Tensor, **options: Any
) -> list[list[tuple[Any, float]]]:
    """Run the model's own search: it stops when `num_beams` hypotheses have finished, and never generates PAD or
    BOS."""
    asked = GenerationConfig(
        max_new_tokens=LIMIT,
        early_stopping=True,
        bad_words_ids=[[SYMBOLS.pad], [SYMBOLS.bos]],
        pad_token_id=SYMBOLS.pad,
        eos_token_id=SYMBOLS.eos,
        decoder_start_token_id=SYMBOLS.bos,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    mask = (torch.arange(source.shape[1]) < lengths[:, None]).long()
    answer = model.generate(source, attention_mask=mask, generation_config=asked)
    outputs = [tuple(row[1 : row.index(SYMBOLS.eos)]) for row in answer.sequences.tolist()]
    rows = list(zip(outputs, answer.sequences_scores.tolist(), strict=True))
    best = options["num_return_sequences"]
    return [rows[start : start + best] for start in range(0, len(rows), best)]


@pytest.mark.parametrize(("beam", "best", "alpha"), [(2, 1, 1.0), (5, 5, 1.0), (7, 3, 0.6), (3, 3, 0.0), (5, 2, 2.0)])
def test_hypotheses_and_scores_equal_hugging_face(model: MarianMTModel, beam: int, best: int, alpha: float) -> None:
    source, lengths = rectangle(SOURCES)
    stepper = MarianStepper(model)
    wanted = DecodingConfig(
        beam_size=beam,
        n_best=best,
        length_penalty=alpha,
        max_length=LIMIT,
        early_stopping=True,
        keep_greedy=False,
    )
    with torch.inference_mode():
        memory = stepper.encode(source, lengths)
    limits = torch.full_like(lengths, LIMIT - 1)
    found = search(stepper, memory, limits=limits, config=wanted)
    assert all(one.finished for row in found for one in row)
    expected = hugging_face_search(
        model, source, lengths, num_beams=beam, num_return_sequences=best, length_penalty=alpha, num_beam_groups=1
    )
    assert [[one.tokens for one in row] for row in found] == [[tokens for tokens, _ in row] for row in expected]
    for mine, other in zip(found, expected, strict=True):
        assert [one.score for one in mine] == pytest.approx([score for _, score in other], abs=1e-4)
    assert max(one.length for row in found for one in row) > 11
