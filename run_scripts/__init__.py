"""The commands: each reads flags and calls the library.

command_names.py          the modules of all commands, in the order of the data flow
__main__.py               keras-bert: lists the commands, and runs one
quickstart.sh             the whole pipeline on real text
quickstart.py             keras-bert-quickstart: runs quickstart.sh without a clone
run_pretraining.py        records -> model folder
run_language_model.py     streams of text -> language model with a memory
adapt_to_domain.py        a pre-trained model and the text of a domain -> the model adapted to the domain
launch_workers.py         starts several training workers on one machine
run_classifier.py         labelled texts -> classifier
run_ner.py                tagged words -> tagger
run_squad.py              questions with contexts -> question answering model
evaluate_squad.py         predicted answers -> official SQuAD scores
run_multiple_choice.py    prompts with choices -> multiple choice model
run_text_to_text.py       sources with targets -> model that writes text
run_embeddings.py         pairs, triplets, scores or labels -> sentence encoder
convert_checkpoint.py     a checkpoint of any format -> any other format
fill_mask.py              likely tokens for [MASK]
generate_text.py          a prompt -> text
embed_sentences.py        texts or a table -> their vectors, in files of Arrow or Parquet
predict_table.py          a table -> the answers of any model, in such files
beam_parts.py             writes such files with Apache Beam
extract_features.py       texts -> vectors of tokens, layer by layer
search_sentences.py       a query -> the most similar texts
evaluate_search.py        a judged collection -> scores of searches in it
word_senses.py            sentences with a word -> a picture of its senses
summarize.py              a text -> its main sentences
export_model.py           model folder -> SavedModel
ask_saved_model.py        texts -> answers of a SavedModel, or of another export
check_saved_model.py      a SavedModel -> problems that TensorFlow Serving would have with it
make_serving_kit.py       a SavedModel -> a folder that TensorFlow Serving starts from
serve.py                  SavedModels -> a development server with a page
query_server.py           texts -> answers of a model on a server
run_flags.py              flags for devices, precision, a teacher and layers, shared by the training commands
fine_tuning_flags.py      the flags that the fine-tuning commands share, and the work that they ask for
asked_models.py           opens the model of a command: a checkpoint, or an exported folder; and rerankers
readable_answers.py       outputs of any exported model as text
questions.py              flags and input lines of the commands that ask a model
documentation_corpus.py   quickstart: writes a text from the documentation of installed packages
quickstart_text.py        quickstart: checks that there is enough text
quickstart_report.py      quickstart: the final tables and the loss curves
"""

import pathlib
import sys

from keras_bert.program.missing_modules import HiddenPackage

sys.meta_path.append(HiddenPackage("data_prep", pathlib.Path(__file__).parent.parent / "data_prep"))
