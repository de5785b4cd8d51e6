"""An index with ids and metadata: filters, deletions, updates, and what a kill leaves."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from clustered_vectors import clusters, index_of, recall
from full_disk import file_size_limit
from pyarrow.compute import field

from keras_bert.embeddings import index_files, index_rows, vector_search
from keras_bert.embeddings.vector_index import Hit, VectorIndex
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import waiting_for_folder

TEXTS = [f"text {number}" for number in range(12)]
IDS = [f"d{number}" for number in range(12)]
METADATA = {
    "language": ["en", "de", "fr"] * 4,
    "year": list(range(2000, 2012)),
    "price": [0.5 * number for number in range(12)],
    "is_open": [True, False] * 6,
}
# New texts of tests have this metadata.
ONE_ROW, TWO_ROWS = ({name: column[:count] for name, column in METADATA.items()} for count in (1, 2))
ONES = dict.fromkeys(METADATA, [1])


def vector_of(text: str) -> np.ndarray:
    vector = np.random.default_rng(zlib.crc32(text.encode())).normal(size=16)
    return vector / np.linalg.norm(vector)


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(vector_of)


def built(**options) -> VectorIndex:
    return plain(ids=IDS, metadata=METADATA, **options)


def plain(**options) -> VectorIndex:
    return VectorIndex.build(None, TEXTS, **options)


def ids_of(index: VectorIndex, query: str = "text 3", **options) -> list:
    return [hit.id for hit in index.search(None, query, 12, **options)[0]]


def test_results_carry_ids_and_metadata():
    [hit] = built().search(None, "text 3", 1)[0]
    assert hit == Hit(3, "text 3", hit.score, "d3", {"language": "en", "year": 2003, "price": 1.5, "is_open": False})
    assert type(hit.metadata["is_open"]) is bool
    [hit] = plain().search(None, "text 3", 1)[0]
    assert hit == Hit(3, "text 3", hit.score)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ({"language": "de"}, [1, 4, 7, 10]),
        ({"year": 2004}, [4]),
        ({"price": 2}, [4]),
        ({"language": "de", "is_open": True}, [4, 10]),
        ({"language": "it"}, []),
        ({"language": ["de", "fr"], "year": range(2003, 2006)}, [4, 5]),
        ({"year": np.array([2004, 1])}, [4]),
        ({"price": [0.5, 2]}, [1, 4]),
        ({"is_open": [True, False], "language": {"fr"}}, [2, 5, 8, 11]),
        ({"language": []}, []),
        ({"price": 10**400}, []),
        ({"year": -(10**400)}, []),
        (field("year") >= 2010, [10, 11]),
        ((field("price") < 1) & ~field("is_open"), [1]),
        (lambda columns: (columns["year"] >= 2003) & np.isin(columns["language"], ["en", "fr"]), [3, 5, 6, 8, 9, 11]),
    ],
)
def test_a_filter_keeps_the_texts_that_fulfil_it_in_the_order_of_all(where, kept):
    index = built()
    of_all = ids_of(index)
    assert sorted(of_all) == sorted(IDS)
    expected = [one for one in of_all if int(one[1:]) in kept]
    assert ids_of(index, where=where) == expected
    assert [hit.id for hit in index.search(None, "text 3", 1, where=where)[0]] == expected[:1]


def test_a_filter_is_computed_again_when_it_or_the_index_has_changed():
    index, where = built(), {"language": "de"}
    assert len(ids_of(index, where=where)) == 4
    where["language"] = "en"
    assert ids_of(index, where=where)[0][1:] in ("0", "3", "6", "9")
    index.delete(["d0", "d3"])
    assert sorted(ids_of(index, where=where)) == ["d6", "d9"]


@pytest.mark.parametrize("options", [{}, {"hybrid": True}, {"exact": True}])
@pytest.mark.parametrize("exact", [False, True])
def test_a_search_without_hits_or_without_queries_is_empty(exact, options, from_four):
    index = built(exact=exact)
    for where in [{"language": "it"}, {"language": "en", "year": 1}, lambda columns: columns["year"] > 2020]:
        assert index.search(None, ["text 3", "text 4"], where=where, **options) == [[], []]
    assert index.search(None, [], **options) == index.search(None, [], where={"year": 2001}, **options) == []


def in_threads(function, arguments):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(32) as pool:
            return list(pool.map(function, arguments))
    finally:
        sys.setswitchinterval(interval)


def test_searches_with_other_filters_in_other_threads_find_what_they_find_alone(large):
    vectors, graph, _ = large
    groups = np.arange(3000) % 8
    index = index_of(vectors, graph=graph, metadata={"group": groups})
    filters = [{"group": number} for number in range(8)]
    filters += [lambda columns: columns["group"] > 3, field("group") == 5, {"group": [1, 2]}, None]
    expected = [index.nearest(vectors[:2], 5, where=where)[0].tolist() for where in filters]
    numbers = [number % len(filters) for number in range(3000)]
    found = in_threads(lambda number: index.nearest(vectors[:2], 5, where=filters[number])[0].tolist(), numbers)
    assert [expected[number] for number in numbers] == found


def test_threads_that_change_an_index_lose_no_text_and_disturb_no_search():
    index = VectorIndex.build(None, "text", ids=["text"])

    def change(number):
        index.append(None, [f"text {number}"], ids=[f"text {number}"])
        (hits,) = index.search(None, f"text {number}", len(index))
        if number % 2:
            index.delete([f"text {number}"])
        return {(hit.id == hit.text, round(hit.score, 4) <= 1) for hit in hits}

    assert in_threads(change, range(200)) == [{(True, True)}] * 200
    assert sorted(filter(None, index.texts)) == sorted(["text", *(f"text {number}" for number in range(0, 200, 2))])


def test_one_of_two_indexes_that_were_loaded_from_a_folder_replaces_it_and_the_other_is_refused(tmp_path):
    path = tmp_path / "index"
    built().save(path)
    with pytest.raises(InputError, match=r"index is not empty: it has an index. Use save\(path, replace=True\)"):
        built().save(path)
    first, second = VectorIndex.load(path), VectorIndex.load(path)
    for change in [lambda: first.delete(["d1"]), lambda: first.delete(["d2"])]:  # it may save several times
        change()
        first.save(path, replace=True)
    assert sorted(ids_of(second)) == sorted(IDS), "a reader keeps its state"
    second.delete(["d3"])
    with pytest.raises(InputError, match="Another process or index has saved to .*Load the index again and repeat"):
        second.save(path, replace=True)
    second.save(tmp_path / "other")
    assert sorted(ids_of(VectorIndex.load(path))) == sorted(one for one in IDS if one not in ("d1", "d2"))
    built().save(path, replace=True)  # made anew, so nothing is lost unawares
    assert VectorIndex.load(path).ids == IDS


APPENDING = """
import sys
import numpy as np
from keras_bert.embeddings import vector_index
from keras_bert.program.errors import InputError
vector_index.search_vectors = lambda model, texts, *_, **__: np.ones((len(texts), 4), "float32") / 2
vector_index.model_fingerprint = lambda model: ""
path, name = sys.argv[1:]
for number in range(15):
    while True:
        index = vector_index.VectorIndex.load(path)
        index.append(None, [f"{name} {number}"] * 2)
        try:
            index.save(path, replace=True)
            break
        except InputError as error:
            assert "Load the index again" in str(error), error
