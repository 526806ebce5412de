"""Messages of wrong usage: words of this program, and what was probably meant."""

import shlex

import pytest
import typer

from dragoman.cli import main
from dragoman.cli.usage_errors import VERB_SYNONYMS
from dragoman.config_keys import keys_of
from dragoman.option_synonyms import OPTION_SYNONYMS, suggest_option
from dragoman.tasks.config import TASK_CONFIGS


def options_of(verb: str) -> list[str]:
    command = typer.main.get_command(main.build_command(verb))
    inner = getattr(command, "commands", {verb: command})
    while verb in inner or "prepare" in inner:
        command = inner.get(verb) or inner["prepare"]
        inner = getattr(command, "commands", {})
    return [name for one in command.params for name in one.opts]


ALL = {verb: options_of(verb) for verb in main.SUMMARIES}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evaluat", "evaluat: dragoman has no such command. Did you mean dragoman evaluate?"),
        ("xyzzy", "xyzzy: dragoman has no such command. All commands: dragoman --help"),
        ("quickstart", "quickstart: dragoman has no such command. Did you mean dragoman demo?"),
        ("predict x", "Did you mean dragoman translate?"),
        ("preprocess", "Did you mean dragoman data prepare?"),
        ("data prepar", "Did you mean dragoman data prepare?"),
        ("translate", "RUN is missing. Write: dragoman translate RUN [OPTIONS]."),
        ("score x --source y", "--target is missing. Give --source and --target, or --pairs FILE"),
        (
            "translate x text.en",
            "text.en: is not expected. dragoman translate takes only RUN. Give text with --text text.en or a file with "
            "--input.",
        ),
        ("translate x y --method mbr", "y: is not expected."),
        ("generate x 'O Romeo:'", "Give text with --prompt 'O Romeo:' or a file with --input."),
        ("translate x --beam-size 0", "--beam-size 0: must be at least 1."),
        ("translate x --beam many", "--beam-size many: must be an integer."),
        ("translate x --decoding beam", "must be one of beam_search, mbr. Did you mean beam_search?"),
        (
            "translate x --compute-type int4",
            "must be one of auto, float32, bfloat16, int8, int8_int16, int8_shift.\n",
        ),
        ("translate x --compute-type int9 --text a", "bfloat16, int8, int8_int16, int8_shift.\n"),
        ("translate x --compute-type imt8", "Did you mean int8?"),
        ("translate x --scores=3", "--scores: takes no value."),
        ("train --set", "--set: needs a value."),
        ("translate x --beams 3", "Did you mean --beam-size?"),
        ("score x --source y --tgt z", "Did you mean --target?"),
        ("train --max_update 3", "Did you mean --max-steps?"),
    ],
)
def test_usage_errors_say_what_and_remedy(command, words, capsys):
    assert main.run(shlex.split(command), debug=False) == 2
    written = capsys.readouterr()
    assert written.out == ""
    [line] = written.err.splitlines()
    assert line.startswith("dragoman: ")
    assert words in f"{line}\n"


@pytest.mark.parametrize("verb", sorted(main.SUMMARIES))
def test_words_are_taken_regardless_of_case(verb):
    command = typer.main.get_command(main.build_command(verb))
    inner = [command]
    while inner:
        one = inner.pop()
        inner += getattr(one, "commands", {}).values()
        for parameter in one.params:
            kind = getattr(parameter, "type_descriptor", None)
            assert not getattr(kind, "choices", None) or not kind.case_sensitive, parameter.opts


@pytest.mark.parametrize(
    ("verb", "theirs", "ours"),
    [
        ("translate", "--num_beams", "--beam-size"),  # Hugging Face
        ("translate", "--lenpen", "--length-penalty"),  # fairseq
        ("translate", "--mini-batch-words", "--batch-tokens"),  # Marian
        ("translate", "--src", "--input"),  # OpenNMT
        ("translate", "--out", "--output"),
        ("translate", "--beam_alpha", "--length-penalty"),  # JoeyNMT
        ("train", "--save-dir", "--output-dir"),
        ("train", "--train_src", "--source"),
        ("train", "--valid-tgt", "--valid-target"),
        ("train", "--update-freq", "--set training.grad_accumulation=N"),
        ("train", "--resume_from_checkpoint", "--resume"),
        ("generate", "--num_return_sequences", "--n-best"),
        ("evaluate", "--refs", "--reference"),
        ("export", "--quantization", "--compute-type"),
        ("prune", "--out_put_dir", "--output-dir"),
    ],
)
def test_options_of_other_toolkits_lead_to_ours(verb, theirs, ours):
    assert ours in suggest_option(theirs, ALL[verb])


def test_every_suggestion_exists():
    known = {name for options in ALL.values() for name in options}
    keys = {"preset"}.union(*map(keys_of, TASK_CONFIGS.values()))
    for suggestion in OPTION_SYNONYMS:
        option, _, rest = suggestion.partition(" ")
        if option == "--set" and rest:
            for assignment in rest.split(" --set "):
                assert assignment.partition("=")[0] in keys, suggestion
        else:
            assert option in known, suggestion
    for verb in VERB_SYNONYMS:
        assert verb.split()[0] in main.SUMMARIES or verb.startswith("--")


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("translate 'Two dogs' RUN", "translate RUN --text 'Two dogs'"),
        ("translate TEXTS RUN", "translate RUN --input TEXTS"),
        ("generate 'O Romeo:' RUN", "generate RUN --prompt 'O Romeo:'"),
        ("answer who? RUN", "answer RUN --question 'who?'"),
        ("info tiny RUN", "info RUN"),
    ],
)
def test_exchanged_arguments_are_named(command, remedy, tmp_path, capsys):
    run, texts = tmp_path / "run", tmp_path / "a.txt"
    run.mkdir()
    (run / "config.yaml").touch()
    texts.touch()
    command, remedy = (one.replace("RUN", str(run)).replace("TEXTS", str(texts)) for one in (command, remedy))
    assert main.run(shlex.split(command), debug=False) == 2
    said = capsys.readouterr().err
    assert f"is not a run folder, and {run} is one. Write: dragoman {remedy}\n" in said
