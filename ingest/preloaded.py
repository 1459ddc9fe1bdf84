"""The sources that a process imports before it forks Python workers, so that tasks need not import them again.

Connectors are not imported: tasks read no pipeline files, and the models of the sections take long to import.
"""

from penstock.ingest.files import source as files
from penstock.ingest.kafka import source as kafka

SOURCES = (files, kafka)
