"""A small Transformer learns to copy, reverse and sort unseen sequences of symbols within a minute."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.token_budget_batches import batches_in_order, pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.decoding import DecodingConfig
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import AdamConfig, build_optimizer
from dragoman.training.schedules import CosineSchedule
from dragoman.training.trainer import TrainingState, Validator, train
from tests.tensor_search import search
from tests.tiny_training import CPU, build_network

pytestmark = pytest.mark.slow

SYMBOLS = range(4, 24)
LENGTHS = range(3, 11)
MODEL = EncoderDecoderConfig(
    d_model=64,
    num_heads=4,
    encoder_layers=1,
    decoder_layers=1,
    d_ff=128,
    dropout=DropoutConfig(embedding=0.0, residual=0.0),
)
TRAINING = TrainingConfig(
    batch_tokens=800,
    optimizer=AdamConfig(learning_rate=0.003),
    schedule=CosineSchedule(warmup=100),
    label_smoothing=0.0,
)

Sequence_ = tuple[int, ...]
TASKS: dict[str, Callable[[Sequence_], Sequence[int]]] = {
    "copy": lambda source: source,
    "reverse": lambda source: source[::-1],
    "sort": sorted,
}


@pytest.mark.parametrize(
    ("task", "decoder_layer", "steps"),
    [
        ("copy", "self_attention", 500),
        ("reverse", "self_attention", 1000),
        ("sort", "self_attention", 700),
        ("sort", "ssru", 700),
    ],
)
def test_99_of_100_unseen_sequences_are_exact(tmp_path, task, decoder_layer, steps):
    generator = random.Random(1)
    seen = draw(generator, 20_000, without=set())
    unseen = draw(generator, 500, without=set(seen))
    model = MODEL.model_copy(update={"decoder_layer": decoder_layer})
    training = TRAINING.model_copy(update={"max_steps": steps, "validate_every": steps})
    network = train_on(tmp_path, [(source, TASKS[task](source)) for source in seen], model, training)
    store = TokenStore.build(tmp_path / "unseen", [(source, TASKS[task](source)) for source in unseen])
    assert exact_match_rate(network, store) >= 0.99


def draw(generator: random.Random, count: int, *, without: set[Sequence_]) -> list[Sequence_]:
    """Return random sequences, none of them in `without`."""
    drawn = []
    while len(drawn) < count:
        sequence = tuple(generator.choices(SYMBOLS, k=generator.choice(LENGTHS)))
        if sequence not in without:
            drawn.append(sequence)
    return drawn


def train_on(
    folder: Path,
    pairs: list[tuple[Sequence_, Sequence[int]]],
    model: EncoderDecoderConfig,
    training: TrainingConfig,
) -> EncoderDecoderTransformer:
    network = build_network(model, seed=training.seed, vocabulary=SYMBOLS.stop)
    run = TrainingState(
        model=network,
        optimizer=build_optimizer(training.optimizer, network),
        stream=pair_stream(TokenStore.build(folder / "seen", pairs), budget=training.batch_tokens, seed=training.seed),
        checkpoints=CheckpointStore(folder / "checkpoints", keep=1),
        progress=Progress(),
    )
    judge = Validator(lambda _: {"none": 0.0}, metric="none", higher_is_better=True)
    train(run, training, loss_function=cross_entropy_loss(0.0), validator=judge, callback=lambda _: None, device=CPU)
    return network


def exact_match_rate(network: EncoderDecoderTransformer, store: TokenStore) -> float:
    """Return the share of a dataset's targets that greedy search finds."""
    network.eval()
    right = 0
    for batch in batches_in_order(store, budget=4096):
        with torch.inference_mode():
            memory = network.encode(batch.source, batch.source_lengths)
            limits = torch.full((len(batch),), LENGTHS.stop)
            found = search(network, memory, limits=limits, config=DecodingConfig(beam_size=1))
        for row, hypotheses in zip(batch.rows, found, strict=True):
            right += list(hypotheses[0].tokens) == store.pair(int(row))[1].tolist()
    return right / len(store)
