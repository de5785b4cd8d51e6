"""Pre-trains a BERT on TFRecords and writes a model folder and eval_results.txt.

From scratch, with the records of data_prep/create_pretraining_data.py (or those of Google's script):

    run_pretraining --input_file='records/*.tfrecord' --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
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

If the command is killed or stopped, the same command resumes from the newest checkpoint in output_dir. The trained
model is in output_dir/model, which can be the --init_checkpoint of this command and of run_classifier.
"""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError
from keras_bert.training.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from run_scripts.distillation_flags import (
    check_distillation_flags,
    define_distillation_flags,
    distillation_of_flags,
    layer_numbers,
)
from run_scripts.optimizer_flags import define_optimizer_flags, optimizer_choice, set_precision
from run_scripts.run_flags import define_run_flags, run_options, strategy_of_flags

FLAGS = flags.FLAGS

# The names in create_pretraining_data.
_MASKING_FLAGS = (
    "masked_lm_prob",
    "do_whole_word_mask",
    "max_ngram_size",
    "ngram_distribution",
    "ngram_geometric_p",
    "whole_word_actions",
    "replacement_tokens",
)
# The names in `ElectraPretrainer`.
_ELECTRA_FLAGS = ("generator_hidden_size", "generator_layers", "disc_weight")
# The options of a second phase; all end in _phase2, as in NVIDIA's scripts.
_PHASE_FLAGS = (
    "input_file",
    "num_train_steps",
    "num_warmup_steps",
    "train_batch_size",
    "learning_rate",
    "max_seq_length",
    "max_predictions_per_seq",
)


def define_flags() -> None:
    flags.DEFINE_string("input_file", None, "TFRecord files to train on: names and globs, separated by commas.")
    flags.DEFINE_string(
        "eval_input_file", None, "TFRecord files to evaluate on. The default is those of the last phase."
    )
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of a run to resume.")
    flags.DEFINE_string("bert_config_file", None, "bert_config.json of the model. Not needed with init_checkpoint.")
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The vocabulary of the records, which is copied to the model folder: a vocab.txt, or a folder with it or with "
        "the vocab.json and merges.txt of byte-level BPE.",
    )
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format to start from, instead of random weights.")
    flags.DEFINE_integer("max_seq_length", None, "The sequence length of the records. By default it is read from them.")
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        None,
        "The number of masked positions in the records, by default read from them; without masks, enough for all.",
    )
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_eval", False, "Evaluate, after the training if there is one.")
    flags.DEFINE_integer("train_batch_size", 32, "Sequences per update.")
    flags.DEFINE_integer("eval_batch_size", 8, "Sequences per evaluation step.")
    flags.DEFINE_float("learning_rate", 5e-5, "The highest learning rate.")
    flags.DEFINE_float(
        "adam_beta_2", 0.999, "Adam's decay rate of the mean of squared gradients; 0.98 helps in short training."
    )
    flags.DEFINE_integer("num_train_steps", 100_000, "The number of updates.")
    flags.DEFINE_integer("num_warmup_steps", 10_000, "The number of updates in which the learning rate rises.")
    flags.DEFINE_integer("max_eval_steps", 100, "The largest number of evaluation steps.")
    flags.DEFINE_boolean(
        "keep_best", False, "Evaluate on eval_input_file while training, and keep the model with the lowest loss."
    )
    flags.DEFINE_integer("eval_steps", 0, "Updates between these evaluations (default: save_checkpoints_steps).")
    flags.DEFINE_enum(
        "objective",
        DEFAULT_OBJECTIVE,
        list(OBJECTIVES),
        "What is learnt: masked tokens and, if the records have them, next sentences (masked_lm), also the tokens "
        "of masked spans from the tokens beside them (span_boundary: SpanBERT), or which tokens a small masked LM has "
        "replaced (replaced_tokens: ELECTRA).",
    )
    flags.DEFINE_float(
        "generator_hidden_size", None, "ELECTRA: the hidden size of the generator, as a fraction (default: 0.25)."
    )
    flags.DEFINE_float(
        "generator_layers", None, "ELECTRA: the number of layers of the generator, as a fraction (default: 1)."
    )
    flags.DEFINE_float("disc_weight", None, "ELECTRA: the weight of the discriminator's loss (default: 50).")
    flags.DEFINE_integer(
        "mem_len",
        0,
        "XLNet, above 0: the tokens of the rows before that a row attends to, on records with --num_streams equal to "
        "--train_batch_size.",
        lower_bound=0,
    )
    flags.DEFINE_integer("random_seed", 12345, "Seed of the weights, the dropout and the order of the records.")
    define_optimizer_flags()
    define_distillation_flags()
    flags.DEFINE_list("keep_layers", None, "Keep only these layers of init_checkpoint, numbered from 0.")
    define_run_flags()
    _define_flags_of_the_second_phase()
    flags.DEFINE_float("masked_lm_prob", None, "Records without masks: share of the tokens to predict (default: 0.15).")
    flags.DEFINE_boolean("do_whole_word_mask", None, "Records without masks: mask all pieces of a word together.")
    flags.DEFINE_integer("max_ngram_size", None, "Records without masks: mask spans of up to this many whole words.")
    flags.DEFINE_enum(
        "ngram_distribution",
        None,
        ["geometric", "inverse"],
        "With --max_ngram_size: the distribution of span lengths, geometric (default) or inverse, ~ 1/n.",
    )
    flags.DEFINE_float("ngram_geometric_p", None, "Parameter of the geometric distribution (default: 0.2).")
    flags.DEFINE_boolean(
        "whole_word_actions",
        None,
        "Records without masks: choose between [MASK], the same and a random token once per word or span.",
    )
    flags.DEFINE_enum(
        "replacement_tokens",
        None,
        ["text", "vocabulary"],
        "Records without masks: draw random tokens from those that text can contain, or from the whole vocabulary "
        "(default: text).",
    )
    flags.DEFINE_float(
        "stuck_input_seconds", 300.0, "Report what the run waits for when a batch takes longer than this."
    )
    flags.mark_flags_as_required(["input_file", "output_dir"])


