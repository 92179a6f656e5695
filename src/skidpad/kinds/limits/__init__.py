"""How far a network holds: for each condition the severity at which it begins to fail, `skidpad limits`."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

KINDS.register("limits")(
    Kind(
        summary="Finds how far a network holds under each condition, in the condition's own unit.",
        command="limits",
        load=lazy(f"{__name__}.campaign:load_limits"),
        page=lazy(f"{__name__}.page:limits_page"),
        figures=lazy(f"{__name__}.page:limits_figures"),
        replay=lazy(f"{__name__}.replaying:replay_case"),
        exhibit=lazy(f"{__name__}.exhibit:LimitsExhibit"),
        columns=CaseColumns(
            group="severity", cluster="frame_id", only=("mode", "offline"), free=frozenset({"conditions", "pairs", "online"})
        ),
        hold=lazy(f"{__name__}.holding:held"),
        side_by_side=lazy(f"{__name__}.page:side_by_side"),
        traits=lazy("skidpad.kinds.pictures.summary:limit_cases"),
        worst="largest change",
    )
)
