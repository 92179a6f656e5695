"""Closed loop: `skidpad drive` lets a network steer through scenarios."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

DRIVE_COLUMNS = CaseColumns(
    key=("mode", "scenario", "recipe"),
    group="condition",
    cluster="scenario",
    only=("mode", "online"),
    excused=(("violated", "departed_at_s", "scenario"), lazy(f"{__name__}.summary:is_unavoidable")),
    free=frozenset({"scenarios", "files", "stimuli", "searches", "repeats", "matched"}),
    free_hashes=frozenset({"scenarios"}),
)

KINDS.register("online")(
    Kind(
        summary="Drives a network through scenarios in a closed loop, judged by how far it strays from its lane.",
        command="drive",
        load=lazy(f"{__name__}.campaign:load_online"),
        page=lazy(f"{__name__}.page:online_page"),
        figures=lazy(f"{__name__}.page:online_figures"),
        replay=lazy(f"{__name__}.replaying:replay_finding"),
        shrink=lazy(f"{__name__}.replaying:shrink_drive"),
        exporter=lazy(f"{__name__}.evidence:DriveExporter"),
        exhibit=lazy(f"{__name__}.filmstrip:DriveExhibit"),
        traits=lazy(f"{__name__}.summary:drive_cases"),
        columns=DRIVE_COLUMNS,
        checks={"drive": lazy(f"{__name__}.evidence:DriveCheck")},
    )
)