def _define_flags_of_the_second_phase() -> None:
    flags.DEFINE_string("input_file_phase2", None, "TFRecord files to train on afterwards, as a second phase.")
    flags.DEFINE_integer("num_train_steps_phase2", None, "The number of updates of the second phase.")
    flags.DEFINE_integer(
        "num_warmup_steps_phase2", None, "The updates of the second phase in which the learning rate rises."
    )
    flags.DEFINE_integer("train_batch_size_phase2", None, "Sequences per update in the second phase.")
    flags.DEFINE_float("learning_rate_phase2", None, "The highest learning rate of the second phase.")
    flags.DEFINE_integer("max_seq_length_phase2", None, "As max_seq_length, for the second phase.")
    flags.DEFINE_integer("max_predictions_per_seq_phase2", None, "As max_predictions_per_seq, for the second phase.")


def _second_phase():
    """Returns the `PretrainingPhase` of the flags, or None if there is no second phase."""
    from keras_bert.training.pretraining_phase import PretrainingPhase

    given = {name: FLAGS[f"{name}_phase2"].value for name in _PHASE_FLAGS}
    if not any(value is not None for value in given.values()):
        return None
    for name in ("input_file", "num_train_steps"):
        if given[name] is None:
            raise InputError(
                f"A second phase needs --input_file_phase2 and --num_train_steps_phase2. Give --{name}_phase2."
            )
    return PretrainingPhase(given.pop("input_file"), **given)


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("Nothing to do. Give --do_train, --do_eval or both.")
    refuse_flags_without_effect(
        FLAGS.max_ngram_size, "without --max_ngram_size", "ngram_geometric_p", "ngram_distribution"
    )
    refuse_flags_without_effect(
        FLAGS.ngram_distribution != "inverse", "with --ngram_distribution=inverse", "ngram_geometric_p"
    )
    check_distillation_flags()
    refuse_flags_without_effect(
        FLAGS.objective == "replaced_tokens", "without --objective=replaced_tokens", *_ELECTRA_FLAGS
    )
    if (FLAGS.keep_best or FLAGS.eval_steps) and not (FLAGS.do_train and FLAGS.do_eval and FLAGS.eval_input_file):
        raise InputError(
            "--keep_best needs records that the model is not trained on. Give --do_train, --do_eval and "
            "--eval_input_file."
        )

    with strategy_of_flags().scope():
        _train_and_evaluate()


