"""The MySQL and MariaDB source: snapshot and binary log to Arrow."""
