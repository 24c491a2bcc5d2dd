"""The explain page: what one trained model computes for one sentence, and how it came to, as a page and as data."""

from transformer.explain.data import page_data
from transformer.explain.material import Material, Subject
from transformer.explain.page import json_text, page_html

__all__ = ["Material", "Subject", "json_text", "page_data", "page_html"]
