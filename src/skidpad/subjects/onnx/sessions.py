"""One way into onnxruntime: its sessions, its limits and its errors."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from skidpad.core.errors import BadSubjectError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_SILENT = 4
_MEMORY_SHARE = 0.5
_SOURCE = re.compile(r"\S+\.(?:cc|cpp|h):\d+ .*?\)(?: const)?(?: \[with [^\]]*\])? ")
"""`/path/of/a/file.cc:12 the function that was in it(...) `."""
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


class CannotRunError(RuntimeError):
    """onnxruntime refused a model or an input; the message is one sentence of what it said."""


class Session:
    """A model that onnxruntime runs, on one thread of the CPU or on one GPU.

    One thread, since campaigns ask from several: each then has a core to itself, nothing waits for another, and answers do
    not hang on how many there are.
    """

    def __init__(self, data: bytes, device: torch.device, input_name: str) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        if _limited():
            options.add_session_config_entry("session.use_env_allocators", "1")
        self._device = device
        self._input_name = input_name
        try:
            self._session = runtime.InferenceSession(data, options, providers=_providers(device), enable_fallback=False)
        except _errors() as error:
            raise CannotRunError(_sentence(error)) from error

    def run(self, inputs: torch.Tensor, outputs: Sequence[str], element_type: type[np.generic]) -> list[NDArray[Any]]:
        """Returns the outputs by their names; the input is contiguous and on the session's device."""
        try:
            if self._device.type == "cpu":
                given = inputs.numpy()
                given = given if given.dtype == element_type else given.astype(element_type)
                return list(self._session.run(outputs, {self._input_name: given}))
            return self._run_on_gpu(inputs, outputs, element_type)
        except _errors() as error:
            raise CannotRunError(_sentence(error)) from error

    def _run_on_gpu(self, inputs: torch.Tensor, outputs: Sequence[str], element_type: type[np.generic]) -> list[NDArray[Any]]:
        binding = self._session.io_binding()
        given = inputs.to(getattr(torch, element_type.__name__)).contiguous()
        binding.bind_input(self._input_name, "cuda", self._device.index or 0, element_type, tuple(given.shape), given.data_ptr())
        for name in outputs:
            binding.bind_output(name)
        torch.cuda.current_stream(self._device).synchronize()  # onnxruntime works on a stream of its own
        self._session.run_with_iobinding(binding)
        return list(binding.copy_outputs_to_cpu())


def check_device(device: torch.device) -> None:
    """Refuses a GPU that this build of onnxruntime cannot use."""
    if device.type != "cpu" and _CUDA not in _runtime().get_available_providers():
        raise BadSubjectError(
            f"onnxruntime {_runtime().__version__} has no {_CUDA}, so {device} cannot be used; install onnxruntime-gpu or use cpu"
        )


def _providers(device: torch.device) -> list[Any]:
    if device.type == "cpu":
        return [_CPU]
    # Rounding products to 10 bits, the default, would move answers by a thousandth from one device to the other.
    return [(_CUDA, {"device_id": str(device.index or 0), "use_tf32": "0"}), _CPU]


@cache
def _runtime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError.of("onnxruntime", "onnx", "running an ONNX file") from error


@cache
def _errors() -> tuple[type[Exception], ...]:
    state = import_module(f"{_runtime().__name__}.capi.onnxruntime_pybind11_state")
    own = (found for found in vars(state).values() if isinstance(found, type) and issubclass(found, Exception))
    return (*own, RuntimeError, ValueError, TypeError, UnicodeDecodeError, MemoryError)


@cache
def _limited() -> bool:
    """Lets all sessions together take at most half of the machine's memory, so that a file that asks for more gets an error."""
    runtime = _runtime()
    expected: tuple[type[Exception], ...] = (AttributeError, OSError, *_errors())
    try:
        limit = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
        memory = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
        grow_as_needed = {"max_mem": limit, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
        runtime.create_and_register_allocator(memory, runtime.OrtArenaCfg(grow_as_needed))
    except expected:
        return False  # an operating system that does not tell, or a process that has set its own limit
    return True


def _sentence(error: Exception) -> str:
    """Keeps of onnxruntime's message what a user can read: no codes, no names of its own source files."""
    text = " ".join(str(error).split()) or type(error).__name__
    for mark in ("Status Message: ", " : FAIL : ", " : INVALID_GRAPH : ", " : INVALID_ARGUMENT : ", " : NOT_IMPLEMENTED : "):
        text = text.rpartition(mark)[2]
    return _SOURCE.sub("", text)[:160].rstrip(" .;")
