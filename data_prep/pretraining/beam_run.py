"""Makes pre-training records with Apache Beam: checks the folder, starts the pipeline, and explains its errors.

The modules of Beam are imported when they are needed, since Beam may not be installed.
"""

import contextlib
import logging
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from data_prep.pretraining.pretraining_plan import output_prefix
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.pretraining.record_folder import PROGRESS_NAME, PretrainingDataSummary, RecordFolder
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError, how_to_install

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

_logger = logging.getLogger(__name__)

# The text that Beam adds to error messages.
_WHERE = re.compile(r" \[while running '.*", re.S)
# An error of another process arrives as text, inside one or two tracebacks.
_INPUT_ERROR = re.compile(rf"{re.escape(InputError.__module__)}\.InputError: (.*)")


def beam_pretraining_data(
    input_file: str | Sequence[str],
    vocab_file: str | os.PathLike,
    *,
    output_dir: str,
    num_shards: int | None = None,
    options: PretrainingOptions | None = None,
    settings: TextSettings | None = None,
    compression: str = "none",
    use_v2_feature_names: bool = False,
    beam_options: Sequence[str] = (),
) -> PretrainingDataSummary:
    """Makes pre-training records from text with Apache Beam, and waits for the end.

    Args:
        input_file, output_dir: as in `create_pretraining_data`, or names on any file system of Beam.
        vocab_file: a vocab.txt, or a folder with vocab.json and merges.txt, on this machine.
        num_shards: as in `create_pretraining_data`, with the same default.
        beam_options: `--runner=...` and other options of Beam. The default is Beam's direct runner.

    Raises:
        InputError: as in `create_pretraining_data`; or Beam is not installed or does not accept the options.
    """
    pipeline = new_pipeline(beam_options)
    from data_prep.pretraining.beam_files import BeamFiles, is_remote
    from data_prep.pretraining.beam_layout import describe_job
    from data_prep.pretraining.beam_pipeline import add_pipeline

    job = describe_job(
        input_file, vocab_file, output_dir, num_shards, options, settings, compression, use_v2_feature_names
    )
    files = BeamFiles()
    folder = RecordFolder(output_prefix(None, job.output_dir), job.request, files)
    if finished := folder.finished_run(job.output_dir):
        _logger.warning("%s already holds these records. Nothing was done.", job.output_dir)
        return finished
    add_pipeline(pipeline, job)
    if folder.is_begun():
        folder.read_progress(may_replace=False)
        _logger.warning("%s was begun before. Finished files are kept.", job.output_dir)
    elif files.sizes(job.output_dir) or (os.path.isdir(job.output_dir) and os.listdir(job.output_dir)):
        raise InputError(f"The output folder {job.output_dir} is not empty. Remove it, or give another name.")
    else:
        folder.write_progress([])
    try:
        state = wait_for(pipeline)
    except Exception:
        if set(files.sizes(job.output_dir)) == {PROGRESS_NAME}:  # no file was finished
            files.remove([folder.progress_path])
            if not is_remote(job.output_dir):
                with contextlib.suppress(OSError):
                    os.rmdir(job.output_dir)  # fails unless the folder is empty
        raise
    if not (finished := folder.finished_run(job.output_dir)):
        raise InputError(f"The pipeline ended as {state} without a manifest. See the log of its runner.")
    return finished


def new_pipeline(beam_options: Sequence[str]) -> "beam.Pipeline":
    """Returns an empty pipeline. Raises `InputError` if Beam is not installed or does not accept the options."""
    _check_beam()
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        options = PipelineOptions(list(beam_options))
        return beam.Pipeline(_runner(options), options)
    except (ValueError, ImportError) as error:
        raise InputError(f"Beam does not accept {' '.join(beam_options)}: {error}") from None


def wait_for(pipeline: "beam.Pipeline") -> str:
    """Runs a pipeline, and returns its state at the end. An `InputError` in a worker is raised as such here."""
    try:
        return pipeline.run().wait_until_finish()
    except Exception as error:
        if str(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from None  # Ctrl-C reached a worker in this process
        messages = [str(error)] if isinstance(error, InputError) else _INPUT_ERROR.findall(str(error))
        if messages:
            raise InputError(_WHERE.sub("", messages[-1])) from None
        raise


def _check_beam() -> None:
    root, level = logging.getLogger(), logging.getLogger().level
    # Beam warns about missing parts that only BigQuery needs.
    root.setLevel(logging.ERROR)
    try:
        import apache_beam  # noqa: F401
    except ImportError:
        raise InputError(f"This needs Apache Beam. {how_to_install('beam')}") from None
    finally:
        root.setLevel(level)


def _runner(options: "PipelineOptions") -> "PipelineRunner | None":
    """Returns the runner, or None for the runner that the options name."""
    from apache_beam.options.pipeline_options import StandardOptions

    if options.view_as(StandardOptions).runner not in (None, "DirectRunner"):
        return None
    # Beam raises errors that it also logs, with all tracebacks.
    logging.getLogger("apache_beam.runners.common").setLevel(logging.CRITICAL)
    # Beam's DirectRunner first tries to download another runner, a separate program, before it runs this one.
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle

    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    return FnApiRunner(provision_info=ExtendedProvisionInfo(provision))
