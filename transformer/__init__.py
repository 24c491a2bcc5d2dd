"""The transformer of "Attention Is All You Need", on minigrad alone, from text to trained model to text."""

from minigrad import __version__ as __version__
from transformer.checkpoint import load_checkpoint, save_checkpoint
from transformer.config import Config
from transformer.generation import generate
from transformer.model import Transformer
from transformer.recipe import Recipe
from transformer.run import resume, train
from transformer.tokenizer import BPETokenizer, CharTokenizer
from transformer.training import Trainer

__all__ = [
    "BPETokenizer",
    "CharTokenizer",
    "Config",
    "Recipe",
    "Trainer",
    "Transformer",
    "generate",
    "load_checkpoint",
    "resume",
    "save_checkpoint",
    "train",
]
