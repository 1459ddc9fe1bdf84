"""The sources that a process imports before it forks Python workers, so that tasks need not import them again.

Connectors are not imported: tasks read no pipeline files, and the models of the sections take long to import.
"""

from penstock.formats import FORMATS
from penstock.ingest.files import source as files
from penstock.ingest.kafka import source as kafka

SOURCES = (files, kafka)
# The process that forks workers does not know which format their tasks decode.
BUILT_IN_FORMATS = tuple(FORMATS.find(name) for name in FORMATS.built_in)
