"""Pre-training on byte-level BPE and SentencePiece: text -> records -> a RoBERTa, by the commands' functions."""

import json

import numpy as np
import pytest
from example_records import unmasked
from tiny_families import IDS, byte_pairs, config, modern_byte_pairs, sentence_pieces

from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.records.datasets import pretraining_dataset
from keras_bert.records.masking import MaskingVocabulary

TOKENIZER = byte_pairs()
DOCUMENTS = [["the fox the dog", "a fox, the dog"], ["dog the fox"], ["the the fox dog fox", "foxes", "the dog"]] * 20


@pytest.fixture
def made(tmp_path):
    """Returns a function from options to the records made with them, as one batch of arrays."""
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in DOCUMENTS) + "\n")

    def make(tokenizer=TOKENIZER, **options):
        tokenizer.save(tmp_path / "tokenizer")
        create_pretraining_data(
            str(tmp_path / "text.txt"),
            str(tmp_path / "tokenizer"),
            output_dir=str(tmp_path / "records"),
            options=PretrainingOptions(max_seq_length=24, max_predictions_per_seq=8, dupe_factor=2, **options),
        )
        pattern = str(tmp_path / "records" / "*.tfrecord")
        dataset = pretraining_dataset(pattern, batch_size=8, shuffle=False, repeat=False, vocabulary=tokenizer)
        batches = list(dataset.as_numpy_iterator())
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    return make


def test_full_sentences_begin_and_end_as_roberta_has_them(made):
    batch = made(sentence_task="none", masked_lm_prob=0.2)
    ids, lengths = unmasked(batch)[0], batch["input_mask"].sum(axis=1)
    assert (ids[:, 0] == TOKENIZER.cls_id).all()
    assert (ids[np.arange(len(ids)), lengths - 1] == TOKENIZER.sep_id).all()
    assert (ids[np.arange(24) >= lengths[:, None]] == TOKENIZER.pad_id).all()
    # Sentences follow each other as in the text, with </s> between documents.
    documents = [" ".join(lines) for lines in DOCUMENTS]
    for row, length in zip(ids, lengths, strict=True):
        for part in TOKENIZER.decode(row[1 : length - 1].tolist()).split("</s>"):
            assert any(part in document for document in documents)
    assert batch["masked_lm_weights"].sum() > 20


def test_pairs_have_two_separators_between_them(made):
    ids, _ = unmasked(made())
    num_separators = (ids == TOKENIZER.sep_id).sum(axis=1)
    assert (num_separators == 3).all()
    for row in ids:
        first = np.flatnonzero(row == TOKENIZER.sep_id)[0]
        assert row[first + 1] == TOKENIZER.sep_id


def test_whole_words_are_masked_from_space_to_space(made):
    batch = made(sentence_task="none", do_whole_word_mask=True, masked_lm_prob=0.3)
    tokens = np.array(TOKENIZER.tokens)
    for row, is_predicted in zip(*unmasked(batch), strict=True):
        names = tokens[row]
        for column in range(2, len(row)):
            goes_on = not names[column].startswith("Ġ") and "<" not in names[column] + names[column - 1]
            if goes_on:
                assert is_predicted[column] == is_predicted[column - 1], names


def test_whole_words_of_a_sentence_piece_model_are_masked_and_segments_are_swapped(made):
    tokenizer = sentence_pieces()
    batch = made(tokenizer, sentence_task="sentence_order", do_whole_word_mask=True, masked_lm_prob=0.3)
    ids, is_predicted = unmasked(batch)
    texts = {tokenizer.decode(row[row > tokenizer.mask_id].tolist()).strip() for row in ids}
    assert any(text.startswith("the dog") for text in texts)
    assert 0.2 < batch["next_sentence_labels"].mean() < 0.8
    num_words = 0
    for row, mask, predicted in zip(ids, batch["input_mask"], is_predicted, strict=True):
        for place in range(1, mask.sum() - 1):
            inside = row[place] > tokenizer.mask_id and row[place - 1] > tokenizer.mask_id
            if inside and tokenizer.continues_word(tokenizer.tokens[row[place]]):
                num_words += predicted[place]
                assert predicted[place] == predicted[place - 1]
    assert num_words > 20


def test_records_are_inspected_with_their_tokenizer(made, tmp_path, done_here):
    from data_prep import inspect_records

    made(sentence_task="none")
    printed = done_here(inspect_records, f"--input_file={tmp_path}/records", f"--vocab_file={tmp_path}/tokenizer")
    assert f"vocabulary: {tmp_path}/tokenizer" in printed.out
    assert "<mask>(" in printed.out


def test_random_tokens_are_bytes_and_merges_only():
    vocabulary = MaskingVocabulary.of(TOKENIZER)
    special = set(TOKENIZER.special_tokens.names)
    assert not special & {TOKENIZER.tokens[number] for number in vocabulary.replacement_ids}
    assert len(vocabulary.replacement_ids) == len(IDS) - len(special)
    assert vocabulary.mask_id == IDS["<mask>"]


def test_a_modernbert_is_pre_trained_from_text_by_the_command(eagerly, tmp_path, done_here, made):
    from keras_bert import MaskedLM, SequenceClassifier, fill_masks
    from run_scripts import run_pretraining

    tokenizer = modern_byte_pairs()
    made(tokenizer, sentence_task="none", dynamic_masking=True)
    options = {"batch_size": 200, "repeat": False, "masking": {"masked_lm_prob": 0.3}}
    masked = pretraining_dataset(f"{tmp_path}/records/*.tfrecord", vocabulary=tokenizer, **options)
    batch = next(masked.as_numpy_iterator())
    assert batch["input_mask"].mean() > 0.8  # rows are filled with sentences
    special = np.isin(unmasked(batch)[0], [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    assert 0.25 < batch["masked_lm_weights"].sum() / (~special).sum() < 0.4
    (tmp_path / "bert_config.json").write_text(json.dumps(config("modernbert").to_dict()))
    done_here(
        run_pretraining,
        f"--input_file={tmp_path}/records",
        f"--vocab_file={tmp_path}/tokenizer",
        f"--bert_config_file={tmp_path}/bert_config.json",
        f"--output_dir={tmp_path}/run",
        *("--do_train", "--do_eval", "--train_batch_size=4", "--num_train_steps=6", "--num_warmup_steps=2"),
        *("--masked_lm_prob=0.3", "--learning_rate_schedule=trapezoid", "--num_decay_steps=2"),
    )
    assert (tmp_path / "run" / "model" / "tokenizer.json").exists()
    model = MaskedLM.from_pretrained(tmp_path / "run" / "model")
    assert fill_masks(model, ["the [MASK] fox"], top_k=1)[0].masks
    # A task starts with the head of the masked LM, not with the pooler, which had nothing to learn.
    task = SequenceClassifier.from_pretrained(tmp_path / "run" / "model", labels=["a", "b"])
    head = np.asarray(model.masked_lm_head.dense.kernel)
    np.testing.assert_array_equal(np.asarray(task.encoder.pooler.dense.kernel), head)


def test_lower_casing_is_refused_where_the_tokenizer_has_none(tmp_path, refused_here):
    from data_prep import create_pretraining_data as command

    TOKENIZER.save(tmp_path)
    files = (f"--input_file={tmp_path}/none.txt", f"--vocab_file={tmp_path}", f"--output_dir={tmp_path}/out")
    printed = refused_here(command, *files, "--do_lower_case")
    assert "--do_lower_case has no effect on a tokenizer that is not WordPiece" in printed.err
