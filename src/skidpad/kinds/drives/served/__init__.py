"""Drives that somebody else's program steers: `skidpad serve` plays the simulator that it was written for."""

from dataclasses import replace

from skidpad.kinds.drives import DRIVE_COLUMNS
from skidpad.kinds.kind import KINDS, Kind, lazy

KINDS.register("served")(
    Kind(
        summary="Plays another simulator for a client that stays as it is, and judges how it keeps its lane through scenarios.",
        command="serve",
        load=lazy(f"{__name__}.campaign:load_served"),
        page=lazy(f"{__name__}.campaign:served_page"),
        figures=lazy("skidpad.kinds.drives.page:online_figures"),
        replay=lazy(f"{__name__}.campaign:replay_served"),
        shrink=lazy(f"{__name__}.campaign:refuse_shrinking"),
        exporter=lazy(f"{__name__}.campaign:refuse_export"),
        exhibit=lazy("skidpad.kinds.drives.filmstrip:ServedExhibit"),
        # the client holds the pedals, so that what a careful driver does there excuses nothing
        columns=replace(
            DRIVE_COLUMNS, excused=None, free=DRIVE_COLUMNS.free | {"name", "host", "port", "connects", "timeout_s", "wait_s", "realtime"}
        ),
    )
)