"""


def test_processes_that_append_to_one_index_lose_no_text(tmp_path):
    index_of(np.eye(4, dtype="float32"), ["a", "b", "c", "d"]).save(tmp_path / "index")
    command = [sys.executable, "-c", APPENDING, str(tmp_path / "index")]
    processes = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("one", "two")]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    expected = [f"{name} {number}" for name in ("one", "two") for number in range(15) for _ in range(2)]
    assert sorted(VectorIndex.load(tmp_path / "index").texts) == sorted([*"abcd", *expected])
    assert os.listdir(tmp_path) == ["index"]


def test_an_index_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path, index, read = tmp_path / "index", built(), index_files.map_table
    index.save(path)

    def replaced_after(*arguments):
        table = read(*arguments)
        monkeypatch.setattr(index_files, "map_table", read)
        index.update(None, "d3", "new")  # as many texts as before
        index.save(path, replace=True)
        return table

    monkeypatch.setattr(index_files, "map_table", replaced_after)
    loaded = VectorIndex.load(path)
    assert loaded.texts == index.texts
    np.testing.assert_array_equal(loaded.vectors, index.vectors)
    loaded.save(path, replace=True)


@pytest.fixture(scope="module")
def large(graph):
    """3,000 vectors with a graph, and a number between 0 and 1 for each."""
    return clusters(3000), graph, np.random.default_rng(0).random(3000)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.2, 0.06, 0.03])
def test_a_graph_finds_what_a_filter_keeps(large, share, monkeypatch):
    vectors, graph, draws = large
    index = index_of(vectors, graph=graph, metadata={"draw": draws})
    by_graph = []
    candidates = noting(by_graph, vector_search.VectorSearch._candidates)
    monkeypatch.setattr(vector_search.VectorSearch, "_candidates", candidates)
    where = {"where": lambda columns: columns["draw"] < share}
    numbers, scores = index.nearest(vectors[:100] + 0.01, 10, **where)
    exact, exact_scores = index.nearest(vectors[:100] + 0.01, 10, exact=True, **where)
    assert (draws[numbers] < share).all()
    assert recall(numbers, exact) >= 0.98
    assert bool(by_graph) == (share > 0.05), "few are compared exactly"
    if share < 0.05:
        np.testing.assert_array_equal(scores, exact_scores)
    mask = draws < share
    for _ in range(2):  # the same array with other values
        numbers, _ = index.nearest(vectors[:5], 10, where=lambda columns: mask)
        assert mask[numbers].all()
        np.logical_not(mask, out=mask)


def noting(calls: list, function):
    def called(*arguments):
        calls.append(1)
        return function(*arguments)

    return called


@pytest.mark.parametrize("with_graph", [False, True])
def test_deleted_texts_are_masked_until_they_are_a_fifth_of_all(with_graph, from_four, tmp_path):
    index = built(exact=not with_graph)
    graph = index.graph
    index.delete(["d3", "d5"])
    assert index.graph is graph
    assert (len(index), len(index.texts), index.texts[3], index.ids[5]) == (10, 12, "", None)
    for one in (index, saved(index, tmp_path)):
        for options in ({}, {"exact": True}, {"hybrid": True}, {"where": {"is_open": False}}):
            found = ids_of(one, **options)
            assert "d3" not in found
            assert len(found) == (4 if "where" in options else 10)
        one.append(None, "text 3", ids=["d3"], metadata=ONE_ROW, exact=not with_graph)
        assert (len(one), ids_of(one)[0]) == (11, "d3")
        one.delete("d0")
        assert len(one.texts) == len(one) == 10
        assert (one.graph is not None, one.rows.deleted) == (with_graph, None)
        assert ids_of(one, exact=True) == ids_of(one)
        one.delete("d1")
        one.append(None, "x", ids=["x"], metadata=ONE_ROW, exact=True)
        assert (len(one), len(one.texts), one.graph) == (10, 11, None)


def test_upserted_texts_replace_those_with_their_ids_and_the_others_are_new(tmp_path):
    index = built()
    for _ in range(3):  # as after kills
        index.upsert(None, ["d7", "new"], ["other", "text 2"], metadata=TWO_ROWS)
        index = saved(index, tmp_path)
        assert (len(index), ids_of(index, "other")[0]) == (13, "d7")
        assert sorted(filter(None, index.ids)) == sorted([*IDS, "new"])


def test_many_additions_make_few_files_and_only_new_files_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(index_rows, "_FEW_ROWS", 5)
    index, path = built(), tmp_path / "index"
    for number in range(12):
        index.append(None, f"new {number}", ids=[f"n{number}"], metadata=ONE_ROW)
        before = {entry.name: entry.inode() for entry in os.scandir(path)} if number else {}
        index = saved(index, tmp_path)
        after = {entry.name: entry.inode() for entry in os.scandir(path)}
        kept = [name for name in after if before.get(name) == after[name]]
        assert len(kept) == sum(name.startswith("rows-") for name in after) - 1 or not number
        assert index.search(None, "new 0", 1)[0][0].id == "n0"
    assert [len(table) for table in index.rows.tables] == [12, 5, 5, 2]
    assert ids_of(index, where={"year": 2000}, hybrid=True)[:12] == ids_of(index, where={"year": 2000}, hybrid=True)
    np.testing.assert_allclose(index.vectors, [vector_of(text) for text in index.texts], atol=1e-7)


@pytest.mark.parametrize("with_graph", [False, True])
def test_updated_texts_replace_those_with_their_ids(with_graph, from_four):
    index = built(exact=not with_graph)
    index.update(None, ["d7", "d2"], ["other", "text 2"])
    assert len(index) == 12
    assert ids_of(index, "other")[0] == "d7"
    assert ids_of(index, "text 7")[0] != "d7"
    assert sorted(ids_of(index)) == sorted(IDS)
    assert index.search(None, "other", 1)[0][0].metadata["year"] == 2007
    index.update(None, "d7", "text 7", metadata={"language": ["it"], "year": [1], "price": [2], "is_open": [True]})
    assert ids_of(index, where={"language": "it"}) == ["d7"]
    index.update(None, IDS, TEXTS[::-1])
    assert ids_of(index, "text 0")[0] == "d11"
    assert (index.graph is not None) == with_graph


def test_whole_numbers_are_ids_too():
    index = VectorIndex.build(None, TEXTS, ids=np.arange(12))
    index.delete(["3", 4])
    assert index.search(None, "text 5", 1)[0][0].id == 5
    assert 3 not in index.ids


def saved(index: VectorIndex, folder: pathlib.Path) -> VectorIndex:
    index.save(folder / "index", replace=True)
    return VectorIndex.load(folder / "index")


def test_everything_comes_back_from_disk(tmp_path):
    index = built()
    loaded = saved(index, tmp_path)
    assert loaded.options == index.options
    assert loaded.search(None, TEXTS, 12) == index.search(None, TEXTS, 12)
    for name, column in loaded.metadata.items():
        assert column.tolist() == METADATA[name]
    loaded.append(None, ["new"], ids=["new"], metadata=ONE_ROW)
    assert ids_of(saved(loaded, tmp_path), "new")[0] == "new"


CHANGES = {
    "append": lambda index: index.append(None, "new", ids=["new"], metadata=ONE_ROW),
    "delete": lambda index: index.delete(["d3"]),
    "update": lambda index: index.update(None, "d3", "new"),
    "upsert": lambda index: index.upsert(None, ["d3", "new"], ["new", "newer"], metadata=TWO_ROWS),
    "anew": lambda index: index.delete(["d3", "d4", "d5"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_error_at_any_step_of_writing_leaves_the_old_or_the_new_index(change, tmp_path, monkeypatch, from_four):
    index = built()
    index.save(tmp_path / "index")
    states = [index.search(None, "text 3", 12)]
    CHANGES[change](index)
    states.append(index.search(None, "text 3", 12))
    assert states[0] != states[1]
    remaining = [0]

    def interrupted(function):
        def called(*arguments, **options):
            remaining[0] -= 1
            if remaining[0] == 0:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return called

    writers = [(np, "save"), (index_files, "write_table"), (json, "dumps"), (os, "fsync"), (os, "rename"), (os, "link")]
    for place, name in writers:
        monkeypatch.setattr(place, name, interrupted(getattr(place, name)))
    found, step = None, 0
    while found != states[1]:
        step += 1
        remaining[0] = step
        try:
            index.save(tmp_path / "index", replace=True)
        except KeyboardInterrupt:
            assert [name for name in os.listdir(tmp_path) if name[0] != "."] == ["index"]
        remaining[0] = 0
        found = VectorIndex.load(tmp_path / "index").search(None, "text 3", 12)
        assert found in states
    assert step > 8


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_a_killed_process_leaves_the_old_or_the_new_index(place, tmp_path):
    built().save(tmp_path / "index")
    program = f"""
