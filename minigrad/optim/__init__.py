"""Optimizers and learning-rate schedules."""

from minigrad.optim import lr_scheduler
from minigrad.optim.adam import Adam, AdamW
from minigrad.optim.muon import Muon
from minigrad.optim.optimizer import Optimizer
from minigrad.optim.several import Several
from minigrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Muon", "Optimizer", "Several", "lr_scheduler"]
