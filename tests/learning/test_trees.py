"""What can only be known from the tree of a sentence is learnt with structural positions, and not without."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dragoman.data.batching.token_batches import batches_in_order, pair_stream
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.datasets.trees import SourceTrees, TreeStore
from dragoman.data.preprocessing.tokenize import segment
from dragoman.data.readers import Example
from dragoman.data.tokenizers import Bpe, Tokenizer
from dragoman.decoding import SearchSettings
from dragoman.models.config import DropoutConfig, SinusoidalConfig, StructuralConfig, TransformerConfig
from dragoman.models.encoder_decoder import Seq2SeqTransformer
from dragoman.models.factory import build_seq2seq
from dragoman.models.special_symbols import Symbols
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.config import TrainingConfig, Updates
from dragoman.training.optimizers import Adam, build_optimiser
from dragoman.training.schedules import Cosine
from dragoman.training.step import teacher_forced
from dragoman.training.trainer import Judge, Run, train
from tests.learners import CPU
from tests.searching import search
from tests.trees import Heads, depth, random_tree

WORDS = [*"abcdefghijklmnop"]
LENGTHS = range(3, 8)
TRAINING = TrainingConfig(
    length=Updates(count=500),
    interval=Updates(count=500),
    batch_tokens=800,
    optimiser=Adam(learning_rate=0.003),
    schedule=Cosine(warmup=50),
    label_smoothing=0.0,
)
Task = Callable[[list[str], Heads], list[str]]


def heads_of(words: list[str], tree: Heads) -> list[str]:
    """For each word the one that it hangs on, and for the root the sign o."""
    return [words[head - 1] if head else "o" for head in tree]


def depths_of(words: list[str], tree: Heads) -> list[str]:
    """For each word a sign of its depth."""
    return [WORDS[depth(tree, word)] for word in range(1, len(words) + 1)]


@pytest.fixture(autouse=True)
def one_thread():
    """More would wait for each other in a network so small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "positions", "least", "most"),
    [
        (heads_of, StructuralConfig(absolute=False), 0.9, 1.0),
        (depths_of, StructuralConfig(relative=False), 0.9, 1.0),
        (heads_of, SinusoidalConfig(), 0.0, 0.1),
        (depths_of, SinusoidalConfig(), 0.0, 0.3),
    ],
    ids=["heads by relations", "depths by depths", "heads without", "depths without"],
)
def test_trees_are_read_where_they_are_told(tmp_path, task, positions, least, most):
    """The share of unseen sentences that are answered without a fault; without trees one can but guess."""
    corpus = Corpus(tmp_path, task)
    network = corpus.learnt(positions)
    assert least <= corpus.exact(network) <= most


class Corpus:
    """Random sentences with random trees, to learn from and unseen."""

    def __init__(self, folder: Path, task: Task) -> None:
        generator = random.Random(1)
        self.folder = folder
        self.seen = [self._draw(generator, task) for _ in range(12_000)]
        self.unseen = [self._draw(generator, task) for _ in range(300)]
        texts = [text for text, _, _ in self.seen]
        self.tokenizer = Tokenizer.train_on_texts(lambda: texts, Bpe(vocabulary=50, byte_fallback=False))

    def _draw(self, generator: random.Random, task: Task) -> tuple[str, str, Heads]:
        words = generator.choices(WORDS, k=generator.choice(LENGTHS))
        tree = random_tree(generator, len(words))
        return " ".join(words), " ".join(task(words, tree)), tree

    def stores(self, name: str) -> tuple[TokenStore, SourceTrees]:
        examples = self.seen if name == "seen" else self.unseen
        numbered = enumerate(examples, start=1)
        pairs = (Example(source, target, line) for line, (source, target, _) in numbered)
        texts = TextStore.build(self.folder / name / "texts", pairs)
        trees = TreeStore.build(self.folder / name / "trees", (tree for _, _, tree in examples))
        store = segment(texts, self.tokenizer, self.folder / name, longest_source=99, longest_target=99)
        return store, SourceTrees(trees, texts, self.tokenizer.source)

    def learnt(self, positions) -> Seq2SeqTransformer:
        network = self._network(positions)
        store, trees = self.stores("seen")
        run = Run(
            model=network,
            optimiser=build_optimiser(TRAINING.optimiser, network),
            stream=pair_stream(
                store, budget=TRAINING.batch_tokens, seed=1, trees=trees if network.structural else None
            ),
            checkpoints=Checkpoints(self.folder / "checkpoints", keep=1),
            progress=Progress(),
        )
        judge = Judge(lambda _: {"none": 0.0}, deciding="none", higher_is_better=True)
        train(run, TRAINING, objective=teacher_forced(0.0), judge=judge, observe=lambda _: None, device=CPU)
        return network

    def exact(self, network: Seq2SeqTransformer) -> float:
        """The share of unseen sentences whose target greedy search finds."""
        network.eval()
        store, trees = self.stores("unseen")
        right = 0
        for batch in batches_in_order(store, budget=4096, trees=trees if network.structural else None):
            with torch.inference_mode():
                memory = network.encode(batch.source, batch.source_lengths, batch.structure)
                limits = torch.full((len(batch),), 20)
                found = search(network, memory, limits=limits, settings=SearchSettings(beam=1), symbols=Symbols())
            for row, hypotheses in zip(batch.rows, found, strict=True):
                right += list(hypotheses[0].tokens) == store.pair(int(row))[1].tolist()
        return right / len(store)

    def _network(self, positions) -> Seq2SeqTransformer:
        config = TransformerConfig(
            size=64,
            heads=4,
            encoder_layers=1,
            decoder_layers=1,
            feed_forward=128,
            positions=positions,
            dropout=DropoutConfig(embedding=0.0, residual=0.0),
        )
        with torch.random.fork_rng():
            torch.manual_seed(1)
            vocabulary = len(self.tokenizer.source)
            return build_seq2seq(config, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
