"""Token classification (tagging): one label per word."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TaggedDataset, read_tagged_splits
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification_metrics import classification_scores
from dragoman.inference.tagger import Tagger
from dragoman.models.task_heads import build_token_head
from dragoman.tasks.config import TaggingConfig
from dragoman.tasks.head_task import HeadTask, label_notes
from dragoman.tasks.task import TaskDescription
from dragoman.training.losses import classification_loss

_DESCRIPTION = TaskDescription(
    noun="tagger",
    loss_unit="words",
    unit="words",
    command="dragoman classify RUN --input FILE",
    python_usage='tag([["…", "…"]])',
)


def tagging_task(experiment: TaggingConfig) -> HeadTask[Any, Any]:
    """Return the task with head, loss and metrics of tagging."""
    limit = experiment.data.max_length

    def tokenize(examples: Sequence[TaggedSentence], tokenizer: Tokenizer, labels: Labels, _: object) -> TaggedDataset:
        return TaggedDataset.build(examples, side=tokenizer.source, labels=labels, max_length=limit)

    def score(tagger: Tagger, examples: Sequence[TaggedSentence]) -> list[Score]:
        predicted = [tag.label for sentence in tagger.tag([one.words for one in examples]) for tag in sentence]
        return classification_scores(predicted, [label for one in examples for label in one.labels])

    return HeadTask(
        experiment=experiment,
        description=_DESCRIPTION,
        plural="sentences",
        metric="accuracy",
        loss_function=classification_loss,
        read=partial(read_tagged_splits, experiment.data, seed=experiment.training.seed),
        texts=lambda examples: (" ".join(one.words) for one in examples),
        labels_of=lambda examples: (label for one in examples for label in one.labels),
        tokenize=tokenize,
        notes=partial(label_notes, examples="sentences", units="words", limit=limit),
        locations=lambda train: train.lines,
        build_head=lambda labels: build_token_head(
            experiment.head, d_model=experiment.model.d_model, num_labels=len(labels)
        ),
        build_pipeline=partial(Tagger, max_length=limit),
        score=score,
    )
