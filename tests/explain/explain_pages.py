"""Pages of the explain command as a reader has them: the text of one, and one that is open in a browser."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np

from transformer.explain import page_html

SENTENCE = "The state"


class Page(HTMLParser):
    """What a browser would find in a page: its elements with their attributes, and the text in each script."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.inside = [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = False

    def handle_data(self, text):
        if self.inside:
            self.scripts[-1] += text


def data_of(html):
    return json.loads(Page(html).scripts[0])


def numbers(entry):
    """Read a packed tensor independently of the program's own reader."""
    code = {"float32": "<f4", "float16": "<f2", "int32": "<i4"}[entry["dtype"]]
    return np.frombuffer(base64.b64decode(entry["data"]), code).reshape(entry["shape"])


def write_page(data, folder):
    file = folder / "explain.html"
    file.write_text(page_html(data), encoding="utf-8")
    return file.as_uri()


class Visit:
    """A page that is open, with all that it asked for and complained of."""

    def __init__(self, browser, address, width=1280, height=800, **options):
        self.page = browser.new_page(viewport={"width": width, "height": height}, **options)
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]")
        self.ready = self.page.evaluate("performance.now()")
        self.page.wait_for_selector("html[data-drawn]")

    def slide(self, selector, value):
        """Move a slider as a hand would, and let the page know."""
        self.page.eval_on_selector(
            selector, "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
        )

    def texts(self, selector):
        return self.page.eval_on_selector_all(selector, "all => all.map(one => one.textContent)")

    def figure(self, name):
        return f'[data-figure="{name}"]'


def plain(text):
    """Return a number as the page writes it as a float; 40.6% is 0.406."""
    mantissa, _, exponent = text.strip().replace("−", "-").replace(",", "").removeprefix("× ").partition("·10")
    powers = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    share = 0.01 if mantissa.endswith("%") else 1.0
    return share * float(mantissa.rstrip("%")) * 10.0 ** int(exponent.translate(powers) or 0)


def both_sides(formula):
    """Return what a printed formula's terms make, and the result that stands after them."""
    terms, _, result = formula.rpartition(" = ")
    terms = terms.split("= ")[-1].replace(" smaller products that make ", "@").replace("×", "*")
    terms = re.sub(r"\+ \d+@", "+ ", terms)
    number = r"−?[\d.,]+(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
    terms = re.sub(number, lambda match: repr(plain(match.group())), terms)
    return eval(terms.replace("−", "-")), plain(result)