import os, signal, sys
from keras_bert.embeddings.vector_index import VectorIndex
rename = os.rename
def killed(source, target):
    if {place != "before"}:
        rename(source, target)
    if {place != "after"} or target == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = killed
index = VectorIndex.load(sys.argv[1])
index.delete(["d3"])
index.save(sys.argv[1], replace=True)
"""
    result = subprocess.run([sys.executable, "-c", program, tmp_path / "index"], capture_output=True)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert (tmp_path / "index").exists() == (place != "between")
    index = VectorIndex.load(tmp_path / "index")
    assert len(index) == (11 if place == "after" else 12)
    index.save(tmp_path / "index", replace=True)
    assert os.listdir(tmp_path) == ["index"], "the next writer removes what the killed one has left"


def test_an_index_whose_replacement_was_cut_off_is_found_when_its_writer_is_gone(tmp_path):
    path, old = tmp_path / "index", tmp_path / ".index.replaced-0123abcd"
    built().save(path)
    path.rename(old)
    with ThreadPoolExecutor(1) as pool:
        with waiting_for_folder(old):  # as its writer does
            loading = pool.submit(VectorIndex.load, path)
            with pytest.raises(TimeoutError):
                loading.result(timeout=0.2)
        assert len(loading.result()) == 12
    assert os.listdir(tmp_path) == ["index"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plain(ids=[*IDS[:11], "d0"]), "The id 'd0' is given twice"),
        (lambda: plain(ids=[*range(11), "0"]), "The id '0' is given twice"),
        (lambda: plain(ids=IDS[1:]), "an id for each of the 12 texts. Received: 11 ids"),
        (lambda: plain(ids=[*IDS[1:], 1.5]), "An id must be a string or a whole number"),
        (lambda: plain(ids=[*IDS[1:], 1]), "'id' must have .* all of one kind"),
        (lambda: plain(ids=[*range(11), 1 << 70]), "'id' must have .* of at most 64 bits"),
        (lambda: plain(metadata={"a": [1]}), "'a' .* the 12 texts. Received: 1 values"),
        (lambda: plain(metadata=[1]), "metadata must be a dictionary: column -> list"),
        (lambda: plain(metadata={1: TEXTS}), "named by a string .* Received: 1"),
        (lambda: plain(metadata={"id": TEXTS}), "other than id, text and vector. Received: 'id'"),
        (lambda: plain(metadata={"a": [*TEXTS[1:], 1]}), "'a' must .* of one kind"),
        (lambda: plain(metadata={"a": [*TEXTS[1:], None]}), "string with 1 missing"),
        (lambda: plain(metadata={"a": [[1]] * 12}), "'a' .* Received: list<item: int64>"),
        (lambda: plain(metadata={"a": ["\ud800"] * 12}), "'a' .* surrogates"),
        (lambda: plain(metadata={"a": [1 << 70] * 12}), "'a' .* of at most 64 bits"),
        (lambda: built().delete("d99"), "The index has no text with the id 'd99'"),
        (lambda: built().delete(["d1", "d1"]), "The id 'd1' is given twice"),
        (lambda: built().delete(IDS), "Without these texts the index would be empty"),
        (lambda: plain().delete("d1"), "The texts of the index have no ids"),
        (lambda: built().update(None, ["d99"], ["x"]), "The index has no text with the id 'd99'"),
        (lambda: built().update(None, ["d1"], ["x", "y"]), "an id for each of the 2 texts. Received: 1 ids"),
        (lambda: built().append(None, "x", ids=["d1"], metadata=ONE_ROW), "already"),
        (lambda: built().append(None, "x", metadata=ONE_ROW), r"columns id \(strings\), .* Received: text \(st"),
        (lambda: plain().append(None, "x", ids=["a"]), r"columns text \(strings\). Received: id "),
        (lambda: plain(ids=range(12)).append(None, "x", ids=["a"]), r"id \(whole .*: id \(strin"),
        (lambda: plain().upsert(None, ["a"], "x"), r"columns text \(strings\). Received: id "),
        (lambda: built().append(None, "x", ids=["x"]), "has the columns id .*, language .* Received: id .*, text"),
        (lambda: built().update(None, "d1", "x", metadata=ONES), r"language \(strings\).*: .*language \(whole"),
        (lambda: ids_of(built(), where={"color": 1}), "The metadata has no column 'color'. It has: language"),
        (lambda: ids_of(built(), where={"year": "2000"}), "'year' has whole numbers. Received: '2000'"),
        (lambda: ids_of(built(), where={"year": True}), "'year' has whole numbers. Received: True"),
        (lambda: ids_of(built(), where="year=1"), "where must be a dictionary"),
        (lambda: ids_of(built(), where={"year": [2000, "a"]}), "'year' has whole numbers. Received: 'a'"),
        (lambda: ids_of(built(), where={"year": None}), "'year' has whole numbers. Received: None"),
        (lambda: ids_of(built(), where=field("color") == 1), "where does not fit language, year.*color"),
        (lambda: ids_of(built(), where=field("year") == "a"), "where does not fit .* no kernel"),
        (lambda: ids_of(built(), where=field("language")), "where does not fit .*language"),
        (lambda: ids_of(built(), where=lambda columns: None), r"a bool array \[12\].* Received: NoneType"),
        (lambda: ids_of(built(), where=lambda columns: columns["year"]), r"Received: int64 \[12\]"),
        (lambda: ids_of(built(), where=lambda columns: np.ones(3, bool)), r"Received: bool \[3\]"),
    ],
)
def test_what_cannot_be_done_is_said(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_full_disk_is_one_error_for_small_arrays_too(tmp_path):
    """NumPy ignores what the system says of the last 4 KB of a file: the vectors here take 896 bytes."""
    with file_size_limit(512), pytest.raises(InputError, match="Cannot write .*index: a file grew over the size"):
        built().save(tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
