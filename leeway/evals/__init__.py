"""Conversation scripts: what people write and what goes wrong, and what must be true after each step.

`script` and `expected` are the format, `reading` reads files of it, `model` answers for a model or from a fixture,
`stage` is the installation they are played on, `acting` does a step, `record` reads what came of it, `checks` and
`invariants` judge that, `playing` plays one script, `suite` many; `report` and `tables` tell people and programs.
"""
