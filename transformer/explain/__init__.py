"""The explain page: what a trained model computes for a sentence, and how it came to, as page and data."""

from transformer.explain.data import page_data
from transformer.explain.material import Material, Subject
from transformer.explain.page import json_text, page_html
from transformer.explain.serve import ExplainServer

__all__ = ["ExplainServer", "Material", "Subject", "json_text", "page_data", "page_html"]
