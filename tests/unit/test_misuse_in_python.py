"""Misuse of the Python API: every call gives one clear error, or a sensible result.

The calls run in a process of their own, where nothing but the program checks their types.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.untrained_runs import finished_language_model, finished_run

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys, warnings
import torch
import dragoman
from dragoman.data.datasets.labeled import Labels
from dragoman.data.chat_template import ChatTemplate
warnings.simplefilter("ignore")
translator = dragoman.load("translator", device="cpu")
generator = dragoman.load("writer", device="cpu")
side, labels = translator.tokenizer.source, Labels(("a", "b"))
chat = dragoman.Generator(generator.model, generator.tokenizer, context=23, template=ChatTemplate())
classifier = dragoman.Classifier(lambda tokens, lengths: torch.zeros(len(tokens), 2), side, labels)
tagger = dragoman.Tagger(lambda tokens, lengths: torch.zeros(*tokens.shape, 2), side, labels)
answerer = dragoman.QuestionAnswerer(lambda tokens, *_: (torch.zeros(tokens.shape),) * 2, side)
found = {}
for call in json.load(sys.stdin):
    try:
        found[call] = "result " + repr(eval(call))
    except Exception as error:
        found[call] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
ONE = "is one string, and a list is expected. Put it into a list."
NONE = "[0] is None, not a string. Give a string for each text."
CONFIG = "Give settings as keywords, or one of these objects."
CALLS = {
    "translator.translate([None])": f"TypeError: texts{NONE}",
    "translator.translate(None)": "TypeError: texts is None, and a string or a list of strings is expected. Give a",
    "translator.translate(5)": "TypeError: texts is 5, and a string or a list of strings is expected.",
    "translator.translate(b'a')": "texts is b'a', and a string or a list of strings is expected. Decode the bytes.",
    "translator.translate([b'a'])": "TypeError: texts[0] is b'a', not a string. Decode the bytes.",
    "translator.translate({'text': 'a'})": "a string or a list of strings is expected. Give the texts in the mapping.",
    "translator.translate(__import__('pathlib').Path('a'))": "a list of strings is expected. Read the file.",
    "translator.translate(['a', float('nan')])": "TypeError: texts[1] is nan, not a string.",
    "translator.translate(text for text in ['a cat'])": "result [TranslationResult(",
    "translator.translate('')": "result TranslationResult(text=''",
    "translator.translate([])": "result []",
    "translator.translate('a', {'beam_size': 3})": f"{{'beam_size': 3}} is no DecodingConfig. {CONFIG}",
    "translator.translate('a', 5)": "TypeError: config = 5 is no DecodingConfig.",
    "translator.translate('a', beem=3)": "ConfigError: beem: no such option. Did you mean beam_size? Options: beam_",
    "translator.translate('a', num_beams=3)": "no such option. Did you mean beam_size?",
    "list(translator.translate_stream(['a'], beam=3))": "beam: no such option. Did you mean beam_size? Options: ",
    "translator.translate('a', beam_size='x')": "ConfigError: beam_size = 'x': ",
    "translator.translate('a', beam_size=0)": "ConfigError: beam_size = 0: ",
    "translator.translate('a', beam_size='5')": "ConfigError: beam_size = '5': must be an integer",
    "translator.translate('a', beam_size=True)": "ConfigError: beam_size = True: must be an integer",
    "translator.translate('a', beam_size=1001)": "ConfigError: beam_size = 1001: must be at most 1000",
    "translator.translate('a', n_best=1001)": "ConfigError: n_best = 1001: must be at most 1000",
    "generator.generate('a', top_k=True)": "ConfigError: top_k = True: must be an integer",
    "translator.translate('a', n_best=9)": "ConfigError: n_best = 9 is more than a beam of 5 returns",
    "list(translator.translate_stream('a cat'))": f"TypeError: texts {ONE}",
    "translator.score_stream([('a', 'b')], penalty='gnmt')": "TypeError: penalty = 'gnmt' is no LengthPenalty.",
    "translator.score_stream('a')": f"TypeError: pairs {ONE}",
    "translator.score_stream([('a', 'b')], chunk=0)": "ConfigError: chunk = 0",
    "translator.translate('a', decoding='mbr')": "ConfigError: decoding: no such option. Did you mean method?",
    "list(translator.translate_stream([None]))": f"TypeError: texts{NONE}",
    "list(translator.translate_stream(['a'], chunk=0))": "ConfigError: chunk = 0: is not a whole number",
    "translator.score('a', 'b')": f"TypeError: sources {ONE}",
    "translator.score(['a'], [None])": f"TypeError: targets{NONE}",
    "len(translator.score(iter('ab'), iter('ab')))": "result 2",
    "list(translator.score_stream(['ab']))": "TypeError: pairs[0] is 'ab', not a pair of strings.",
    "list(translator.score_stream([('a', None)]))": "TypeError: pairs[0] is ('a', None), not a pair of strings.",
    "generator.generate('a cat', max_new_tokens=2)": "result Completion(",
    "generator.generate(iter(['a cat']), max_new_tokens=2)": "result [Completion(",
    "generator.generate([None])": f"TypeError: prompts{NONE}",
    "generator.generate('a', 3)": "TypeError: config = 3 is no SamplingConfig or DecodingConfig.",
    "generator.generate('a', max_new_tokens=0)": "ConfigError: max_new_tokens = 0: is not a whole number",
    "generator.generate('a', max_new_tokens='5')": "ConfigError: max_new_tokens = '5': is not a whole number",
    "generator.generate('a', temperature=-1)": "ConfigError: temperature = -1",
    "generator.generate('a', beam_size=3)": "belongs to a search. Give the config DecodingConfig(beam_size=3).",
    "generator.generate('a', max_tokens=5)": "no such option. Did you mean max_new_tokens? Options: temperature, ",
    "generator.generate('a', tempreature=1)": "seed, end_tokens, suppress_tokens, max_new_tokens, stop, alternatives.",
    "generator.generate('a', stop='b', max_new_tokens=2)": "result Completion(",
    "generator.generate('a', stop='')": "ConfigError: stop = '': the tokenizer of this model never generates it",
    "chat.chat([dragoman.Message('user', 'a')], temperature=0, max_new_tokens=2, stop='b')": "result Completion(",
    "chat.chat([dragoman.Message('user', 'a')], temprature=0)": "Did you mean temperature?",
    "list(generator.stream_text('a', temperature=-1))": "ConfigError: temperature = -1",
    "generator.generate_n_best(['a'], temperature=0, num_samples=2)": "with temperature = 0 all samples are the same",
    "len(generator.generate_n_best(['a'], top_k=3, num_samples=2, max_new_tokens=2)[0])": "result 2",
    "len(list(generator.generate_stream(['a'], top_k=3, max_new_tokens=2)))": "result 1",
    "list(generator.generate_stream(['a'], chunks=3))": "Did you mean chunk?",
    "generator.generate('a', stop=[None])": f"TypeError: stop{NONE}",
    "generator.generate_n_best(['a'], num_samples=1001)": "num_samples = 1001: at most 1000 samples are drawn at once",
    "generator.generate_n_best(['a'], num_samples=0)": "ConfigError: num_samples = 0: is not a whole number",
    "generator.generate_n_best('a')": f"TypeError: prompts {ONE}",
    "list(generator.generate_stream('a'))": f"TypeError: prompts {ONE}",
    "list(generator.generate_stream(['a'], chunk=0))": "ConfigError: chunk = 0: is not a whole number",
    "list(generator.stream_text(['a']))": "TypeError: prompts[0] is ['a'], not a string.",
    "chat.chat('hi')": "TypeError: messages[0] is 'h', not a message. Give dragoman.Message(role, text) or",
    "chat.chat([{'role': 'user'}])": "TypeError: messages[0] is {'role': 'user'}, not a message.",
    "chat.chat([{'role': 'user', 'content': 'a'}], max_new_tokens=2)": "result Completion(",
    "generator.score('a')": f"TypeError: texts {ONE}",
    "generator.score([None])": f"TypeError: texts{NONE}",
    "generator.perplexity('a')": f"TypeError: texts {ONE}",
    "generator.perplexity([])": "DataError: there is no text",
    "generator.perplexity(iter(['a cat'])).bytes": "result 5",
    "classifier.classify([None])": f"TypeError: texts{NONE}",
    "classifier.classify(5)": "TypeError: texts is 5, and a string or a list of strings is expected.",
    "classifier.classify('a cat').label": "result 'a'",
    "len(classifier.classify(iter(['a cat'])))": "result 1",
    "list(classifier.classify_stream('a cat'))": f"TypeError: texts {ONE}",
    "tagger.tag('a cat')": f"TypeError: sentences {ONE}",
    "tagger.tag(['a cat'])": f"TypeError: sentences[0] {ONE}",
    "tagger.tag([['a', None]])": "TypeError: sentences[0][1] is None, not a string.",
    "tagger.tag([[]])": "result [[]]",
    "len(tagger.tag(iter([['a', 'cat']]))[0])": "result 2",
    "list(tagger.tag_stream('a cat'))": f"TypeError: sentences {ONE}",
    "answerer.answer(None, 'a cat')": "TypeError: pairs[0] is (None, 'a cat'), not a pair of strings.",
    "answerer.answer('a', ['a cat'])": "TypeError: pairs[0] is ('a', ['a cat']), not a pair of strings.",
    "answerer.answer('a', 'a cat', {'n_best': 2})": "TypeError: config = {'n_best': 2} is no AnswerConfig.",
    "answerer.answer_batch(['ab'])": "TypeError: pairs[0] is 'ab', not a pair of strings.",
    "len(answerer.answer_batch(iter([('a', 'a cat')])))": "result 1",
    "list(answerer.answer_stream('ab'))": f"TypeError: pairs {ONE}",
    "dragoman.load(None)": "TypeError: None is no path. Give the path of a run folder",
    "dragoman.load('')": "RunError: '' is an empty path. Give the path of a run folder",
    "dragoman.load('translator', ensemble=[None])": "TypeError: None is no path.",
    "dragoman.evaluate('translator', source=['a'], reference=[])": "reference: 0 sentences, but source has 1; they",
    "dragoman.export('nowhere', 'x')": "RunError: nowhere: is not a run folder",
    "dragoman.export('translator', 'x', compute_type='int4')": "ConfigError: compute_type = 'int4' does not exist.",
    "dragoman.export('translator', 'x', source='a')": "ConfigError: source and target are the two sides of one corpus.",
    "dragoman.export('translator', 'x', source='a', target='b')": "ConfigError: source and target have no effect",
    "sorted(dragoman.export('translator', 'exported').to_dict())": "result ['bytes', 'compute_type', 'format', ",
    "dragoman.load('nowhere')": "RunError: nowhere: is not a run folder",
    "dragoman.load('translator', 'cpu')": "TypeError: kind = 'cpu' is not a class that runs are loaded as.",
    "dragoman.load('translator', device='gpu')": "ConfigError: device = gpu: is not one of cpu, cuda, mps.",
    "dragoman.load('translator', device=0)": "ConfigError: device = 0: is not one of cpu, cuda, mps.",
    "dragoman.load('translator', batch_tokens=0)": "ConfigError: batch_tokens = 0: is not a whole number",
    "dragoman.load('translator', batch_tokens='x')": "ConfigError: batch_tokens = 'x': is not a whole number",
    "dragoman.load('translator', compute_type='int4')": "ConfigError: compute_type = 'int4' does not exist.",
    "dragoman.load('translator', ensemble='translator')": "TypeError: `ensemble` is one path.",
    "len(dragoman.evaluate('translator', source=['a'], reference=['b'], metrics='bleu'))": "result 1",
    "len(dragoman.evaluate('translator', source=iter('a'), reference=iter('b')))": "result 2",
    "dragoman.evaluate('translator', source=['a'], reference=['b'], metrics=[])": "ConfigError: metrics is empty.",
    "dragoman.evaluate('translator', source=['a'], reference=['b'], metrics=[5])": "metrics: 5 is not a metric.",
    "dragoman.evaluate('translator', source=[None], reference=['b'])": f"TypeError: source{NONE}",
    "dragoman.evaluate('translator', source=['a'], reference=5)": "reference is 5, and a list of strings is expected.",
    "dragoman.evaluate('writer', source=['a'], reference=['b'])": "RunError: writer: is a generator, not a translator.",
    "dragoman.DecodingConfig(beam_size=10**5)": "ConfigError: DecodingConfig: beam_size = 100000: must be at most 1000",
    "dragoman.SamplingConfig(temperatur=1)": "ConfigError: SamplingConfig: temperatur: no such key. Did you mean tempe",
    "dragoman.train(output_dir='x', lr=3)": 'overrides={"training.optimizer.learning_rate": …}?',
    "dragoman.train(output_dir='x', gradient_accumulation_steps=3)": "Did you mean grad_accumulation?",
    "dragoman.train({}, output_dir='x', overrides={'training.lr': 3})": "training.lr: no such key. Did you mean trai",
    "dragoman.train()": "TypeError: train() missing 1 required keyword-only argument: 'output_dir'",
    "dragoman.train(output_dir='x', source=['a'], target=['b'])": "TypeError: source is ['a'], not a path. Write texts",
    "dragoman.train(output_dir='x', sorce='a')": "'sorce'. Did you mean source?",
    "dragoman.train(output_dir='x', learning_rate=3)": 'overrides={"training.optimizer.learning_rate": …}?',
    "dragoman.train(output_dir='x', overrides='training.seed=2')": "overrides is 'training.seed=2', not a mapping.",
    "dragoman.train(output_dir='x', device='gpu')": "ConfigError: device = gpu: is not one of cpu, cuda, mps.",
    "dragoman.train({'preset': 'tinny'}, output_dir='x')": "preset: 'tinny' does not exist. Did you mean tiny?",
    "dragoman.train({}, output_dir='x', max_steps=0)": "training.max_steps = 0: ",
    "dragoman.train('missing.yaml', output_dir='x')": "ConfigError: missing.yaml: cannot be read",
    "dragoman.lode": "AttributeError: module 'dragoman' has no attribute 'lode'",
}
"""From a call to a part of its result, or of the name and message of its error."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("misuse")
    finished_run(folder / "translator")
    finished_language_model(folder / "writer")
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, cwd=folder, input=json.dumps(list(CALLS)), capture_output=True, text=True, check=True
    )
    assert not (folder / "x").exists()
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("call", CALLS)
def test_call_gives_a_clear_error_or_a_result(found, call):
    assert CALLS[call] in found[call]
    assert len(found[call].splitlines()) <= 3
