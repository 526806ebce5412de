"""A model with tree positions learns what depends only on the dependency tree; a model without them does not."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.token_budget_batches import batches_in_order, pair_stream
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.datasets.source_token_features import FeatureStore, StoredFeatures
from dragoman.data.preprocessing.tokenize_corpus import tokenize_texts
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.decoding import DecodingConfig
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig, SinusoidalConfig, TreeConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.factory import build_encoder_decoder
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import AdamConfig, build_optimizer
from dragoman.training.schedules import CosineSchedule
from dragoman.training.trainer import TrainingState, Validator, train
from tests.tensor_search import search
from tests.tiny_training import CPU
from tests.trees import Heads, depth, random_tree

pytestmark = pytest.mark.slow

WORDS = [*"abcdefghijklmnop"]
LENGTHS = range(3, 8)
TRAINING = TrainingConfig(
    max_steps=500,
    validate_every=500,
    batch_tokens=800,
    optimizer=AdamConfig(learning_rate=0.003),
    schedule=CosineSchedule(warmup=50),
    label_smoothing=0.0,
)
Task = Callable[[list[str], Heads], list[str]]


def heads_of(words: list[str], tree: Heads) -> list[str]:
    """Return the head of each word, and the symbol o for the root."""
    return [words[head - 1] if head else "o" for head in tree]


def depths_of(words: list[str], tree: Heads) -> list[str]:
    """Return a symbol of the depth of each word."""
    return [WORDS[depth(tree, word)] for word in range(1, len(words) + 1)]


@pytest.mark.parametrize(
    ("task", "positions", "least", "most"),
    [
        (heads_of, TreeConfig(absolute=False), 0.9, 1.0),
        (depths_of, TreeConfig(relative=False), 0.9, 1.0),
        (heads_of, SinusoidalConfig(), 0.0, 0.1),
        (depths_of, SinusoidalConfig(), 0.0, 0.3),
    ],
    ids=["heads by relations", "depths by depths", "heads without", "depths without"],
)
def test_only_tree_positions_learn_tree_tasks(tmp_path, task, positions, least, most):
    """The score is the exact-match rate on unseen sentences; a model without trees can only guess."""
    corpus = Corpus(tmp_path, task)
    network = corpus.train_model(positions)
    assert least <= corpus.exact(network) <= most


class Corpus:
    """Random sentences with random trees, for training and for testing."""

    def __init__(self, folder: Path, task: Task) -> None:
        generator = random.Random(1)
        self.folder = folder
        self.seen = [self._draw(generator, task) for _ in range(12_000)]
        self.unseen = [self._draw(generator, task) for _ in range(300)]
        texts = [text for text, _, _ in self.seen]
        self.tokenizer = Tokenizer.train_on_texts(lambda: texts, BpeConfig(vocab_size=50, byte_fallback=False))

    def _draw(self, generator: random.Random, task: Task) -> tuple[str, str, Heads]:
        words = generator.choices(WORDS, k=generator.choice(LENGTHS))
        tree = random_tree(generator, len(words))
        return " ".join(words), " ".join(task(words, tree)), tree

    def stores(self, name: str) -> tuple[TokenStore, StoredFeatures]:
        examples = self.seen if name == "seen" else self.unseen
        numbered = enumerate(examples, start=1)
        pairs = (Example(source, target, line) for line, (source, target, _) in numbered)
        texts = TextStore.build(self.folder / name / "texts", pairs)
        trees = FeatureStore.build(self.folder / name / "trees", (tree for _, _, tree in examples))
        store = tokenize_texts(texts, self.tokenizer, self.folder / name, max_source_length=99, max_target_length=99)
        return store, StoredFeatures(trees, texts, self.tokenizer.source)

    def train_model(self, positions) -> EncoderDecoderTransformer:
        network = self._network(positions)
        store, trees = self.stores("seen")
        run = TrainingState(
            model=network,
            optimizer=build_optimizer(TRAINING.optimizer, network),
            stream=pair_stream(
                store,
                budget=TRAINING.batch_tokens,
                seed=1,
                source_features=trees if network.needs_source_features else None,
            ),
            checkpoints=CheckpointStore(self.folder / "checkpoints", keep=1),
            progress=Progress(),
        )
        judge = Validator(lambda _: {"none": 0.0}, metric="none", higher_is_better=True)
        train(
            run, TRAINING, loss_function=cross_entropy_loss(0.0), validator=judge, callback=lambda _: None, device=CPU
        )
        return network

    def exact(self, network: EncoderDecoderTransformer) -> float:
        """Return the share of unseen sentences whose target greedy search finds."""
        network.eval()
        store, trees = self.stores("unseen")
        right = 0
        for batch in batches_in_order(
            store, budget=4096, source_features=trees if network.needs_source_features else None
        ):
            with torch.inference_mode():
                memory = network.encode(batch.source, batch.source_lengths, batch.source_features)
                limits = torch.full((len(batch),), 20)
                found = search(network, memory, limits=limits, config=DecodingConfig(beam_size=1))
            for row, hypotheses in zip(batch.rows, found, strict=True):
                right += list(hypotheses[0].tokens) == store.pair(int(row))[1].tolist()
        return right / len(store)

    def _network(self, positions) -> EncoderDecoderTransformer:
        config = EncoderDecoderConfig(
            d_model=64,
            num_heads=4,
            encoder_layers=1,
            decoder_layers=1,
            d_ff=128,
            positions=positions,
            dropout=DropoutConfig(embedding=0.0, residual=0.0),
        )
        with torch.random.fork_rng():
            torch.manual_seed(1)
            vocabulary = len(self.tokenizer.source)
            return build_encoder_decoder(config, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
