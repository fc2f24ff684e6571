"""The JSON schema of a script, made of its form; `python -m leeway.evals.schema` writes it anew."""

import json
from pathlib import Path
from typing import Final

from leeway.evals.script import Script

FILE: Final = Path(__file__).with_name("schema.json")


def schema() -> str:
    made = Script.model_json_schema()
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "A conversation script of leeway eval"
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema(), encoding="utf-8")
