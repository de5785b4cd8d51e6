"""Makes pre-training records from text on many machines: `create_pretraining_data` as an Apache Beam pipeline.

The flags have the same meaning, and the same text, flags and seed give the same bytes as the local run, with any runner
and any number of workers. Input and output may be on any file system that Beam supports (gs://, s3://, hdfs://, local).
The arguments after -- are options of Beam: the runner and its options.

Example:
  python -m data_prep.beam_pretraining_data --input_file='gs://BUCKET/text/*.txt' --vocab_file=vocab.txt
      --output_dir=gs://BUCKET/records -- --runner=DataflowRunner --project=PROJECT --region=REGION ...

Needs the extra `beam`. docs/pretraining_data_at_scale.md explains when it is useful, what it costs, and the options for
Dataflow, Flink and Spark. To resume a failed run, give the same command again: the text is tokenised again, but
finished record files are kept.
"""

import contextlib
import logging
import os
from collections.abc import Sequence

from data_prep.pretraining import record_flags
from data_prep.pretraining.beam_runner import new_pipeline, wait_for
from data_prep.pretraining.pretraining_records import PretrainingOptions, RecordForm
from data_prep.pretraining.record_folder import PROGRESS_NAME, PretrainingDataSummary, RecordFolder
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import flags_by_name

_logger = logging.getLogger(__name__)

define_flags = record_flags.define_record_flags


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
    # These import Beam.
    from data_prep.pretraining.beam_files import BeamFiles, is_remote
    from data_prep.pretraining.beam_layout import describe_job
    from data_prep.pretraining.beam_pipeline import add_pipeline

    form = RecordForm(options or PretrainingOptions(), compression, use_v2_feature_names)
    job = describe_job(input_file, vocab_file, output_dir, num_shards, form, settings)
    files = BeamFiles()
    folder = RecordFolder(os.path.join(job.output_dir, ""), job.request, files=files)
    if finished := folder.finished_run(job.output_dir):
        _logger.warning("%s already holds these records. Nothing was done.", job.output_dir)
        return finished
    add_pipeline(pipeline, job)
    if folder.is_begun():
        folder.read_progress()
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


def main(beam_options: list[str]) -> None:
    arguments = record_flags.record_arguments() | flags_by_name("output_dir", "num_shards")
    print(beam_pretraining_data(**arguments, beam_options=beam_options))


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
