"""A trained run translates the same in dragoman, in CTranslate2 and in the way of Argos Translate."""

import zipfile

import pytest
import sentencepiece

import dragoman
from tests.small_runs import write_corpus

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*cut off at their length limit")]
ctranslate2 = pytest.importorskip("ctranslate2", reason="the judge of this format")
OVERRIDES = {
    "tokenizer.kind": "unigram",
    "tokenizer.vocab_size": 330,
    "model.d_model": 32,
    "model.num_heads": 4,
    "model.d_ff": 64,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "training.batch_tokens": 1500,
    "training.max_steps": 240,
    "training.validate_every": 120,
    "training.optimizer.learning_rate": 0.005,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a small trained translator, and its training sources."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(folder / "cache"))
        source, target = write_corpus(folder, pairs=600)
        dragoman.train(source=source, target=target, output_dir=folder / "run", preset="tiny", overrides=OVERRIDES)
    return folder / "run", source.read_text(encoding="utf-8").splitlines()[:60]


def test_lists_of_ctranslate2_are_equal(run, tmp_path):
    path, texts = run
    dragoman.export(path, tmp_path / "out", format="ctranslate2")
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "sentencepiece.model"))
    judge = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    tokens = tokenizer.encode(texts, out_type=str)
    theirs = judge.translate_batch(
        tokens, beam_size=4, num_hypotheses=4, return_scores=True, min_decoding_length=0, max_decoding_length=40
    )
    ours = dragoman.load(path, device="cpu").translate(
        texts, beam_size=4, n_best=4, max_length=39, max_length_offset=99, early_stopping=True, keep_greedy=False
    )
    finished = [row for row, one in enumerate(theirs) if max(map(len, one.hypotheses)) < 39]
    assert len(finished) > 50
    for row in finished:
        text, found, expected = texts[row], ours[row], theirs[row]
        assert [one.text for one in found] == [tokenizer.decode(one) for one in expected.hypotheses], text
        assert [one.score for one in found] == pytest.approx(expected.scores, abs=1e-4), text


def test_packages_translate_as_argos_translate_does(run, tmp_path):
    path, texts = run
    dragoman.export(path, tmp_path / "out", format="argos", languages=("en", "de"))
    (package,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)  # our own file
    folder = tmp_path / package.stem
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    judge = ctranslate2.Translator(str(folder / "model"), compute_type="float32", intra_threads=1)
    theirs = judge.translate_batch(
        tokenizer.encode(texts, out_type=str),
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=4,
        num_hypotheses=1,
        length_penalty=0.2,
        return_scores=True,
    )
    ours = dragoman.import_model(package, tmp_path / "run").load().translate(texts)
    pairs = [(one[0].text, tokenizer.decode(two.hypotheses[0])) for one, two in zip(ours, theirs, strict=True)]
    finished = [pair for pair, one in zip(pairs, theirs, strict=True) if len(one.hypotheses[0]) < 250]
    assert len(finished) > 50
    assert all(one == other for one, other in finished)
