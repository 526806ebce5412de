"""A small decoder-only model learns associative recall: after keys with values, it predicts the value of a key.

A text is `key value key value …`, then the same keys in another order, each followed by its value. The next key is
unpredictable; its value can be predicted by attending to the earlier pair (Olsson et al., 2022, on induction heads).
"""

import random
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.example_batches import prompt_stream, prompts_in_order
from dragoman.data.datasets.parallel import TokenStore
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, RotaryConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.factory import build_decoder_only
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.losses import causal_lm_loss
from dragoman.training.optimizers import AdamConfig, build_optimizer
from dragoman.training.schedules import CosineSchedule
from dragoman.training.trainer import TrainingState, Validator, train
from tests.tiny_training import CPU

pytestmark = pytest.mark.slow

KEYS, VALUES = range(4, 16), range(16, 28)
PAIRS = range(3, 7)
MODEL = DecoderOnlyConfig(
    d_model=64,
    num_heads=4,
    num_layers=2,
    d_ff=128,
    positions=RotaryConfig(),
    dropout=DropoutConfig(embedding=0.0, residual=0.0),
)
TRAINING = TrainingConfig(
    max_steps=600,
    validate_every=600,
    batch_tokens=1600,
    optimizer=AdamConfig(learning_rate=0.003),
    schedule=CosineSchedule(warmup=100),
)
Pair = tuple[list[int], list[int]]


def draw(generator: random.Random) -> Pair:
    """Return keys with their values, and the same pairs again in another order."""
    shown = [(key, generator.choice(VALUES)) for key in generator.sample(KEYS, generator.choice(PAIRS))]
    asked = generator.sample(shown, len(shown))
    return [token for pair in shown for token in pair], [token for pair in asked for token in pair]


def test_99_of_100_values_are_recalled(tmp_path):
    generator = random.Random(1)
    seen = [draw(generator) for _ in range(20_000)]
    shown = {tuple(source) for source, _ in seen}
    unseen = [pair for pair in (draw(generator) for _ in range(600)) if tuple(pair[0]) not in shown]
    network = train_on(tmp_path, seen)
    assert recall_rate(network, TokenStore.build(tmp_path / "unseen", unseen)) >= 0.99


def train_on(folder: Path, pairs: list[Pair]) -> DecoderOnlyTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(TRAINING.seed)
        network = build_decoder_only(MODEL, vocabulary=VALUES.stop)
    store = TokenStore.build(folder / "seen", pairs)
    run = TrainingState(
        model=network,
        optimizer=build_optimizer(TRAINING.optimizer, network),
        stream=prompt_stream(store, budget=TRAINING.batch_tokens, seed=TRAINING.seed),
        checkpoints=CheckpointStore(folder / "checkpoints", keep=1),
        progress=Progress(),
    )
    judge = Validator(lambda _: {"none": 0.0}, metric="none", higher_is_better=True)
    train(run, TRAINING, loss_function=causal_lm_loss(), validator=judge, callback=lambda _: None, device=CPU)
    return network


@torch.inference_mode()
def recall_rate(network: DecoderOnlyTransformer, store: TokenStore) -> float:
    """Return the share of values to which the model gives the highest probability."""
    network.eval()
    right = asked = 0
    for batch in prompts_in_order(store, budget=4096):
        values = batch.loss_mask & (batch.labels >= VALUES.start)
        found = network(batch.tokens).argmax(dim=-1)
        right += int((found == batch.labels)[values].sum())
        asked += int(values.sum())
    return right / asked
