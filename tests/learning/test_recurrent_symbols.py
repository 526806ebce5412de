"""A small LSTM with attention learns to copy, reverse and sort unseen sequences within a minute."""

import random
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.token_budget_batches import pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.models.recurrent.config import RecurrentConfig, RecurrentDropoutConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import AdamConfig, build_optimizer
from dragoman.training.schedules import CosineSchedule
from dragoman.training.trainer import TrainingState, Validator, train
from tests.learning.test_transformer_symbols import SYMBOLS, TASKS, Sequence_, draw, exact_match_rate
from tests.tiny_training import CPU

pytestmark = pytest.mark.slow

MODEL = RecurrentConfig(d_model=64, dropout=RecurrentDropoutConfig(embedding=0.0, output=0.0))
TRAINING = TrainingConfig(
    max_steps=500,
    validate_every=500,
    batch_tokens=800,
    optimizer=AdamConfig(learning_rate=0.005),
    schedule=CosineSchedule(warmup=100),
    label_smoothing=0.0,
)


@pytest.mark.parametrize("task", TASKS)
def test_99_of_100_unseen_sequences_are_exact(tmp_path, task):
    generator = random.Random(1)
    seen = draw(generator, 20_000, without=set())
    unseen = draw(generator, 500, without=set(seen))
    network = train_on(tmp_path, [(source, TASKS[task](source)) for source in seen])
    store = TokenStore.build(tmp_path / "unseen", [(source, TASKS[task](source)) for source in unseen])
    assert exact_match_rate(network, store) >= 0.99


def train_on(folder: Path, pairs: list[tuple[Sequence_, Sequence_]]) -> RecurrentEncoderDecoder:
    with torch.random.fork_rng():
        torch.manual_seed(TRAINING.seed)
        network = build_recurrent_model(MODEL, source_vocabulary=SYMBOLS.stop, target_vocabulary=SYMBOLS.stop)
    run = TrainingState(
        model=network,
        optimizer=build_optimizer(TRAINING.optimizer, network),
        stream=pair_stream(TokenStore.build(folder / "seen", pairs), budget=TRAINING.batch_tokens, seed=TRAINING.seed),
        checkpoints=CheckpointStore(folder / "checkpoints", keep=1),
        progress=Progress(),
    )
    judge = Validator(lambda _: {"none": 0.0}, metric="none", higher_is_better=True)
    train(run, TRAINING, loss_function=cross_entropy_loss(0.0), validator=judge, callback=lambda _: None, device=CPU)
    return network
