"""Files: read with suspicion, written whole or not at all, and records of what made them."""

from marc.files.reading import as_text as as_text
from marc.files.reading import conform as conform
from marc.files.reading import parse_json as parse_json
from marc.files.reading import read_arrays as read_arrays
from marc.files.reading import read_bytes as read_bytes
from marc.files.reading import read_json as read_json
from marc.files.reading import read_text as read_text
from marc.files.reading import read_toml as read_toml
from marc.files.reading import refuse_odd_file as refuse_odd_file
from marc.files.records import changed as changed
from marc.files.records import differences as differences
from marc.files.records import flatten as flatten
from marc.files.records import json_digest as json_digest
from marc.files.records import versions as versions
from marc.files.writing import LOCK as LOCK
from marc.files.writing import PARTIAL as PARTIAL
from marc.files.writing import Arrays as Arrays
from marc.files.writing import add_to_log as add_to_log
from marc.files.writing import cache_folder as cache_folder
from marc.files.writing import locked as locked
from marc.files.writing import sync_folder as sync_folder
from marc.files.writing import whole_file as whole_file
from marc.files.writing import write_arrays as write_arrays
from marc.files.writing import write_json as write_json
from marc.files.writing import write_whole as write_whole
