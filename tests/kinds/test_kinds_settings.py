"""Every field of every kind's settings refuses what it cannot be, whichever fields there are."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from skidpad.core.errors import BadParametersError, SkidpadError, UnknownNameError
from skidpad.core.settings import Count, Mark, OneOf, Within, check, plain, read
from skidpad.highway.observation import ObservationSpec
from skidpad.highway.scenario import Scenario
from skidpad.kinds.drives.campaign import OnlineSettings
from skidpad.kinds.drives.compare.campaign import OfflineVsOnlineSettings
from skidpad.kinds.drives.served.campaign import ServedSettings
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.kinds.kind import KINDS as REGISTERED
from skidpad.kinds.kind import CampaignSettings
from skidpad.kinds.limits.campaign import LimitsSettings
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.styles.campaign import TacticSettings
from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
from skidpad.repairs.settings import RepairSettings
from skidpad.stimuli.weather.settings import LossWeights, Sizes, WeatherSettings

KINDS: tuple[type[CampaignSettings], ...] = (
    DeepTestSettings,
    DeepRoadSettings,
    TacticSettings,
    DuelSettings,
    OnlineSettings,
    OfflineVsOnlineSettings,
    ServedSettings,
    LimitsSettings,
)
OTHERS: tuple[type[Any], ...] = (RepairSettings, WeatherSettings, Sizes, LossWeights, Scenario, ObservationSpec)


def needed(kind: type[Any]) -> dict[str, Any]:
    wanted = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    return {name: ["w"] if name == "weathers" else "a" for name in wanted}


def hints(kind: type[Any]) -> dict[str, Any]:
    found = get_type_hints(kind, include_extras=True)
    return {field.name: found[field.name] for field in fields(kind)}


def parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        if isinstance(part, Within | OneOf | type) or get_origin(part):
            yield from parts(part)


def wrong_types(hint: Any) -> Iterator[object]:
    yield {"a": 1}  # no setting is a table
    leaves = [part for part in parts(hint) if part in {str, int, float, bool}]
    is_list = any(get_origin(part) is tuple for part in parts(hint))
    for wrong in (
        {str: (3, True), int: ("ten", True, 1.5), float: ("ten", True, float("nan")), bool: ("no", 1)}[leaves[0]] if leaves else ()
    ):
        yield [wrong] if is_list else wrong
    if leaves:
        yield {str: "a", int: 1, float: -1.0, bool: True}[leaves[0]] if is_list else [1]


def out_of_range(hint: Any) -> Iterator[object]:
    is_list = any(get_origin(part) is tuple for part in parts(hint))
    for mark in parts(hint):
        if isinstance(mark, OneOf):
            yield "nobody"
        if isinstance(mark, Within):
            bounds = ((mark.least, -1), (mark.above, 0), (mark.most, 1), (mark.below, 0))
            for bad in (bound + step for bound, step in bounds if bound is not None):
                yield [bad] if is_list else bad


def cases(give: Any) -> list[Any]:
    return [
        pytest.param(kind, name, value, id=f"{kind.campaign}-{name}-{value}")
        for kind in KINDS
        for name, hint in hints(kind).items()
        for value in give(hint)
    ]


def test_every_kind_is_covered() -> None:
    assert {kind.campaign for kind in KINDS} == set(REGISTERED.names())


@pytest.mark.parametrize(("kind", "name", "value"), cases(wrong_types))
def test_a_value_of_the_wrong_type_is_named_with_what_was_got(kind: type[CampaignSettings], name: str, value: object) -> None:
    with pytest.raises(SkidpadError, match=rf"^{name}(\.1)? must be .*; got ") as caught:
        kind.from_config({**needed(kind), name: value})
    shown = value[0] if isinstance(value, list) and f"{name}.1" in str(caught.value) else value
    assert str(caught.value).endswith(f"got {shown!r}")


@pytest.mark.parametrize(("kind", "name", "value"), cases(out_of_range))
def test_a_value_out_of_range_is_named_with_its_range(kind: type[CampaignSettings], name: str, value: object) -> None:
    with pytest.raises(SkidpadError, match=rf"^{name}(\.1)? must be (at|above|below) .*; got |^no .* named 'nobody'; "):
        kind.from_config({**needed(kind), name: value})
    made = tuple(value) if isinstance(value, list) else value
    with pytest.raises(SkidpadError, match=rf"^{name}|'nobody'"):
        kind(**{**plainly(kind), name: made})


def plainly(kind: type[Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in needed(kind).items()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.campaign)
def test_a_config_comes_back_and_a_key_it_lacks_or_does_not_know_is_named(kind: type[CampaignSettings]) -> None:
    settings = kind.from_config({"campaign": kind.campaign, **needed(kind)})
    config = settings.to_config()
    assert kind.from_config(config) == settings
    assert config["campaign"] == kind.campaign
    for name in needed(kind):
        with pytest.raises(SkidpadError, match=f"^the campaign lacks the setting '{name}'; write, for example, {name} = "):
            kind.from_config({key: value for key, value in config.items() if key != name})
    for name in hints(kind):
        with pytest.raises(UnknownNameError, match=rf"^no setting of the campaign named '{name}s_'; did you mean '"):
            kind.from_config({**config, f"{name}s_": 1})


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_other_settings_refuse_what_is_out_of_range(kind: type[Any]) -> None:
    tried = [(name, bad) for name, hint in hints(kind).items() for bad in out_of_range(hint)]
    assert tried
    for name, bad in tried:
        made = (bad[0], bad[0]) if isinstance(bad, list) else bad
        with pytest.raises(BadParametersError, match=rf"^{name}(\.1)? must be "):
            kind(**{**plainly(kind), name: made})


@dataclass(frozen=True)
class Sample:
    names: tuple[str, ...] = ()
    levels: Annotated[tuple[float, ...], Mark.ONE_OR_MORE] = (1.0,)
    pairs: tuple[tuple[str, float], ...] = ()
    count: Count | None = None


def test_one_value_stands_for_a_list_of_one_and_pairs_are_a_table() -> None:
    sample = read(Sample, {"levels": 3, "pairs": {"a": 1}, "count": 2.0}, "the sample")
    assert sample == Sample(levels=(3.0,), pairs=(("a", 1.0),), count=2)
    assert plain(sample) == {"names": [], "levels": 3.0, "pairs": {"a": 1.0}, "count": 2}
    assert plain(Sample(levels=(1.0, 2.0))) == {"names": [], "levels": [1.0, 2.0], "pairs": {}}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (3, "the sample must be a table of keys; got 3"),
        ({"pairs": {"a": "b"}}, "pairs.a must be a number; got 'b'"),
        ({"pairs": [1]}, r"pairs must be a table of names and numbers; got \[1\]"),
        ({"count": 16**6000}, ""),
        ({"count": -(16**6000)}, "count must be at least 1; got a number of thousands of digits"),
        ({"count": 1e300}, "count must be a whole number; got 1e"),
        ({"levels": 10**400}, r"levels\.1 must be a number; got 10000"),
        ({3: 4}, "no key of the sample named '3'; known: count"),
    ],
)
def test_odd_values_are_one_sentence(table: object, said: str) -> None:
    if not said:
        assert read(Sample, table, "the sample").count
        return
    with pytest.raises(SkidpadError, match=f"^{said}"):
        read(Sample, table, "the sample")


def test_a_setting_made_in_python_is_checked_as_one_that_is_read() -> None:
    with pytest.raises(SkidpadError, match=r"^scenarios must be a whole number; got 'ten'$"):
        OnlineSettings(subject="a", scenarios="ten")  # type: ignore[arg-type]
    with pytest.raises(BadParametersError, match=r"^names\.1 must be a text; got 1$"):
        check(Sample(names=(1,)), BadParametersError)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REGISTERED.names())
def test_every_part_of_a_kind_is_where_the_kind_says(name: str) -> None:
    def parts(value: object) -> list[str]:
        if isinstance(value, Mapping | tuple):
            return [part for each in (value.values() if isinstance(value, Mapping) else value) for part in parts(each)]
        where = getattr(value, "__doc__", None) or ""
        return [where] if getattr(value, "__name__", "") == "call" else []

    kind = REGISTERED.get(name)
    named = [part for field in fields(kind) for part in parts(getattr(kind, field.name))]
    assert named
    for part in named:
        module, _, attribute = part.partition(":")
        assert hasattr(import_module(module), attribute), part
