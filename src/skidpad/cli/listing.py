"""skidpad list: what can be used, with its parameters."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from skidpad.core.errors import UnknownNameError
from skidpad.core.registry import broken_plugins
from skidpad.page.terminal import print_json, say, table, warn

Rows = list[tuple[str, str]]
Parts = dict[str, tuple[str, Rows]]
"""Rows under a heading each, by the name that programs read."""


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(name="list")(list_rows)


def list_rows(
    what: Annotated[
        str,
        typer.Argument(metavar="WHAT", help="transforms, criteria, relations, worlds, domains, ...; omit it to see the available lists"),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List what can be used, with its parameters."""
    if not what:
        say("skidpad list " + "|".join(_LISTS))
        return
    if what not in _LISTS:
        raise UnknownNameError.among("list", what, _LISTS)
    parts = parts_of(what)
    for words in broken_plugins():
        warn(words)
    if json:
        found = {key: dict(rows) for key, (_, rows) in parts.items()}
        print_json(found.get(what, found))
        return
    for heading, rows in parts.values():
        table(heading, ("name", "what it is"), rows)


def parts_of(what: str) -> Parts:
    """Returns a list with its headings; one without any has its own name."""
    listed = _LISTS[what]()
    return listed if isinstance(listed, dict) else {what: (what, listed)}


def _summary(row: object) -> str:
    text = (getattr(row, "__doc__", "") or "").strip()
    return text.partition("\n")[0]


def _row(name: str, words: Callable[[], str]) -> tuple[str, str]:
    """Describes a row; one that cannot be made says so, and leaves the others alone."""
    try:
        return name, words()
    except Exception as error:  # noqa: BLE001  a row of another package may raise anything
        return name, f"cannot be used: {type(error).__name__}: {error}"


def _transforms() -> Rows:
    from skidpad.stimuli.pictures import TRANSFORMS, stimuli
    from skidpad.stimuli.weather.pretrained import pretrained_names

    def words(name: str) -> str:
        return f"{_summary(TRANSFORMS.get(name))} {'; '.join(map(str, stimuli((name,))[name].space.parameters))}"

    rows = [_row(name, partial(words, name)) for name in TRANSFORMS.names()]
    return [
        *rows,
        *((f"weather:{name}", "A learned weather; weather:FILE for your own.") for name in pretrained_names()),
    ]


def _criteria() -> Rows:
    from skidpad.coverage.criteria import CRITERIA

    def words(name: str) -> str:
        return f"{_summary(CRITERIA.get(name))} {CRITERIA.get(name)()!r}"

    return [_row(name, partial(words, name)) for name in CRITERIA.names()]


def _relations() -> Rows:
    from skidpad.oracles.relations import RELATIONS

    return [(name, _summary(RELATIONS.get(name))) for name in RELATIONS.names()]


def _searches() -> Rows:
    from skidpad.search.evolution import Styles
    from skidpad.search.pairs import Pairs
    from skidpad.search.protocol import Space, searchers
    from skidpad.search.vectors import Cube

    spaces: dict[str, type[Space[Any]]] = {"test": Pairs, "weather search": Styles, "drive": Cube}
    words: dict[str, list[str]] = {}
    for command, space in spaces.items():
        for name, row in searchers(space).items():
            words.setdefault(name, []).append(f"{command}, over {space.noun}: {_summary(row)}")
    return [(name, " ".join(texts)) for name, texts in words.items()]


def _campaigns() -> Rows:
    from skidpad.kinds.kind import KINDS

    return [(name, KINDS.get(name).summary) for name in KINDS.names()]


def _units() -> Rows:
    from skidpad.core.units import UNITS, AngleUnit

    return [(name, "an angle" if isinstance(unit, AngleUnit) else "no angle") for name, unit in UNITS.items()]


def _readers() -> Rows:
    from skidpad.drives.readers import ADJUSTING_OPTIONS, READERS, SLICING_OPTIONS, Option

    def listed(options: tuple[Option, ...]) -> str:
        return "; ".join(f"{option.name}={option.default}: {option.meaning}" for option in options)

    def words(name: str) -> str:
        reader = READERS.get(name)()
        return f"looks for {reader.looks_for}. {listed(reader.options)}"

    rows = [_row(name, partial(words, name)) for name in READERS.names()]
    return [*rows, ("(every reader)", listed(SLICING_OPTIONS)), ("(every reader but rendered)", listed(ADJUSTING_OPTIONS))]


def _architectures() -> Rows:
    from skidpad.subjects.zoo import ARCHITECTURES

    rows = []
    for name in ARCHITECTURES.names():
        zoo = ARCHITECTURES.get(name)
        rows.append((name, f"{_summary(zoo.builder)} {zoo.input.width_px} x {zoo.input.height_px} px, {zoo.input.colour.value}"))
    return rows


def _weathers() -> Parts:
    from skidpad.stimuli.weather.files import WeatherCard
    from skidpad.stimuli.weather.pretrained import pretrained_names, pretrained_weather
    from skidpad.worlds.render.weather_sets import RENDERED_WEATHERS

    rows = []
    for name in pretrained_names():
        path = pretrained_weather(name)
        card = WeatherCard.from_toml(path.read_text(encoding="utf-8"), str(path))
        rows.append((name, f"learned by {card.method.value} at {card.size_px} px from {card.learned_from}{card.drawn_words}"))
    return {
        "bundled": ("bundled learned weathers, for `weather test`, `search` and `realism`", rows),
        "rendered": (
            "looks of the built-in world, for `weather render`, not for `weather test`",
            [(row.name, row.about) for row in RENDERED_WEATHERS.values()],
        ),
    }


def _worlds() -> Rows:
    from skidpad.worlds.world import WORLDS

    return [(name, _summary(WORLDS.get(name))) for name in WORLDS.names()]


def _domains() -> Rows:
    from skidpad.worlds.scenario.domain import DOMAINS

    rows = []
    for name in DOMAINS.names():
        domain = DOMAINS.get(name)
        rows.append((name, f"{domain.about}; {len(domain.variables)} variables, {len(domain.constraints)} constraints"))
        ranges = {variable.pattern: str(variable.parameter).partition(" in ")[2] for variable in domain.variables}
        rows += [(f"{name}: {pattern}", f"in {values}") for pattern, values in ranges.items()]
    return rows


def _constraints() -> Rows:
    from skidpad.worlds.scenario.constraints import all_constraints

    return [(rule.name, f"{rule.sentence} Way out: {rule.remedy}.") for rule in all_constraints()]


def _duel_rewards() -> Rows:
    from skidpad.highway.rewards import REWARDS

    return [(name, _summary(REWARDS.get(name))) for name in REWARDS.names()]


_LISTS: dict[str, Callable[[], Rows | Parts]] = {
    "transforms": _transforms,
    "criteria": _criteria,
    "relations": _relations,
    "searches": _searches,
    "campaigns": _campaigns,
    "units": _units,
    "readers": _readers,
    "architectures": _architectures,
    "weathers": _weathers,
    "worlds": _worlds,
    "domains": _domains,
    "constraints": _constraints,
    "duel-rewards": _duel_rewards,
}
