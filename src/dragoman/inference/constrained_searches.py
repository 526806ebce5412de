"""Searches under constraints that are repeated until the text of their output satisfies the constraints.

Each repeated search knows the tokens of the forbidden words in the output before, or has a wider beam. If none of the
outputs satisfies all constraints, the ordinary translation and one without the unsatisfied constraints are candidates,
too; the finished one that satisfies most is returned.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final

from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.constraints import Phrase, PhraseAutomaton
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.control.check_phrases import contradicted
from dragoman.inference.control.output_check import OutputCheck
from dragoman.inference.scheduler import Request

MAX_BEAM: Final = 16
"""Beam up to which a search is widened whose output does not satisfy its constraints."""
MAX_ROUNDS: Final = 4
"""Searches under the constraints of a request."""

Outputs = list[Hypothesis]
Searches = Generator[list[Request], list[Outputs], list[Outputs]]
"""Yields requests, receives the hypotheses of each, and returns the hypotheses that were asked for."""


def search_until_satisfied(requests: Sequence[Request]) -> Searches:
    """Return the outputs of requests, which are repeated together where their outputs fail their checks."""
    searches = [_search(request) for request in requests]
    waiting = {place: next(search) for place, search in enumerate(searches)}
    results: list[Outputs] = [[] for _ in requests]
    while waiting:
        outputs = iter((yield [request for some in waiting.values() for request in some]))
        following = {}
        for place, some in waiting.items():
            try:
                following[place] = searches[place].send([next(outputs) for _ in some])
            except StopIteration as stop:
                [results[place]] = stop.value
        waiting = following
    return results


def _search(request: Request) -> Searches:
    """Return the outputs of one request."""
    check, automaton = request.check, request.start.constraints
    if check is None or automaton is None:
        return (yield [request])
    phrases, candidates = automaton.phrases, []
    impossible = contradicted(phrases, check.tokenizer.decode(request.start.forced))
    search: Request | None = _without(request, impossible)
    for _ in range(MAX_ROUNDS):
        assert search is not None, "the loop ends without another search"
        [outputs] = yield [search]
        outputs.sort(key=lambda output: len(check.unmet(phrases, output)))
        candidates.append(outputs)
        unmet = check.unmet(phrases, outputs[0])
        if not unmet:
            return [outputs]
        missing = [phrase for phrase in unmet if phrase not in impossible]
        search = _stricter(search, outputs[0], check, missing) if missing else None
        if search is None:
            break
    others = yield _fallbacks(request, check, _best(candidates, phrases, check)[0])
    return [_best([*others, *candidates], phrases, check)]


def _best(candidates: Sequence[Outputs], phrases: Sequence[Phrase], check: OutputCheck) -> Outputs:
    """Return the first outputs of those that are finished and satisfy most phrases."""
    return min(candidates, key=lambda outputs: (not outputs[0].finished, len(check.unmet(phrases, outputs[0]))))


def _stricter(request: Request, output: Hypothesis, check: OutputCheck, missing: Sequence[Phrase]) -> Request | None:
    """Return the next search of a request whose output does not satisfy phrases; None without another one."""
    automaton, config = request.start.constraints, request.config
    assert automaton is not None, "the request has constraints"
    assert isinstance(config, DecodingConfig), "samples have no constraints"
    stricter = check.stricter(automaton, output)
    lacks = any(phrase.kind != "forbidden" for phrase in missing) or not output.finished
    beam = min(2 * config.beam_size, MAX_BEAM) if lacks or stricter is automaton else config.beam_size
    if stricter is automaton and beam <= config.beam_size:
        return None
    wider = config.model_copy(update={"beam_size": max(beam, config.beam_size)})
    return replace(request, config=wider, start=replace(request.start, constraints=stricter))


def _fallbacks(request: Request, check: OutputCheck, output: Hypothesis) -> list[Request]:
    """Return the search of the ordinary translation, and the one without the phrases that an output lacks."""
    automaton = request.start.constraints
    assert automaton is not None, "the request has constraints"
    ordinary = replace(
        request,
        config=check.config,
        limit=check.limit,
        start=replace(request.start, constraints=None),
    )
    relaxed = _without(request, check.unmet(automaton.phrases, output))
    return [ordinary] if relaxed.start.constraints is None else [ordinary, relaxed]


def _without(request: Request, phrases: Sequence[Phrase]) -> Request:
    """Return a request without some of its phrases."""
    automaton = request.start.constraints
    if not phrases or automaton is None:
        return request
    kept = [phrase for phrase in automaton.phrases if phrase not in phrases]
    constraints = PhraseAutomaton(kept, automaton.edges) if kept else None
    return replace(request, start=replace(request.start, constraints=constraints))
