"""Sources and the targets to write for them: translation, summaries.

entry.py            what checkpoints and exports must know of the task
model.py            TextToText: writes a target for a source
beam_search.py      greedy and beam search
signatures.py       the signatures of its SavedModels
examples.py         checked examples
scores.py           BLEU and ROUGE
answers.py          written texts, from the outputs of a model or of a server
search_options.py   the options of a search
task.py             the task for `TextToText`
checkpoint.py       its folders of transformers, and how it starts from other checkpoints
"""
