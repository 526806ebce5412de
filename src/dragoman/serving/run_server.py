"""Run the server until a signal ends it; requests that are being answered get time to complete."""

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from dragoman.errors import RunError
from dragoman.inference.backends.cpu_backend import THREADS
from dragoman.serving.app import build_app
from dragoman.serving.config import ServerConfig
from dragoman.serving.http.connection import BoundedConnection
from dragoman.serving.json_log import configure_logging

KEEP_ALIVE = 75
"""Seconds of an idle connection: more than the 60 of common proxies, so that they close it and lose no request."""


def run_server(config: ServerConfig, on_ready: Callable[[str], None]) -> None:
    """Load the models, listen, and answer requests until SIGTERM or Ctrl-C. `on_ready` gets the address.

    Raises RunError where the address is in use, and as `build_app` does.
    """
    # One core is for the requests: threads that compute spin while they wait for each other.
    os.environ.setdefault(THREADS, str(max(1, _available_cores() - 1)))
    with _listen(config) as listening:
        app = build_app(config)
        configure_logging()
        _serve(app, config, listening, on_ready)


def _serve(app: FastAPI, config: ServerConfig, listening: socket.socket, on_ready: Callable[[str], None]) -> None:
    """Answer requests to an open port."""
    connection: Any = partial(BoundedConnection, head_timeout=config.limits.body_timeout)
    settings = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(config.drain_timeout),
        timeout_keep_alive=KEEP_ALIVE,
        lifespan="on",
        loop="asyncio",  # uvloop accepts one connection between two steps of a busy loop: some clients wait for minutes
        forwarded_allow_ips=list(config.trusted_proxies),
    )
    listening.listen(settings.backlog)  # connections wait from now on
    host, port = listening.getsockname()[:2]
    on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    uvicorn.Server(settings).run(sockets=[listening])


def _available_cores() -> int:
    """Return the number of cores that the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _listen(config: ServerConfig) -> socket.socket:
    """Bind the port before the models are loaded, so that an error comes at once."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        # Of a socket without the number of the protocol, asyncio would not turn off the delay of small packets.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        raise RunError(
            f"{config.host}:{config.port}: cannot listen ({error.strerror or error}). Choose another --port or --host."
        ) from error
    listening.set_inheritable(True)
    return listening
