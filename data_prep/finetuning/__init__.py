"""Makes fine-tuning records: labelled data -> examples -> records.

data_folder.py                  finds the train, dev and test files of a folder
tables.py                       reads the rows of TSV, CSV, JSON Lines, Parquet and tensorflow_datasets
text_batches.py                 reads texts with ids and further columns, as record batches of Arrow
annotation_tools.py             tasks of Label Studio and answers of Prodigy -> plain rows
complete_rows.py                reports rows that miss a value, or leaves them out
labelled_text.py                reads texts with labels, sets of labels, scores or choices
glue.py                         the GLUE tasks by name: files, columns and labels
conll.py                        reads words with tags from CoNLL columns, JSON and Parquet
span_rows.py                    reads texts with spans of Doccano, spaCy, Prodigy and Label Studio
squad.py                        reads questions about contexts from SQuAD files
search_collections.py           reads documents, queries and what is relevant from BEIR folders and tables
finetuning_task.py              the options of all tasks, and the base class of the four tasks below
classification_records.py       texts or pairs with labels or scores -> records
multiple_choice_records.py      prompts with choices -> records
tagging_records.py              words with tags -> records
question_answering_records.py   questions about contexts -> windows, and a map back to the text
"""
