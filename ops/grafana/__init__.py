"""The dashboards as tables (a module each), and what makes Grafana's JSON of them: `python -m ops.grafana`."""
