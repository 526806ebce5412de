"""A small LSTM with attention learns to copy, reverse and sort sequences that it never saw, within a minute."""

import random
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.token_batches import pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.models.recurrent.config import RecurrentConfig, RecurrentDropoutConfig
from dragoman.models.recurrent.encoder_decoder import Seq2SeqRecurrent
from dragoman.models.recurrent.factory import build_recurrent
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.config import TrainingConfig, Updates
from dragoman.training.optimizers import Adam, build_optimiser
from dragoman.training.schedules import Cosine
from dragoman.training.step import teacher_forced
from dragoman.training.trainer import Judge, Run, train
from tests.learners import CPU
from tests.learning.test_symbols import SYMBOLS, TASKS, Sequence_, draw, exact

MODEL = RecurrentConfig(size=64, dropout=RecurrentDropoutConfig(embedding=0.0, output=0.0))
TRAINING = TrainingConfig(
    length=Updates(count=800),
    interval=Updates(count=800),
    batch_tokens=800,
    optimiser=Adam(learning_rate=0.005),
    schedule=Cosine(warmup=100),
    label_smoothing=0.0,
)


@pytest.fixture(autouse=True)
def one_thread():
    """More would wait for each other in a network so small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_99_of_100_unseen_sequences_are_exact(tmp_path, task):
    generator = random.Random(1)
    seen = draw(generator, 20_000, without=set())
    unseen = draw(generator, 500, without=set(seen))
    network = train_on(tmp_path, [(source, TASKS[task](source)) for source in seen])
    store = TokenStore.build(tmp_path / "unseen", [(source, TASKS[task](source)) for source in unseen])
    assert exact(network, store) >= 0.99


def train_on(folder: Path, pairs: list[tuple[Sequence_, Sequence_]]) -> Seq2SeqRecurrent:
    with torch.random.fork_rng():
        torch.manual_seed(TRAINING.seed)
        network = build_recurrent(MODEL, source_vocabulary=SYMBOLS.stop, target_vocabulary=SYMBOLS.stop)
    run = Run(
        model=network,
        optimiser=build_optimiser(TRAINING.optimiser, network),
        stream=pair_stream(TokenStore.build(folder / "seen", pairs), budget=TRAINING.batch_tokens, seed=TRAINING.seed),
        checkpoints=Checkpoints(folder / "checkpoints", keep=1),
        progress=Progress(),
    )
    judge = Judge(lambda _: {"none": 0.0}, deciding="none", higher_is_better=True)
    train(run, TRAINING, objective=teacher_forced(0.0), judge=judge, observe=lambda _: None, device=CPU)
    return network
