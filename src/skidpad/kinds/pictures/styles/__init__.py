"""The worst look of a learned weather, searched for: `skidpad weather search` (TACTIC)."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

KINDS.register("tactic")(
    Kind(
        summary="Searches a learned weather for the conditions under which a network errs most.",
        command="weather search",
        load=lazy(f"{__name__}.campaign:from_config"),
        page=lazy(f"{__name__}.page:tactic_page"),
        figures=lazy(f"{__name__}.shrinking:tactic_figures"),
        replay=lazy(f"{__name__}.shrinking:replay_style"),
        shrink=lazy(f"{__name__}.shrinking:shrink_style"),
        exporter=lazy(f"{__name__}.shrinking:style_exporter"),
        exhibit=lazy("skidpad.kinds.pictures.exhibit:TacticExhibit"),
        columns=CaseColumns(group="stimulus", cluster="frame_id", led=True),
    )
)