def _train_and_evaluate() -> None:
    from keras_bert.config import BertConfig
    from keras_bert.records.form import read_form
    from keras_bert.records.manifests import check_vocabulary
    from keras_bert.tokenization.kinds import load_vocabulary
    from keras_bert.training.pretraining import evaluate_pretrainer, train_pretrainer
    from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
    from keras_bert.training.pretraining_options import PretrainingRunOptions
    from keras_bert.training.starting_point import StartingPoint

    set_precision()
    second_phase = _second_phase()
    lengths = {
        "max_seq_length": FLAGS.max_seq_length,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
    }
    eval_files, eval_lengths = FLAGS.eval_input_file or FLAGS.input_file, lengths
    if second_phase:
        eval_files = FLAGS.eval_input_file or second_phase.train_files
        eval_lengths = {name: getattr(second_phase, name) for name in lengths}
    masking = {name: FLAGS[name].value for name in _MASKING_FLAGS if FLAGS[name].value is not None}
    eval_masking = masking
    vocabulary = load_vocabulary(FLAGS.vocab_file) if FLAGS.vocab_file else None
    if FLAGS.do_eval:
        # Checked before the training, so that errors appear early.
        eval_records, eval_form = read_form(eval_files, **eval_lengths)
        if FLAGS.do_train and eval_form.max_predictions_per_seq:
            eval_masking = None  # the flags are for the training records
        if FLAGS.do_train and (trained_with := vocabulary or _vocabulary_of_checkpoint()):
            check_vocabulary(eval_records, trained_with)
    evaluated = {
        **eval_lengths,
        "vocabulary": vocabulary,
        "masking": eval_masking,
        "eval_batch_size": FLAGS.eval_batch_size,
        "max_eval_steps": FLAGS.max_eval_steps,
    }
    if FLAGS.do_train:
        options = PretrainingRunOptions(
            **lengths,
            masking=masking,
            train_batch_size=FLAGS.train_batch_size,
            learning_rate=FLAGS.learning_rate,
            adam_beta_2=FLAGS.adam_beta_2,
            num_train_steps=FLAGS.num_train_steps,
            num_warmup_steps=FLAGS.num_warmup_steps,
            **run_options(),
            gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
            mem_len=FLAGS.mem_len,
            objective=FLAGS.objective,
            model_arguments={name: FLAGS[name].value for name in _ELECTRA_FLAGS if FLAGS[name].value is not None},
            seed=FLAGS.random_seed,
            optimizer=optimizer_choice(),
            second_phase=second_phase,
            stuck_input_seconds=FLAGS.stuck_input_seconds,
            keep_best=PretrainingEvaluation(eval_files, **evaluated) if FLAGS.keep_best or FLAGS.eval_steps else None,
            eval_steps=FLAGS.eval_steps,
            distillation=distillation_of_flags(),
        )
        config = BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None
        layers = layer_numbers("keep_layers")
        start = StartingPoint(config, vocabulary, FLAGS.init_checkpoint, keep_layers=layers)
        train_pretrainer(FLAGS.output_dir, FLAGS.input_file, start, options)
    if FLAGS.do_eval:
        evaluate_pretrainer(
            FLAGS.output_dir, eval_files, init_checkpoint=FLAGS.init_checkpoint, objective=FLAGS.objective, **evaluated
        )


def _vocabulary_of_checkpoint():
    """Returns the vocabulary of --init_checkpoint, or None."""
    from keras_bert.checkpoints.formats import read_checkpoint

    return read_checkpoint(FLAGS.init_checkpoint).vocabulary if FLAGS.init_checkpoint else None


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
