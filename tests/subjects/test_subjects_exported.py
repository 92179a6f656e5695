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
from skidpad.subjects.formats.exported import ExportedNetwork, read_exported
from skidpad.subjects.formats.exported_operations import resolve

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
        "torch.ops.aten.save.default",
        "torch.ops.aten._print.default",
        "torch.ops.aten.max_pool2d_with_indices_backward.default",
        "torch.ops.aten.embedding_dense_backward.default",
        "torch.ops.aten.max_unpool2d.default",
        "torch.ops.aten.take_along_dim.default",
        "torch.ops.aten.as_strided.default",
        "torch.ops.aten.set_.source_Storage",
        "torch.ops.aten.resize_.default",
        "torch.ops.aten._unsafe_index.Tensor",
        "torch.ops.aten.relu.out",
        "torch.ops.aten.add.out",
        "torch.ops.aten.relu.__class__",
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


class WritesOutOfBounds(nn.Module):
    """The backward pass of pooling writes wherever its indices say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = x[:, :, :2, :2]
        far = torch.full_like(pooled, 1 << 40, dtype=torch.int64)
        args = ([2, 2], [2, 2], [0, 0], [1, 1], False)
        return torch.ops.aten.max_pool2d_with_indices_backward(pooled, x[:, :, :4, :4], *args, far).mean((1, 2, 3))


def test_an_operation_that_writes_beyond_its_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match=r"uses 'torch\.ops\.aten\.max_pool2d_with_indices_backward\.default'"):
        read_exported(exported(WritesOutOfBounds(), tmp_path / "net.pt2", batch=1))


def recurrent(*shapes: tuple[int, ...], hidden: int = 8) -> tuple[object, ...]:
    state = torch.zeros(1, 2, hidden)
    return torch.zeros(2, 3, 8), state, [torch.zeros(shape) for shape in shapes], len(shapes) == 4, 1, 0.0, False, False, True


PICTURE, ONE = torch.zeros(1, 2, 6, 6), torch.zeros(1)
UNFIT = {
    "_native_batch_norm_legit_no_training.default": [(PICTURE, ONE, ONE, ONE, ONE, 0.1, 1e-5)],
    "upsample_nearest2d.default": [(PICTURE, [12, 12], 1e-30, 1e-30), (PICTURE, [12, 12], -2.0, -2.0), (PICTURE, [600, 600], 1.0, 1.0)],
    "upsample_nearest2d.vec": [(PICTURE, [600, 600], [1.0, 1.0]), (PICTURE, None, [1e9, 1e9])],
    "scaled_dot_product_attention.default": [
        tuple(torch.zeros(1, 2, length, 4) for length in (3, 500, 5)),
        (*(torch.zeros(1, 2, length, 4) for length in (3, 5, 5)), torch.zeros(4, 5)),
    ],
    "gru.input": [recurrent((3, 8), (3, 8)), recurrent((24, 9), (24, 8)), recurrent((24, 8), (24, 8), (24,), (1,))],
    "replication_pad2d.default": [(PICTURE, [-7, 8, 0, 0])],
    "pad.default": [(PICTURE, [-7, 8, 0, 0], "replicate")],
    "full.default": [([1 << 20, 1 << 20], 0.0)],
}


@pytest.mark.parametrize("name", UNFIT)
def test_arguments_that_torch_would_believe_are_looked_at(name: str) -> None:
    found = resolve(f"torch.ops.aten.{name}")
    assert found is not None
    for arguments in UNFIT[name]:
        with pytest.raises((RuntimeError, ValueError), match=r"do not fit together|broadcast"):
            found[0](*arguments)


def test_arguments_that_fit_are_computed_as_torch_does() -> None:
    cases = {
        "upsample_bilinear2d.default": (torch.randn(1, 2, 6, 6), [12, 9], False, 2.0, 1.5),
        "scaled_dot_product_attention.default": (*(torch.randn(1, 2, length, 4) for length in (3, 5, 5)), torch.zeros(3, 5)),
        "gru.input": recurrent((24, 8), (24, 8), (24,), (24,)),
        "replication_pad2d.default": (torch.randn(1, 2, 6, 6), [1, 2, 3, 4]),
    }
    for name, arguments in cases.items():
        packet, _, overload = name.partition(".")
        found = resolve(f"torch.ops.aten.{name}")
        assert found is not None
        torch.testing.assert_close(found[0](*arguments), getattr(getattr(torch.ops.aten, packet), overload)(*arguments))


@pytest.mark.parametrize(
    "layout",
    [
        {"storage_offset": {"as_int": 1 << 40}},
        {"storage_offset": {"as_int": -1}},
        {"storage_offset": {"as_int": 1}},
        {"strides": [{"as_int": 1 << 40}] * 4},
        {"strides": [{"as_int": -1}] * 4},
        {"sizes": [{"as_int": 1 << 20}] * 4},
        {"sizes": [{"as_int": 1 << 10}] * 4, "strides": [{"as_int": 0}] * 4},
    ],
)
def test_a_weight_beyond_its_bytes_is_refused(layout: dict[str, object], copy: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("weights_config.json"):
            return data
        config = json.loads(data)
        config["config"]["0.weight"]["tensor_meta"].update(layout)
        return json.dumps(config).encode()

    with pytest.raises(BadSubjectError, match=r"the exported weight '0\.weight' lies outside of its \d+ numbers"):
        read_exported(rewritten(copy, change))


class Doubles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(24):
            x = torch.cat([x, x], 3)
        return x.mean((1, 2, 3))


def test_a_graph_that_grows_without_measure_is_refused_before_it_takes_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = exported(Doubles(), tmp_path / "doubles.pt2", 1)
    network = read_exported(path)
    devices: set[str] = set()
    run = ExportedNetwork._run
    monkeypatch.setattr(
        ExportedNetwork, "_run", lambda self, values, inputs: (devices.add(inputs.device.type), run(self, values, inputs))[1]
    )
    with pytest.raises(BadSubjectError, match="numbers at once for an input of"):
        network(torch.zeros(1, *SHAPE))
    assert devices == {"meta"}


def test_sizes_stay_numbers_of_64_bits() -> None:
    found = resolve("_operator.mul")
    assert found is not None
    assert found[0](6, 7) == 42
    for arguments in ((1 << 40, 1 << 40), ("ab", 1 << 40)):
        with pytest.raises((OverflowError, TypeError)):
            found[0](*arguments)


def test_damage_within_a_compressed_part_is_one_sentence(copy: Path) -> None:
    with zipfile.ZipFile(copy) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
        model = next(info for info in archive.infolist() if info.filename.endswith("model.json"))
    content = bytearray(copy.read_bytes())
    start = model.header_offset + 30 + len(model.filename) + 20
    content[start : start + 40] = b"\xff" * 40
    copy.write_bytes(bytes(content))
    with pytest.raises(BadSubjectError, match=r"is no whole torch\.export archive \(Error -3 while decompressing") as caught:
        read_exported(copy)
    assert "\n" not in str(caught.value)


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
