"""Starts pipelines of Apache Beam, and explains their errors.

The modules of Beam are imported when they are needed, since Beam may not be installed.
"""

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_bert.program.errors import InputError, how_to_install

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

# The text that Beam adds to error messages.
_WHERE = re.compile(r" \[while running '.*", re.S)
# An error of another process arrives as text, inside one or two tracebacks.
_INPUT_ERROR = re.compile(rf"{re.escape(InputError.__module__)}\.InputError: (.*)")


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
