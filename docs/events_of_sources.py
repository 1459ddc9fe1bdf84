"""What the log events of sources mean, and what to do about them, for the page of log events."""

from __future__ import annotations

_READ_AGAIN = "`--reset TABLE` reads the table again"
EVENTS: dict[str, dict[str, tuple[str, str]]] = {
    "Databases": {
        "begins": ("a new pipeline begins at this position of the log", ""),
        "check": (
            "a property of the server or of a table that may be a problem, as `penstock check` shows it",
            "see the line",
        ),
        "waiting_for_server": (
            "the server cannot be reached; the pipeline waits",
            "look at the server and the network",
        ),
        "server_is_back": ("the server can be reached again", ""),
        "plan_again": ("the connection was lost while a batch was planned, and it is planned again", ""),
        "snapshot_mode": (
            "the tables are read as of one position, because a target shows a change that comes twice",
            "",
        ),
        "tables_added": ("new tables of the source are captured, and their rows are read", ""),
        "tables_read_again": ("tables are emptied and read again, as requested or because the log was lost", ""),
        "tables_not_read_again": ("tables that were to be read again do not exist any more", ""),
        "outdated_tables_emptied": ("a target has rows of an earlier table with the same name, and is emptied", ""),
        "changes_not_read": ("a batch leaves changes out of tables that the next one empties and reads", ""),
        "part_read_again": ("rows that meet a condition are read again, as `penstock signal` asked for", ""),
        "part_not_read": (
            "the table was altered after the signal, and the rest of the rows is not read",
            "signal again",
        ),
        "signal_refused": ("the condition of a signal cannot be used", "correct the condition"),
        "signal_unknown": ("a signal names a table that is not captured", "correct the name"),
        "part_skipped": (
            "a part of a batch could not be read; the next batch empties its tables and reads them again",
            "",
        ),
        "tables_without_key": (
            "tables without primary key are not captured",
            "add a key, or `no-primary-key: append`",
        ),
        "no_tables_there": ("a pipeline continues, and none of its tables exists now", "compare names and rights"),
        "key_changed": (
            "the key of a source table has other columns; the target keeps its key, so rows that are equal in it are "
            "merged",
            "create the target again to change its key",
        ),
        "rename_not_followed": (
            "a renamed column is a new column in the target; unchanged rows keep their value in the former one",
            "MySQL: `--on-rename-column rename`; " + _READ_AGAIN,
        ),
        "truncate_not_followed": ("the rows stay in the target", "`--on-truncate delete-all`; " + _READ_AGAIN),
        "drop_not_followed": ("the rows stay in the target", "`--on-drop delete-all` deletes them"),
        "rows_moved_unlogged": (
            "rows left the table with a partition or a tablespace, and stay in the target",
            "`--on-truncate delete-all`; " + _READ_AGAIN,
        ),
        "added_columns_have_values": ("a new column has values in older rows: the table is read again for them", ""),
        "values_changed_by_statement": ("a statement changed values of older rows: the table is read again", ""),
    },
    "MySQL and MariaDB": {
        "mysql_connection": (
            "how the connection is protected: a warning if it is not encrypted, or not verified",
            "`ssl: {mode: verify-identity, ca: FILE}`",
        ),
        "another_server": ("the pipeline continues on another server, found by GTID", ""),
        "purged_but_read": ("the binlog file of the position is purged, and all its changes had been read", ""),
        "ddl_not_read": (
            "the names in a statement of the binlog cannot be read, so it is not followed",
            "see it with `mysqlbinlog`; " + _READ_AGAIN,
        ),
        "xa_rows_may_be_missing": (
            "an XA transaction was committed that was prepared before the pipeline began",
            "if it changed captured tables, `--resnapshot`",
        ),
    },
    "PostgreSQL": {
        "slot_created": ("the replication slot was created", ""),
        "slot_existed": (
            "a new pipeline reads a slot that existed",
            "set another `slot.name` if something else reads it: each loses what the other has confirmed",
        ),
        "slot_waits": ("the server creates the slot once the named transactions have ended", "end them"),
        "lost_slot_replaced": ("the slot had lost its WAL, and was created again", "raise `max_slot_wal_keep_size`"),
        "waits_for_free_slot": (
            "tasks wait for a replication slot for a copy of theirs",
            "raise `max_replication_slots`",
        ),
        "waits_for_former_reader": ("a task that was killed still has the slot; the next one waits for it", ""),
        "former_reader_ended": ("the connection of a former task of this pipeline was ended", ""),
        "position_not_confirmed": (
            "the position could not be confirmed; the server keeps WAL until a later batch confirms it",
            "",
        ),
        "publication_changed": ("the pipeline changed its publication by this statement", ""),
        "publication_altered": (
            "the publication of captured tables was altered, so the log may lack changes",
            "`penstock check` shows what it leaves out; " + _READ_AGAIN,
        ),
        "tables_not_published": ("new tables could not be added to the publication", "run the statement in `fix`"),
        "tables_unlogged": ("`UNLOGGED` tables are left out: no log has their changes", "`ALTER TABLE ... SET LOGGED`"),
        "table_may_have_been_unlogged": (
            "the rows of a table were rewritten; if by SET UNLOGGED and SET LOGGED, changes in between are missing",
            _READ_AGAIN,
        ),
        "snapshot_needs_old_rows": (
            "updates and deletes during the exact snapshot of these tables stop it",
            "`REPLICA IDENTITY FULL`",
        ),
        "definitions_changed": ("tables were altered; the batch applies it", ""),
        "definitions_not_compared": (
            "an older release planned the last batch, and described tables in another way",
            "if tables were altered since that batch: " + _READ_AGAIN,
        ),
        "partitions_attached": ("a partition was attached; the table is read again", ""),
        "partitions_rewritten": (
            "partitions were truncated, or rewritten without a change of rows: the server lacks `test_decoding`",
            "install it (postgresql-contrib); if it was TRUNCATE, " + _READ_AGAIN,
        ),
        "new_partitions_not_examined": (
            "no replication slot was free to see whether a new partition was filled and truncated at once",
            "raise `max_replication_slots`",
        ),
        "tables_emptied": ("TRUNCATE is followed: a batch of its own empties the targets", ""),
        "rows_left_out": ("rows of a chunk were truncated after its position; the target is emptied later", ""),
        "rows_of_dropped_table_left_out": (
            "a table was created or renamed after the last batch and is gone; its key is not known",
            "",
        ),
        "log_decoded_again": (
            "a transaction has been open for long, and each batch decodes the log from its beginning",
            "end it (`note` finds it)",
        ),
        "log_not_compared": (
            "whether the server was restored from a copy of its disk is not known; a later batch looks again",
            "",
        ),
        "slow_statement": (
            "a statement has run for long; a second connection looks at what it does",
            "see `waits_for`",
        ),
        "waits_for_standby": ("commits are logged that wait for a synchronous standby", "look at the standby"),
        "waits_for_transactions": ("transactions run since before a table was published", "end them"),
        "waits_for_promotion": ("the server is a standby; the pipeline waits until it is promoted", ""),
        "promoted": ("the pipeline continues on a server that was promoted", ""),
    },
    "MongoDB": {
        "collections_added": ("new collections are captured", ""),
        "change_stream_ended": ("a database was dropped, which ends its change stream; a new one begins", ""),
        "cursor_not_closed": ("the server closes an unused cursor by itself", ""),
        "mixed_key_types": (
            "keys of several types may be the same text, and then one row overwrites the other",
            "use one type of `_id`",
        ),
        "old_documents_missing": (
            "the target needs old documents of updates and deletes; the first of these stops the pipeline",
            "`full-document: required`",
        ),
        "dropDatabase_not_followed": ("the rows stay in the target", "`penstock signal PIPELINE snapshot`"),
        "invalidate_not_followed": ("a change stream became invalid; the rows stay in the target", ""),
        "unknown_not_followed": ("an operation that Penstock does not know; it yields no rows", ""),
    },
    "Files": {
        "file_changed_after_read": (
            "a file was written again after it was read, and its new lines are not read",
            "write them into a file with another name",
        ),
    },
    "Kafka and Pulsar": {
        "waiting_for_kafka": (
            "the brokers cannot be reached; the pipeline waits",
            "look at the brokers and the network",
        ),
        "waiting_for_pulsar": (
            "the brokers cannot be reached; the pipeline waits",
            "look at the brokers and the network",
        ),
        "kafka_reconnect": ("a client did not answer any more, and was replaced", ""),
        "kafka_client": ("a line of librdkafka, which keeps trying; an error that ends a run is raised", ""),
        "pulsar_client": ("a line of Pulsar's client, which keeps trying; an error that ends a run is raised", ""),
        "kafka_property_left_out": ("a property of the Java client that librdkafka does not have or need", ""),
        "group_offsets_not_set": (
            "the offsets of the consumer group could not be set; only tools that show its lag are affected",
            "",
        ),
        "startup_offset_without_partition": ("a start offset names a partition that does not exist", "correct it"),
        "topic_made_again": ("a topic was deleted and created again; it is read from its first record", ""),
        "waits_for_transaction": (
            "once a minute while a producer leaves a transaction open: records after it cannot be read, and no lag "
            "counts them",
            "`kafka-transactions.sh find-hanging` finds it if its producer is gone",
        ),
        "ends_before_transaction": (
            "a run that ends when it has caught up does not wait for records of an open transaction",
            "",
        ),
        "leader_epoch_not_compared": (
            "no answer after the election of a leader: its log could not be compared with the offsets, and "
            "`--accept-gap` continues",
            "",
        ),
        "old_row_unknown": (
            "the first message read of a partition is the second one of an update (`aliyun-json`), and the one before "
            "is gone; if the key changed, the row with the old key stays",
            "",
        ),
        "losses_not_visible": (
            "without the admin interface a loss of messages that were never read is not noticed",
            "set `pulsar.admin.adminUrl`",
        ),
        "subscription_not_known": ("the admin interface did not answer about the subscription", "see `reason`"),
        "ledgers_not_known": ("the admin interface did not answer about the ledgers of a partition", "see `reason`"),
        "chunk_without_beginning": ("parts of a message are in the topic without its first ones; it is left out", ""),
        "not_acknowledged": (
            "messages could not be acknowledged; the broker keeps them until a later batch acknowledges",
            "",
        ),
    },
    "Flags of actions": {
        "mysql_conf_without_effect": ("an option that only Flink's connector has", ""),
        "postgres_conf_without_effect": ("an option that only Flink's connector has", ""),
        "mongodb_conf_without_effect": ("an option that only Flink's connector has", ""),
        "kafka_conf_without_effect": ("an option that the pipeline does not read", "see `note`: it may be misspelt"),
        "pulsar_conf_without_effect": ("an option that the pipeline does not read", "see `note`: it may be misspelt"),
    },
}
