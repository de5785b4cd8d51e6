"""Imports the installed packages that add tasks and families of their own."""

from importlib.metadata import entry_points

from keras_bert.program.errors import InputError

# Such a package names its module under this group in its entry points; the module registers what it adds.
GROUP = "keras_bert"


def import_extensions() -> None:
    """Imports the modules that installed packages name as entry points of the group `keras_bert`.

    Commands call it, since nobody imports those packages for them.

    Raises:
        InputError: a module cannot be imported.
    """
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            owner = f" of the package {point.dist.name}" if point.dist else ""
            raise InputError(
                f"The extension {point.value}{owner} cannot be imported: {type(error).__name__}: {error}. Mend it, or "
                "uninstall its package."
            ) from error
