from data_prep.text.near_duplicates import SeenText

SENTENCE = "The quick brown fox jumps over the lazy dog."


def test_case_numbers_and_punctuation_make_no_difference():
    seen = SeenText()
    assert seen.add(SENTENCE) == 0.0
    assert seen.known_share("the quick, brown fox (2) jumps over the 'lazy' DOG") == 1.0


def test_text_put_together_from_several_texts_is_known():
    seen = SeenText()
    seen.add("the quick brown fox jumps")
    seen.add("brown fox jumps over the lazy dog")
    assert seen.known_share(SENTENCE) == 1.0


def test_other_text_is_not_known():
    seen = SeenText()
    seen.add(SENTENCE)
    assert seen.known_share("A dog that is lazy lies under a brown fox.") == 0.0
