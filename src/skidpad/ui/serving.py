"""Serving the page on this machine alone."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import uvicorn

from skidpad.core.errors import SkidpadError

if TYPE_CHECKING:
    from fastapi import FastAPI

HOST = "127.0.0.1"


def bound_socket(port: int) -> socket.socket:
    """Takes a port of this machine's own address, any free one for 0; who asks before the server runs is kept waiting, not refused."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
        taken.listen()
    except (OSError, OverflowError) as error:
        taken.close()
        raise SkidpadError(f"cannot listen on {HOST}:{port}: {error}; choose another --port, or 0 for any that is free") from error
    return taken


def server_of(app: FastAPI) -> uvicorn.Server:
    """Returns a quiet server for the application."""
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2))
