"""Tiny OpenSCENARIO and OpenDRIVE files of our own, written from the standards' published descriptions, for the tests that read them."""

from pathlib import Path

ROAD = """<?xml version="1.0"?>
<OpenDRIVE><header revMajor="1" revMinor="6"/>
<road id="0" length="{length}" junction="-1" rule="RHT">
<planView>{geometry}</planView>
<lanes><laneSection s="0">
<left><lane id="1" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></left>
<center><lane id="0" type="none"/></center>
<right><lane id="-1" type="border"><width sOffset="0" a="1.5" b="0" c="0" d="0"/></lane>
<lane id="-2" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>
<lane id="-3" type="driving"><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>
<lane id="-4" type="shoulder"><width sOffset="0" a="2" b="0" c="0" d="0"/></lane></right>
</laneSection></lanes></road></OpenDRIVE>
"""
STRAIGHT = '<geometry s="0" x="7" y="-4" hdg="0.5" length="3000"><line/></geometry>'
BENDS = (
    '<geometry s="0" x="0" y="0" hdg="0" length="60"><line/></geometry>'
    '<geometry s="60" x="60" y="0" hdg="0" length="40"><spiral curvStart="0" curvEnd="0.004"/></geometry>'
    '<geometry s="100" x="100" y="1.066" hdg="0.08" length="2900"><arc curvature="0.004"/></geometry>'
)

CAR = """<Vehicle name="{name}" vehicleCategory="{category}"><BoundingBox><Center x="1.3" y="0" z="0.7"/>
<Dimensions width="1.8" length="4.5" height="1.4"/></BoundingBox></Vehicle>"""

INIT = """<Private entityRef="Ego">
<PrivateAction><TeleportAction><Position><LanePosition roadId="0" laneId="$Lane" s="20" offset="0"/></Position></TeleportAction>
</PrivateAction>
<PrivateAction><LongitudinalAction><SpeedAction><SpeedActionDynamics dynamicsShape="step" dynamicsDimension="time" value="0"/>
<SpeedActionTarget><AbsoluteTargetSpeed value="${{$Speed_kph / 3.6}}"/></SpeedActionTarget></SpeedAction></LongitudinalAction>
</PrivateAction></Private>
<Private entityRef="Other">
<PrivateAction><TeleportAction><Position>{place}</Position></TeleportAction></PrivateAction>
<PrivateAction><LongitudinalAction><SpeedAction><SpeedActionDynamics dynamicsShape="step" dynamicsDimension="time" value="0"/>
<SpeedActionTarget>{speed}</SpeedActionTarget></SpeedAction></LongitudinalAction></PrivateAction>
{more}</Private>"""

SCENARIO = """<?xml version="1.0" encoding="utf-8"?>
<OpenSCENARIO><FileHeader revMajor="1" revMinor="1" date="2026-01-01T00:00:00" description="tiny" author="skidpad"/>
<ParameterDeclarations>
<ParameterDeclaration name="Speed_kph" parameterType="double" value="60">
<ConstraintGroup><ValueConstraint rule="greaterThan" value="0"/><ValueConstraint rule="lessOrEqual" value="60"/></ConstraintGroup>
</ParameterDeclaration>
<ParameterDeclaration name="Lane" parameterType="string" value="-3"/>
<ParameterDeclaration name="Gap_m" parameterType="double" value="30"/>
</ParameterDeclarations>
<CatalogLocations/><RoadNetwork><LogicFile filepath="./road.xodr"/></RoadNetwork>
<Entities><ScenarioObject name="Ego">{ego}</ScenarioObject><ScenarioObject name="Other">{other}</ScenarioObject></Entities>
<Storyboard><Init><Actions>{init}</Actions></Init>{story}
<StopTrigger><ConditionGroup><Condition name="End" delay="{after}" conditionEdge="rising">{stop}</Condition></ConditionGroup></StopTrigger>
</Storyboard></OpenSCENARIO>
"""
AT_20_S = '<ByValueCondition><SimulationTimeCondition value="20" rule="greaterOrEqual"/></ByValueCondition>'

