"""Training runs, which take more than one step.

pretraining.py              the pre-training run
pretraining_options.py      the options of a pre-training run, and its objectives by name
pretraining_phase.py        one phase of pre-training: records of one length
pretraining_evaluation.py   evaluates a pre-trainer on records
language_modeling.py        the run of a language model on streams of text, and its evaluation
fine_tuning.py              the fine-tuning run of every task, and that of a classifier on a few texts per label
fine_tuning_options.py      the options of a fine-tuning run, and of a grid of runs
finished_runs.py            evaluates and predicts with the model of a finished run, for every task
question_answering.py       the additional files of question answering runs
distillation.py             the teacher of a run and what its student learns from it
extension.py                goes on with a finished pre-training run
run_options.py              the options of all runs, and those of a language model's run
starting_point.py           starts a run from random weights or from a model folder
optimizer_choice.py         selects optimiser, learning rates and weight averaging
strategies.py               the devices of a run by name, and communication between workers
run_folder.py               the folder of a run: settings, checkpoints, results
run_card.py                 the command, data sizes and scores in the model card
resumable_fit.py            model.fit that continues an interrupted run
checkpointing.py            saves checkpoints, regularly and after SIGTERM
evaluations.py              evaluates while training; keeps the best weights; early stopping
time_budget.py              ends a run after a number of hours, with the learning rate at its end
grid.py                     runs with different settings, and their comparison
callbacks.py                progress line; log and learning curves; stops at a loss that is not a number
tensorboard_log.py          writes the log for TensorBoard
input_probe.py              measures how long a step waits for its input
host_batches.py             the same on JAX, where a thread reads batches ahead
gradient_norm.py            the gradient norm before clipping
throughput.py               counts the model's operations and measures the peak of the device
"""
