"""The same scenarios offline and online: `skidpad compare`."""

from skidpad.kinds.drives import DRIVE_COLUMNS
from skidpad.kinds.kind import KINDS, Kind, lazy

KINDS.register("compare")(
    Kind(
        summary="Tests a network offline and online on the same scenarios, and simulated against recorded drives.",
        command="compare",
        load=lazy(f"{__name__}.campaign:load_offline_vs_online"),
        page=lazy(f"{__name__}.page:comparison_page"),
        figures=lazy(f"{__name__}.summary:comparison_figures"),
        replay=lazy("skidpad.kinds.drives.replaying:replay_finding"),
        shrink=lazy("skidpad.kinds.drives.replaying:shrink_drive"),
        exporter=lazy("skidpad.kinds.drives.evidence:DriveExporter"),
        exhibit=lazy("skidpad.kinds.drives.filmstrip:OfflineVsOnlineExhibit"),
        columns=DRIVE_COLUMNS,
    )
)
