"""A pilot as courses on the Udacity simulator have it: trained on the bare steering column of a log, and driven by a plain drive.py.

Nothing here is skidpad's but the network's layers: the labels are the log's own numbers, and what the network answers goes out as it is.

Run: python examples/simulator_pilot.py train track1 pilot [--epochs 8]       writes pilot.safetensors
     python examples/simulator_pilot.py drive pilot [--mph 15]                a drive.py; needs python-socketio and eventlet
"""

import argparse
import base64
import csv
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import load_file, save_file

from skidpad.subjects.zoo import ARCHITECTURES


def prepared(picture: np.ndarray) -> np.ndarray:
    """Cuts the sky off a picture as OpenCV reads it, (160, 320, 3), and brings it to (66, 200, 3) in YUV."""
    small = cv2.resize(picture[56:], (200, 66), interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(small, cv2.COLOR_BGR2YUV)


def as_input(pictures: np.ndarray) -> torch.Tensor:
    """Turns prepared pictures into what the network takes."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)


def train(track: Path, out: Path, epochs: int) -> None:
    """Fits the network to the log; the last tenth of the rows is only looked at."""
    torch.manual_seed(0)
    with (track / "driving_log.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    pictures = np.stack([prepared(cv2.imread(str(track / row[0]))) for row in rows])
    steering = torch.tensor([float(row[3]) for row in rows])
    network = ARCHITECTURES.get("pilotnet").build()
    kept = len(rows) * 9 // 10
    learner = torch.optim.Adam(network.parameters())
    batches = kept // 64
    pace = torch.optim.lr_scheduler.OneCycleLR(learner, 1.5e-3, total_steps=epochs * batches)
    for epoch in range(epochs):
        network.train()
        for batch in np.array_split(torch.randperm(kept).numpy(), batches)[:batches]:
            seen, wanted = as_input(pictures[batch]), steering[batch]
            mirrored = torch.rand(len(batch)) < 0.5
            seen = torch.where(mirrored[:, None, None, None], seen.flip(-1), seen)
            wanted = torch.where(mirrored, -wanted, wanted)
            # The steering column is small; ten times of it, a tenth of the answer later, is easier to learn.
            loss = (network(seen)[:, 0] - 10.0 * wanted).square().mean()
            learner.zero_grad()
            loss.backward()
            learner.step()
            pace.step()
        network.eval()
        with torch.no_grad():
            answers = torch.cat([network(as_input(part))[:, 0] for part in np.array_split(pictures[kept:], 16)]) / 10.0
        error, straight = ((guess - steering[kept:]).square().mean().sqrt() for guess in (answers, 0.0))
        print(f"epoch {epoch + 1}: off by {error:.4f} of full lock, always straight on by {straight:.4f}", flush=True)
    last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
    with torch.no_grad():
        last.weight.div_(10.0)
        last.bias.div_(10.0)
    save_file(network.state_dict(), out.with_suffix(".safetensors"))


def drive(file: Path, mph: float) -> None:
    """Answers every frame with what the network says, and holds a speed."""
    import eventlet  # noqa: PLC0415 - only a drive.py needs it
    import socketio  # noqa: PLC0415 - see above

    network = ARCHITECTURES.get("pilotnet").build().eval()
    network.load_state_dict(load_file(file.with_suffix(".safetensors")))
    server = socketio.Server()

    def steer(angle: float, throttle: float) -> None:
        server.emit("steer", data={"steering_angle": str(angle), "throttle": str(throttle)}, skip_sid=True)

    @server.on("connect")
    def connect(_sid: str, _environ: dict) -> None:
        steer(0.0, 0.0)

    @server.on("telemetry")
    def telemetry(_sid: str, data: dict[str, str]) -> None:
        picture = cv2.imdecode(np.frombuffer(base64.b64decode(data["image"]), np.uint8), cv2.IMREAD_COLOR)
        with torch.no_grad():
            angle = float(network(as_input(prepared(picture)[None]))[0, 0])
        steer(angle, 0.2 * (mph - float(data["speed"])))

    eventlet.wsgi.server(eventlet.listen(("127.0.0.1", 4567)), socketio.WSGIApp(server), log_output=False)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("train")
    learning.add_argument("track", type=Path)
    learning.add_argument("out", type=Path)
    learning.add_argument("--epochs", type=int, default=8)
    driving = commands.add_parser("drive")
    driving.add_argument("file", type=Path)
    driving.add_argument("--mph", type=float, default=15.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "train":
        train(given.track, given.out, given.epochs)
    else:
        drive(given.file, given.mph)


if __name__ == "__main__":
    main()
