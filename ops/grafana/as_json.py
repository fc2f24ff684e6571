"""A dashboard as Grafana's JSON (its classic model, as of versions 11 and 12)."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ops.grafana.panels import ROW_PANELS_MAX, Dashboard, Panel, Query, Row, Variable

SCHEMA_VERSION = 39  # of Grafana 11; 12 migrates it when it is loaded
COLUMNS = 24
HEIGHTS: Mapping[str, int] = {"stat": 4, "timeseries": 8}
DATASOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "leeway-prometheus"}
REFS = "ABCDEFGH"

Json = dict[str, Any]


def as_json(dashboard: Dashboard) -> Json:
    """The whole page."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.says,
        "tags": ["leeway"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "annotations": {"list": []},
        "links": [_link_to_the_others()],
        "templating": {"list": [_variable(variable) for variable in dashboard.variables]},
        "panels": _panels(dashboard.rows),
    }


def _link_to_the_others() -> Json:
    return {
        "title": "Leeway",
        "type": "dashboards",
        "icon": "external link",
        "tooltip": "",
        "tags": ["leeway"],
        "asDropdown": True,
        "targetBlank": False,
        "includeVars": True,
        "keepTime": True,
    }


def _variable(variable: Variable) -> Json:
    values = f"label_values({variable.metric}, {variable.name})"
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": dict(DATASOURCE),
        "query": {"query": values, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,  # whenever the range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",  # also what has no such label
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _panels(rows: Sequence[Row]) -> list[Json]:
    panels: list[Json] = []
    ids = count(1)
    top = 0
    for row in rows:
        assert 0 < len(row.panels) <= ROW_PANELS_MAX, f"{row.title}: one to three panels"
        panels.append(
            {
                "id": next(ids),
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": top},
                "panels": [],
            }
        )
        width = COLUMNS // len(row.panels)
        height = max(HEIGHTS[panel.kind] for panel in row.panels)
        for place, panel in enumerate(row.panels):
            position = {"h": height, "w": width, "x": place * width, "y": top + 1}
            panels.append({"id": next(ids), **_panel(panel), "gridPos": position})
        top += 1 + height
    return panels


def _panel(panel: Panel) -> Json:
    is_stat = panel.kind == "stat"
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": dict(DATASOURCE),
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _stat_options() if is_stat else _series_options(panel),
        "targets": [_target(query, ref) for query, ref in zip(panel.queries, REFS, strict=False)],
    }


def _field(panel: Panel) -> Json:
    steps = [{"color": step.colour, "value": step.value} for step in panel.steps]
    is_stat = panel.kind == "stat"
    field: Json = {
        "unit": panel.unit,
        "min": 0,
        "noValue": panel.empty,
        "color": {"mode": "thresholds" if is_stat else "palette-classic"},
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": "green" if steps else "text", "value": None}, *steps],
        },
        "mappings": [],
    }
    if panel.decimals is not None:
        field["decimals"] = panel.decimals
    if not is_stat:
        field["custom"] = {
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": 25 if panel.stacked else 5,
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if steps else "off"},
        }
    return field


def _stat_options() -> Json:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "auto",
        "textMode": "auto",
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
    }


def _series_options(panel: Panel) -> Json:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc" if panel.stacked or len(panel.queries) == 1 else "none"},
    }


def _target(query: Query, ref: str) -> Json:
    """A number over the whole range is asked once, at its end; a line at every point."""
    instant = "$__range" in query.expr
    return {
        "refId": ref,
        "datasource": dict(DATASOURCE),
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
    }
