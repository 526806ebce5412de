"""What is found for any number of requests in the order in which they come, in the memory of some of them."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import DragomanError
from dragoman.inference.engine.request import Request
from dragoman.inference.engine.scheduler import Finished, Running


def in_order(running: Running, jobs: Iterable[Sequence[Request]], *, ahead: int) -> Iterator[list[list[Hypothesis]]]:
    """The hypotheses for the requests of each job, in the order of the jobs, each as soon as those before it are there.

    At most `ahead` jobs are read that are not given out. Requests enter the batch in their order, but when all are read
    the longest go first, so that no long one is left over at the end. Raises in its place what went wrong with a
    request, or with reading the jobs.
    """
    coming, more = iter(jobs), True
    fault: DragomanError | None = None
    asked: deque[Sequence[Request]] = deque()
    waiting: deque[Request] = deque()
    found: dict[Request, Finished] = {}
    while asked or more:
        while more and len(asked) < ahead:
            try:
                job = next(coming, None)
            except DragomanError as error:
                job, fault = None, error
            if job is None:
                more, waiting = False, deque(sorted(waiting, key=lambda request: -request.tokens))
            else:
                asked.append(job)
                waiting.extend(job)
        found |= {one.request: one for one in (*running.take_from(waiting), *running.step())}
        while asked and all(request in found for request in asked[0]):
            yield [_hypotheses(found.pop(request)) for request in asked.popleft()]
    if fault is not None:
        raise fault


def _hypotheses(finished: Finished) -> list[Hypothesis]:
    if finished.error is not None:
        raise finished.error
    return finished.hypotheses