STORY = """<Story name="Story"><Act name="Act"><ManeuverGroup maximumExecutionCount="1" name="Group">
<Actors selectTriggeringEntities="false"><EntityRef entityRef="Other"/></Actors>
<Maneuver name="Maneuver">{events}</Maneuver></ManeuverGroup>
<StartTrigger><ConditionGroup><Condition name="Go" delay="0" conditionEdge="none">
<ByValueCondition><SimulationTimeCondition value="0" rule="greaterOrEqual"/></ByValueCondition></Condition></ConditionGroup></StartTrigger>
</Act></Story>"""
EVENT = """<Event name="{name}Event" priority="overwrite"><Action name="{name}"><PrivateAction>{action}</PrivateAction></Action>
<StartTrigger><ConditionGroup><Condition name="{name}When" delay="{delay}" conditionEdge="{edge}">{when}</Condition></ConditionGroup>
</StartTrigger></Event>"""
CHANGE = """<LateralAction><LaneChangeAction><LaneChangeActionDynamics dynamicsShape="sinusoidal" dynamicsDimension="rate" value="2"/>
<LaneChangeTarget>{target}</LaneChangeTarget></LaneChangeAction></LateralAction>"""
BRAKE = """<LongitudinalAction><SpeedAction><SpeedActionDynamics dynamicsShape="linear" dynamicsDimension="rate" value="{rate}"/>
<SpeedActionTarget><AbsoluteTargetSpeed value="{speed}"/></SpeedActionTarget></SpeedAction></LongitudinalAction>"""
NEAR = """<ByEntityCondition><TriggeringEntities triggeringEntitiesRule="any"><EntityRef entityRef="Ego"/></TriggeringEntities>
<EntityCondition><{tag} entityRef="Other" {how} value="{value}" freespace="true" rule="lessThan"/></EntityCondition></ByEntityCondition>"""
RELATIVE = '<RelativeTargetSpeed entityRef="Ego" value="{delta}" speedTargetValueType="delta" continuous="false"/>'
LEADS = """<PrivateAction><LongitudinalAction><LongitudinalDistanceAction continuous="false" displacement="leadingReferencedEntity"
timeGap="{gap}" entityRef="Ego" freespace="true"/></LongitudinalAction></PrivateAction>"""


def event(name: str, action: str, when: str, edge: str = "rising", delay: float = 0.0) -> str:
    return EVENT.format(name=name, action=action, when=when, edge=edge, delay=delay)


def after(name: str) -> str:
    wanted = f'<StoryboardElementStateCondition storyboardElementType="action" storyboardElementRef="{name}" state="completeState"/>'
    return f"<ByValueCondition>{wanted}</ByValueCondition>"


def write(
    folder: Path,
    place: str,
    speed: str,
    events: str = "",
    *,
    more: str = "",
    stop: str = AT_20_S,
    lasts_on: float = 0.0,
    geometry: str = STRAIGHT,
    category: str = "car",
    name: str = "tiny",
) -> Path:
    """Writes a scenario of an ego and another car, and its road; returns the scenario's file."""
    (folder / "road.xodr").write_text(ROAD.format(length=3000, geometry=geometry))
    story = STORY.format(events=events) if events else ""
    init = INIT.format(place=place, speed=speed, more=more)
    ego, other = CAR.format(name="ego", category="car"), CAR.format(name="other", category=category)
    text = SCENARIO.format(ego=ego, other=other, init=init, story=story, after=lasts_on, stop=stop)
    (folder / f"{name}.xosc").write_text(text)
    return folder / f"{name}.xosc"


def cut_in(folder: Path, gap_m: str = "$Gap_m", name: str = "cut_in") -> Path:
    """A slower car of the left lane comes in once it is `gap_m` ahead, from bumper to bumper."""
    place = '<RelativeLanePosition entityRef="Ego" dLane="1" ds="${$Gap_m + 60}" offset="0"/>'
    when = NEAR.format(tag="RelativeDistanceCondition", how='relativeDistanceType="longitudinal"', value=gap_m)
    change = event("CutIn", CHANGE.format(target='<RelativeTargetLane entityRef="Ego" value="0"/>'), when)
    return write(folder, place, RELATIVE.format(delta="${-20 / 3.6}"), change, stop=after("CutIn"), lasts_on=10.0, name=name)
