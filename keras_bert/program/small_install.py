"""Says in the small install, which runtime/setup.py builds, what it leaves out: all that makes or trains models."""

import sys

from keras_bert.program.errors import IS_SMALL, InputError


class LeftOut(InputError, ModuleNotFoundError):
    """The small install does not have this module."""


class _LeftOutModules:
    """A finder of modules, the last in `sys.meta_path`: it is asked for what no other finder has found."""

    def find_spec(self, name: str, path=None, target=None) -> None:
        """Raises `LeftOut` for a module of this project."""
        if name.partition(".")[0] in ("keras_bert", "data_prep", "run_scripts"):
            raise LeftOut(
                f"The small install of keras_bert, which runs exports only, does not have {name}. Install the full "
                "package in its place: run in a clone of keras_bert: pip install ."
            )


def explain_left_out_modules() -> None:
    """Lets the import of a module that the small install leaves out say so. Does nothing in the full package."""
    if IS_SMALL:
        sys.meta_path.append(_LeftOutModules())
