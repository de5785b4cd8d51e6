"""Checks the assets: the files that the graph reads."""

import os
from collections.abc import Iterator

from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error

ASSET_FOLDER = "assets"


def check_assets(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about missing files that the graph reads."""
    for asset in model.meta_graph.asset_file_def:
        name = asset.filename
        where = f"{ASSET_FOLDER}/{name}"
        if os.path.isabs(name) or ".." in name.split("/"):
            happens = "The name of the file points outside the model. The file is missing on a server: loading fails."
            yield error("absolute-path", where, happens, "export the model again.")
        elif not os.path.isfile(os.path.join(model.folder, ASSET_FOLDER, name)):
            happens = "The graph reads this file, but it is missing: loading fails with No such file or directory."
            yield error("missing-asset", where, happens, "copy the whole folder again, or export it anew.")
