"""What a network returned, checked against its description."""

import torch

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description


def answer_columns(description: Description, answer: object, count: int) -> torch.Tensor:
    """Joins one tensor or a tuple of tensors of all outputs, (count, outputs) in the network's own units."""
    parts: list[object] = list(answer) if isinstance(answer, tuple | list) else [answer]
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and part.ndim >= 1 and part.shape[0] == count]
    if not tensors or len(tensors) < len(parts):
        got = ", ".join(str(tuple(part.shape)) if isinstance(part, torch.Tensor) else type(part).__name__ for part in parts)
        raise BadSubjectError(f"{description.name!r} must answer ({count}, outputs) for {count} images; got {got or 'nothing'}")
    columns = torch.cat([tensor.reshape(count, -1) for tensor in tensors], 1)
    if columns.shape[1] != len(description.outputs):
        names = ", ".join(output.name for output in description.outputs)
        raise BadSubjectError(
            f"{description.name!r} answers {columns.shape[1]} numbers for each image, its description names "
            f"{len(description.outputs)} ({names}); write one [[outputs]] for each number, in order"
        )
    return columns


def steering_answer(description: Description, answer: object, count: int) -> torch.Tensor:
    """Picks the steering, (count,) in the network's own unit, out of what the network returned."""
    return answer_columns(description, answer, count)[:, description.steering_column]
