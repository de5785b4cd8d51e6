"""Says why a module of this project is not found: another folder hides it, or the small install does not have it.

Both finders are the last in `sys.meta_path`: they are asked for what no other finder has found.
"""

import pathlib
import sys
from collections.abc import Sequence

from keras_bert.program.errors import IS_SMALL, InputError


class HiddenPackage:
    """Finds nothing, and names the folder of somebody else that hides a package of this project.

    `python -m run_scripts.run_ner` imports from the current folder first. If a folder `data_prep` is there, Python says
    only "No module named 'data_prep.finetuning'".

    Args:
        name: the package that can be hidden, such as "data_prep".
        folder: the folder of that package in this project.
    """

    def __init__(self, name: str, folder: pathlib.Path):
        self._name = name
        self._folder = folder.resolve()

    def find_spec(self, module: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """Raises `ModuleNotFoundError` if the project has the module, and another folder was searched for it."""
        parent, _, child = module.rpartition(".")
        if parent != self._name or not path or self._folder in [pathlib.Path(folder).resolve() for folder in path]:
            return
        if (self._folder / child).is_dir() or (self._folder / f"{child}.py").is_file():
            raise ModuleNotFoundError(
                f"The folder {pathlib.Path(next(iter(path))).resolve()} hides the package {parent} of keras_bert, "
                f"which is {self._folder}. Run the command in another folder, or by its name, such as "
                "keras-bert-run-classifier: that does not import from the current folder.",
                name=module,
            )


class LeftOut(InputError, ModuleNotFoundError):
    """The small install, which runtime/setup.py builds, does not have this module."""


class _LeftOutModules:
    def find_spec(self, name: str, path=None, target=None) -> None:
        if name.partition(".")[0] in ("keras_bert", "data_prep", "run_scripts"):
            raise LeftOut(
                f"The small install of keras_bert, which runs exports only, does not have {name}. Install the full "
                "package in its place: run in a clone of keras_bert: pip install ."
            )


def explain_left_out_modules() -> None:
    """Lets the import of a module that the small install leaves out say so. Does nothing in the full package."""
    if IS_SMALL:
        sys.meta_path.append(_LeftOutModules())
