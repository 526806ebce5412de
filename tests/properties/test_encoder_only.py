"""Properties of every encoder-only model: padding and other sentences of the batch have no effect."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.models.config import EncoderOnlyConfig
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.nn.sparse.bigbird import BigBirdConfig
from tests.attention_variants import POSITIONS, self_attentions
from tests.fake_models import rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_encoder

VOCABULARY = 17
CLOSE = {"atol": 1e-8, "rtol": 1e-8}
seeds = st.integers(0, 2**32)
texts = st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=41), min_size=1, max_size=3)
Texts = list[list[int]]
PATTERNS = ("full", "sliding_window", "bigbird", "linformer")


@st.composite
def configs(draw: st.DrawFn) -> EncoderOnlyConfig:
    kind = draw(st.sampled_from(list(POSITIONS)))
    heads, key_value_heads = draw(st.sampled_from([(1, None), (3, None), (3, 1), (6, 2)]))
    attention = draw(self_attentions(kind, masked=False, patterns=PATTERNS))
    if attention.pattern.kind == "bigbird":  # blocks so small that some are left out
        attention = attention.model_copy(
            update={"pattern": BigBirdConfig(block_size=3, num_random_blocks=draw(st.integers(0, 2)))}
        )
    sizes = [2, 6] if kind == "rotary" else [2, 3, 5]
    return EncoderOnlyConfig(
        d_model=heads * draw(st.sampled_from(sizes[1:] if heads == 1 else sizes)),
        num_heads=heads,
        num_kv_heads=key_value_heads,
        d_ff=11,
        num_layers=draw(st.integers(1, 2)),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        num_segments=draw(st.integers(1, 2)),
        mlm_transform=draw(st.booleans()),
        positions=draw(st.sampled_from(POSITIONS[kind])),
        attention=attention,
        dropout=NO_DROPOUT,
    )


Recipe = tuple[EncoderOnlyConfig, int]
recipes = st.tuples(configs(), seeds)


def network(recipe: Recipe) -> EncoderOnlyTransformer:
    config, seed = recipe
    return random_encoder(config, vocabulary=VOCABULARY, seed=seed).double()


@examples(40)
@given(recipes, texts)
@torch.no_grad()
def test_batch_equals_alone(recipe: Recipe, texts: Texts) -> None:
    model = network(recipe)
    together = model(*rectangle(texts))
    for row, text in enumerate(texts):
        torch.testing.assert_close(together[row, : len(text)], model(*rectangle([text]))[0], **CLOSE)


@examples(40)
@given(recipes, texts, seeds)
@torch.no_grad()
def test_padding_ids_change_nothing(recipe: Recipe, texts: Texts, seed: int) -> None:
    model = network(recipe)
    tokens, lengths = rectangle(texts)
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    noise = torch.randint(0, VOCABULARY, tokens.shape, generator=torch.Generator().manual_seed(seed))
    scribbled = model(tokens.where(real, noise), lengths)
    assert torch.equal(scribbled[real], model(tokens, lengths)[real])


@examples(40)
@given(recipes, texts)
@torch.no_grad()
def test_every_token_affects_its_own_state(recipe: Recipe, texts: Texts) -> None:
    config, seed = recipe
    model = network((config.model_copy(update={"activation": "gelu"}), seed))  # of a few units ReLU may let none live
    tokens, lengths = rectangle(texts)
    other = (tokens[:, :1] - 3) % (VOCABULARY - 4) + 4
    changed = torch.cat([other, tokens[:, 1:]], dim=1)
    assert (model(changed, lengths)[:, 0] != model(tokens, lengths)[:, 0]).any(dim=-1).all()
