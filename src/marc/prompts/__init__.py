"""Prompts: what is said of each class, and the text prototypes that come of it."""

from marc.prompts.prompt_set import PromptSet
from marc.prompts.prototypes import Prototypes, embed_prompts, prompts_of
from marc.prompts.reading import list_prompt_sets, read_prompt_set

__all__ = [
    "PromptSet",
    "Prototypes",
    "embed_prompts",
    "list_prompt_sets",
    "prompts_of",
    "read_prompt_set",
]
