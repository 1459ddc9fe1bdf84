"""Runs in an environment with mysql-replication: reads the updates of a binlog to its end, its CPU seconds as JSON.

peer_mysql_replication.py PORT FILE POSITION
"""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent


def main(port, file, position):
    settings = {"host": "127.0.0.1", "port": int(port), "user": "cdc", "passwd": "cdc"}
    start, changes = time.process_time(), 0
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=7001,
        log_file=file,
        log_pos=int(position),
        resume_stream=True,
        blocking=False,
        only_events=[UpdateRowsEvent],
    )
    for event in stream:
        changes += len(event.rows)  # the rows are decoded when they are asked for
    stream.close()
    print(json.dumps({"changes": changes, "cpu": time.process_time() - start}))


main(*sys.argv[1:])
