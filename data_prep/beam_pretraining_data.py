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

from data_prep.pretraining import record_flags
from data_prep.pretraining.beam_run import beam_pretraining_data
from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import flags_by_name

__all__ = ["beam_pretraining_data", "command"]

define_flags = record_flags.define_record_flags


def main(beam_options: list[str]) -> None:
    arguments = record_flags.record_arguments() | flags_by_name("output_dir", "num_shards")
    print(beam_pretraining_data(**arguments, beam_options=beam_options))


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
