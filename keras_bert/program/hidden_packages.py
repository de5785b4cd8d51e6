"""Says which folder of somebody else hides a package of this project."""

import pathlib
from collections.abc import Sequence


class HiddenPackage:
    """A finder of modules, the last in `sys.meta_path`: it is asked for what no other finder has found.

    `python -m run_scripts.run_ner` imports from the current folder first. If a folder `data_prep` is there, Python says
    only "No module named 'data_prep.finetuning'". This finder names that folder.

    Args:
        name: the package that can be hidden, such as "data_prep".
        folder: the folder of that package in this project.
    """

    def __init__(self, name: str, folder: pathlib.Path):
        self._name = name
        self._folder = folder.resolve()

    def find_spec(self, module: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """Finds nothing.

        Raises:
            ModuleNotFoundError: the project has the module, and another folder was searched for it.
        """
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
