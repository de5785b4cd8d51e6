"""What the workers of a Beam pipeline must know of a run, and the checks before it."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_prep.pretraining import pretraining_plan as plan
from data_prep.pretraining.beam_files import is_remote, source_sizes
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.text.corpus import as_patterns
from data_prep.tokenized.corpus_writer import TextSource, empty_manifest
from data_prep.tokenized.document_filters import in_effect
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tokenization.tokenizer import Tokenizer

# The name of the counters that the runner shows.
COUNTERS = "keras_bert"


@dataclasses.dataclass(frozen=True)
class BeamJob:
    """The description of a run, which all workers get.

    Args:
        input_file: names and patterns, as the user gave them.
        sources: the sources that match, in reading order.
        corpus_manifest: the manifest of an empty corpus, as the local run would write it.
        request: everything that determines the records, for the manifest.
    """

    input_file: list[str]
    sources: list[str]
    tokenizer: Tokenizer
    settings: TextSettings
    options: PretrainingOptions
    output_dir: str
    num_shards: int | None
    compression: str
    use_v2_feature_names: bool
    corpus_manifest: dict[str, Any]
    request: dict[str, Any]

    @property
    def record(self) -> list[features.Feature]:
        """The features, with the names that they have in the files."""
        return features.with_garden_names(self.options.features) if self.use_v2_feature_names else self.options.features

    @property
    def token_dtype(self) -> np.dtype:
        return np.dtype(self.corpus_manifest["token_dtype"])


def describe_job(
    input_file: str | Sequence[str],
    vocab_file: str | os.PathLike,
    output_dir: str,
    num_shards: int | None,
    options: PretrainingOptions | None,
    settings: TextSettings | None,
    compression: str,
    use_v2_feature_names: bool,
) -> BeamJob:
    """Checks everything that can be checked before the run, and returns the job."""
    options = options or PretrainingOptions()
    check_whole("num_shards", num_shards, at_least=1, or_none=True)
    tokenizer, settings = plan.check_arguments(vocab_file, settings, options, compression)
    if settings.drop_near_duplicates:
        raise InputError(
            "drop_near_duplicates compares each document with all before it, so one process must see them in order. "
            "Use create_pretraining_data instead of Beam, or leave it out."
        )
    if not input_file:
        raise InputError("Give input_file, the text to read.")
    if not output_dir:
        raise InputError("Give output_dir, the folder for the records.")
    output_dir = os.fspath(output_dir)
    if not is_remote(output_dir):
        # Workers may have other working directories.
        output_dir = os.path.abspath(output_dir)
        plan.check_output(None, output_dir)
    patterns = as_patterns(input_file)
    sizes = source_sizes(patterns)
    source = TextSource(patterns, sizes, dataclasses.asdict(settings))
    manifest = {name: value for name, value in empty_manifest(tokenizer, source).items() if name != "parts"}
    text = {"input_file": patterns, "input_bytes": source.num_bytes, **in_effect(dataclasses.asdict(settings))}
    text["vocabulary_sha256"] = tokenizer.sha256
    return BeamJob(
        input_file=patterns,
        sources=list(sizes),
        tokenizer=tokenizer,
        settings=settings,
        options=options,
        output_dir=output_dir,
        num_shards=num_shards,
        compression=compression,
        use_v2_feature_names=use_v2_feature_names,
        corpus_manifest=manifest,
        request=plan.describe_request(text, options, compression, use_v2_feature_names, num_shards),
    )
