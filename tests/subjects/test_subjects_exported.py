import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.exported import read_exported

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export warns about its own insides

SHAPE = (3, 16, 24)


def exported(net: nn.Module, path: Path, batch: int | None = None) -> Path:
    shapes = None if batch else ({0: torch.export.Dim("batch", min=1, max=512)},)
    torch.export.save(torch.export.export(net, (torch.randn(batch or 2, *SHAPE),), dynamic_shapes=shapes), path)
    return path


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = [(name, change(name, archive.read(name))) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


class CreatesMarker:
    """Unpickling it creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.marker,)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(2 * 14 * 22, 1)).eval()
    return exported(net, tmp_path_factory.mktemp("export") / "net.pt2")


@pytest.fixture
def copy(archive: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.pt2"
    path.write_bytes(archive.read_bytes())
    return path


class Awkward(nn.Module):
    """Sizes computed from the batch, several results, a constant, a buffer that is not saved, a cat, a type change."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("offset", torch.tensor(0.5), persistent=False)
        self.dense = nn.Linear(4 * 14 * 22 + 3, 2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.norm(self.conv(x)).double().float()
        one, two = maps.chunk(2, dim=1)
        joined = torch.cat([two, one], 1).reshape(x.shape[0], -1) + self.offset + torch.tensor(0.25)
        high = x.amax((2, 3)).clamp(min=None, max=3.0)
        out = self.dense(torch.cat([joined, high], 1))
        return out[:, :1], out[:, 1:].to(x.device)


def test_an_awkward_graph_runs_as_torch_runs_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Awkward().eval()
    network = read_exported(exported(net, tmp_path / "net.pt2"))
    x = torch.randn(5, *SHAPE)
    with torch.no_grad():
        for got, expected in zip(network(x), net(x), strict=True):
            torch.testing.assert_close(got, expected)
    assert network.fixed_batch is None


def test_a_fixed_batch_is_known(small_net: nn.Module, tmp_path: Path) -> None:
    assert read_exported(exported(small_net, tmp_path / "net.pt2", batch=3)).fixed_batch == 3


def test_the_old_form_of_the_archive_is_read(small_net: nn.Module, tmp_path: Path) -> None:
    new = exported(small_net, tmp_path / "new.pt2")
    with zipfile.ZipFile(new) as archive:
        program = archive.read(next(name for name in archive.namelist() if name.endswith("models/model.json")))
    state, constants = tmp_path / "state.pt", tmp_path / "constants.pt"
    torch.save(small_net.state_dict(), state)
    torch.save({}, constants)
    old = tmp_path / "old.pt2"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("serialized_exported_program.json", program)
        archive.writestr("serialized_state_dict.pt", state.read_bytes())
        archive.writestr("serialized_constants.pt", constants.read_bytes())
        archive.writestr("serialized_example_inputs.pt", b"never opened")
    x = torch.randn(2, *SHAPE)
    torch.testing.assert_close(read_exported(old)(x)[0], small_net(x).detach())


def test_example_inputs_are_never_unpickled(copy: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    poison = pickle.dumps(CreatesMarker(marker))
    rewritten(copy, lambda name, data: poison if "sample_inputs" in name else data)
    assert read_exported(copy)(torch.randn(1, *SHAPE))[0].shape == (1, 1)
    assert not marker.exists()


def test_a_pickled_weight_is_loaded_without_its_code(copy: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    file = tmp_path / "weight.pt"
    torch.save(CreatesMarker(marker), file)

    def change(name: str, data: bytes) -> bytes:
        if name.endswith("weights_config.json"):
            config = json.loads(data)
            config["config"]["0.weight"]["use_pickle"] = True
            return json.dumps(config).encode()
        return file.read_bytes() if name.endswith("/weight_0") else data

    with pytest.raises(BadSubjectError, match="holds more than weights"):
        read_exported(rewritten(copy, change))
    assert not marker.exists()


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.load",
        "torch.hub.load",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.__class__.mro",
        "torch.ops.prims.add.default",
        "torch.ops.higher_order.cond",
        "_operator.attrgetter",
        "math.exp",
        "os.system",
        "x.torch.ops.aten.relu.default",
    ],
)
def test_only_tensor_operations_are_run(target: str, copy: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        return data.replace(b"torch.ops.aten.relu_.default", target.encode()) if name.endswith("model.json") else data

    with pytest.raises(BadSubjectError):
        read_exported(rewritten(copy, change))


def test_symbolic_texts_are_never_evaluated(copy: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f"__import__('pathlib').Path('{marker}').touch()"

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("model.json"):
            return data
        program = json.loads(data)
        for meta in program["graph_module"]["graph"]["tensor_values"].values():
            for size in meta["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = code
        program["guards_code"] = [code]
        return json.dumps(program).encode()

    assert read_exported(rewritten(copy, change))(torch.randn(2, *SHAPE))[0].shape == (2, 1)
    assert not marker.exists()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_one_error(archive: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(archive.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 30))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.pt2"
    path.write_bytes(bytes(content))
    network: nn.Module | None = None
    message = ""
    try:
        network = read_exported(path)
    except BadSubjectError as error:
        message = str(error)
    assert (network is None) == bool(message)
    assert "\n" not in message
