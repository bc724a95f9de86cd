"""Renders the conda recipe with rattler-build's own renderer, and prints what it would build: `make recipe`."""

from __future__ import annotations

import json
from pathlib import Path

from rattler_build import RenderConfig, Stage0Recipe, VariantConfig

RECIPE = Path(__file__).parents[1] / "recipe" / "recipe.yaml"


def main() -> None:
    recipe = Stage0Recipe.from_file(str(RECIPE))
    for variant in recipe.render(VariantConfig(), RenderConfig()):
        made = variant.recipe.to_dict()
        wants = json.dumps(made["requirements"]["run"])
        print(f"{made['package']['name']} {made['package']['version']}, {len(made['tests'])} tests, needs {wants}")


if __name__ == "__main__":
    main()
