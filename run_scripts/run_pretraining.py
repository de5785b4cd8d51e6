"""Pre-trains a BERT on TFRecords and writes a model folder and eval_results.txt.

From scratch, with the records of data_prep/create_pretraining_data.py (or those of Google's script):

    run_pretraining --input_file='records/*.tfrecord' --size=tiny --vocab_file=vocab.txt \\
        --output_dir=runs/tiny --do_train --do_eval --num_train_steps=2000 --num_warmup_steps=200 --learning_rate=1e-3

It trains on all records that create_pretraining_data writes: packed rows, records without a sentence task, gzip and
zstd. Records without masks (--dynamic_masking there) get new masks in every epoch; the masking flags are for these
only.

Long sequences after short ones, in one run (batch size, learning rate and share of warm-up are those of the first phase
by default; the evaluation is that of the second phase):

    run_pretraining --input_file='short/*.tfrecord' --max_seq_length=128 --num_train_steps=900000 ... \\
        --input_file_phase2='long/*.tfrecord' --max_seq_length_phase2=512 --num_train_steps_phase2=100000

With --objective=replaced_tokens it trains an ELECTRA: output_dir/model has the discriminator, which is an encoder for
all tasks, and the generator.

A finished run goes on with --extend_to=STEPS: with the moments of its optimizer and a new rise of the learning rate.

If the command is killed or stopped, the same command resumes from the newest checkpoint in output_dir. The trained
model is in output_dir/model, which can be the --init_checkpoint of this command and of run_classifier.
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import (
    define_option_flags,
    flag_values,
    flags_by_name,
    given_values,
    options_of_flags,
    refuse_unneeded_flags,
)
from keras_bert.records.masked_positions import REPLACEMENT_TOKENS, MaskingOptions
from keras_bert.training.distillation import Distillation
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase
from run_scripts.run_flags import (
    check_distillation_flags,
    define_device_flags,
    define_keep_layers_flag,
    distillation_of_flags,
    set_precision,
    strategy_of_flags,
)

FLAGS = flags.FLAGS

_OF_RECORDS = ("max_predictions_per_seq",)  # an option of masking that is not only for records without masks
# The names in `ElectraPretrainer`.
_ELECTRA_FLAGS = ("generator_hidden_size", "generator_layers", "disc_weight")
_SECOND = "_phase2"  # the end of the flags of a second phase, as in NVIDIA's scripts


def define_flags() -> None:
    flags.DEFINE_string("input_file", None, "TFRecord files to train on: names and globs, separated by commas.")
    flags.DEFINE_string("eval_input_file", None, "TFRecord files to evaluate on (default: those of the last phase).")
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of a run to resume.")
    flags.DEFINE_string("bert_config_file", None, "bert_config.json of the model. Not needed with init_checkpoint.")
    help = "Instead of bert_config_file: tiny, mini, small, medium, base, large, or that of a family: roberta-base."
    flags.DEFINE_string("size", None, help)
    help = "The vocabulary of the records, for the model folder: a vocab.txt, or a folder with a vocabulary."
    flags.DEFINE_string("vocab_file", None, help)
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format to start from, instead of random weights.")
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_eval", False, "Evaluate after the training; with eval_input_file also while training.")
    flags.DEFINE_integer("eval_batch_size", 8, "Sequences per evaluation step.")
    flags.DEFINE_integer("max_eval_steps", 100, "The largest number of evaluation steps.")
    flags.DEFINE_boolean("keep_best", False, "Keep the model with the lowest loss on eval_input_file.")
    flags.DEFINE_float("generator_hidden_size", None, "ELECTRA: the generator's share of the width (default: 0.25).")
    flags.DEFINE_float("generator_layers", None, "ELECTRA: the generator's share of the layers (default: 1).")
    flags.DEFINE_float("disc_weight", None, "ELECTRA: the weight of the discriminator's loss (default: 50).")
    define_option_flags(PretrainingRunOptions)
    define_device_flags()
    define_option_flags(Distillation)
    define_keep_layers_flag()
    define_option_flags(PretrainingPhase, suffix=_SECOND, purpose="Second phase: ", has_defaults=False)
    define_option_flags(MaskingOptions, but=_OF_RECORDS, purpose="Records without masks: ", has_defaults=False)
    help = "Records without masks: draw random tokens from those of texts (default), or from the whole vocabulary."
    flags.DEFINE_enum("replacement_tokens", None, list(REPLACEMENT_TOKENS), help)
    flags.mark_flags_as_required(["input_file", "output_dir"])


def _second_phase() -> PretrainingPhase | None:
    """Returns the second phase of the flags, or None if there is none."""
    given = flag_values(PretrainingPhase, suffix=_SECOND)
    if not any(value is not None for value in given.values()):
        return None
    for name, flag in (("train_files", "input_file"), ("num_train_steps", "num_train_steps")):
        if given[name] is None:
            raise InputError(
                f"A second phase needs --input_file_phase2 and --num_train_steps_phase2. Give --{flag}{_SECOND}."
            )
    return PretrainingPhase(**given)


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("Nothing to do. Give --do_train, --do_eval or both.")
    refuse_unneeded_flags(MaskingOptions)
    refuse_flags_without_effect(
        FLAGS.ngram_distribution != "inverse", "with --ngram_distribution=inverse", "ngram_geometric_p"
    )
    check_distillation_flags()
    refuse_flags_without_effect(
        FLAGS.do_train, "without --do_train", "extend_to", "masked_lm_prob_end", "initialization"
    )
    refuse_flags_without_effect(
        FLAGS.objective == "replaced_tokens", "without --objective=replaced_tokens", *_ELECTRA_FLAGS
    )
    if (FLAGS.keep_best or FLAGS.eval_steps) and not (FLAGS.do_train and FLAGS.do_eval and FLAGS.eval_input_file):
        raise InputError(
            "--keep_best and --eval_steps need records that the model is not trained on. Give --do_train, --do_eval "
            "and --eval_input_file."
        )

    if FLAGS.size and FLAGS.bert_config_file:
        raise InputError("--size and --bert_config_file both say the shape of the model. Give one of them.")
    refuse_flags_without_effect(FLAGS.do_train and not FLAGS.init_checkpoint, "unless the model is new", "size")
    refuse_flags_without_effect(FLAGS.vocab_file, "without --vocab_file, whose length the model needs", "size")

    with strategy_of_flags().scope():
        _train_and_evaluate()


def _train_and_evaluate() -> None:
    from keras_bert.checkpoints.casing import is_cased
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.config import BertConfig
    from keras_bert.records.form import read_form
    from keras_bert.records.manifests import check_vocabulary
    from keras_bert.tokenization.kinds import load_vocabulary
    from keras_bert.training.pretraining import evaluate_pretrainer, train_pretrainer
    from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
    from keras_bert.training.starting_point import StartingPoint

    set_precision()
    second_phase = _second_phase()
    eval_files = FLAGS.eval_input_file or (second_phase.train_files if second_phase else FLAGS.input_file)
    of_last_phase = second_phase or FLAGS
    eval_lengths = {name: getattr(of_last_phase, name) for name in ("max_seq_length", "max_predictions_per_seq")}
    masking = given_values(MaskingOptions, but=_OF_RECORDS)
    if FLAGS.replacement_tokens is not None:
        masking["replacement_tokens"] = FLAGS.replacement_tokens
    eval_masking = masking
    vocabulary = load_vocabulary(FLAGS.vocab_file) if FLAGS.vocab_file else None
    if FLAGS.do_eval:
        # Checked before the training, so that errors appear early.
        eval_records, eval_form = read_form(eval_files, **eval_lengths)
        if FLAGS.do_train and eval_form.max_predictions_per_seq:
            eval_masking = None  # the flags are for the training records
        trained_with = vocabulary
        if FLAGS.do_train and FLAGS.init_checkpoint and vocabulary is None:
            trained_with = read_checkpoint(FLAGS.init_checkpoint).vocabulary
        if FLAGS.do_train and trained_with is not None:
            check_vocabulary(eval_records, trained_with)
    evaluated = {
        **eval_lengths,
        "vocabulary": vocabulary,
        "masking": eval_masking,
        **flags_by_name("eval_batch_size", "max_eval_steps"),
    }
    if FLAGS.do_train:
        watched = PretrainingEvaluation(eval_files, **evaluated) if FLAGS.do_eval and FLAGS.eval_input_file else None
        options = options_of_flags(
            PretrainingRunOptions,
            masking=masking,
            model_arguments={name: FLAGS[name].value for name in _ELECTRA_FLAGS if FLAGS[name].value is not None},
            second_phase=second_phase,
            evaluation=watched,
            keep_best=watched if FLAGS.keep_best else None,
            distillation=distillation_of_flags(),
        )
        config = BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None
        if FLAGS.size:
            casing = {"do_lower_case": False} if is_cased(vocabulary) else {}
            config = BertConfig.from_size(FLAGS.size, len(vocabulary), **casing)
        start = StartingPoint(config, vocabulary, FLAGS.init_checkpoint, keep_layers=FLAGS.keep_layers)
        train_pretrainer(FLAGS.output_dir, FLAGS.input_file, start, options)
    if FLAGS.do_eval:
        evaluate_pretrainer(
            FLAGS.output_dir, eval_files, init_checkpoint=FLAGS.init_checkpoint, objective=FLAGS.objective, **evaluated
        )


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
