"""Requests to a Hive metastore. Only this module and `hive_objects` import the Thrift classes, which are optional."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import ConfigError, StoreError
from penstock.json_answers import LARGEST_ANSWER

try:
    from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.protocol.TProtocol import TProtocolException
    from thrift.Thrift import TApplicationException, TException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TTransportException
except ImportError as error:
    raise ConfigError(
        "the client of Hive metastores is not installed", hint="on all machines of the job:  pip install pymetastore"
    ) from error

# Thrift logs what it raises, with a traceback.
logging.getLogger("thrift").setLevel(logging.CRITICAL)

# What Thrift and the classes that it reads into raise for damaged bytes.
_DAMAGES = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError, EOFError, struct.error)
# Of TApplicationException: the client did not understand the reply. The other types are the server's refusals.
_DAMAGED_REPLIES = {
    TApplicationException.INVALID_MESSAGE_TYPE,
    TApplicationException.WRONG_METHOD_NAME,
    TApplicationException.BAD_SEQUENCE_ID,
    TApplicationException.MISSING_RESULT,
}
_LONGEST_LIST = 1_000_000  # entries of a list in a reply
_PORT = 9083
_TIMEOUT_MILLIS = 60_000
# Tables per request: the descriptions of all tables of a large database would be one very large reply.
_SLICE = 300


class NameMissing(ConfigError):
    """A database or table that the metastore does not have."""


class NameExists(ConfigError):
    """A database or table that the metastore has already."""


class RequestRefused(ConfigError):
    """A request that the metastore understood and did not carry out."""


class MalformedReply(StoreError):
    """A reply of the metastore that is not as its protocol requires: the request may have taken effect."""


@dataclass(frozen=True, slots=True)
class HiveMetastore:
    """A metastore by the addresses of its servers, which are tried in order.

    Each request, or session of requests, has a connection of its own. So this class is safe in threads, and it is
    pickled without an open connection.
    """

    servers: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, uri: str) -> HiveMetastore:
        """Parse `thrift://host:port`, or several of them separated by commas."""
        servers = []
        for part in uri.split(","):
            try:
                parts = urlsplit(part.strip())
                host, port = parts.hostname, parts.port or _PORT
            except ValueError:
                parts, host, port = urlsplit(""), None, 0
            if parts.scheme != "thrift" or not host or parts.path.strip("/"):
                hint = "write thrift://host:9083; several addresses are separated by commas"
                raise ConfigError(
                    f"uri = {part.strip()} is not the address of a Hive metastore", option="uri", hint=hint
                )
            servers.append((host, port))
        return cls(tuple(servers))

    def __str__(self) -> str:
        return ",".join(f"thrift://{host}:{port}" for host, port in self.servers)

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Connect and return the client. Errors of its requests are raised as errors of this module.

        StoreError if the metastore cannot be reached or does not answer: a request may have taken effect.
        """
        transport = self._connected()
        try:
            limits = {"string_length_limit": LARGEST_ANSWER, "container_length_limit": _LONGEST_LIST}
            yield ThriftHiveMetastore.Client(TBinaryProtocol(transport, **limits))
        except (ttypes.NoSuchObjectException, ttypes.UnknownDBException, ttypes.UnknownTableException) as error:
            raise NameMissing(
                f"the metastore has no such name: {error.message}", metastore=str(self), hint="run the command again"
            ) from error
        except ttypes.AlreadyExistsException as error:
            raise NameExists(
                f"the metastore has this name already: {error.message}",
                metastore=str(self),
                hint="run the command again",
            ) from error
        # Before TException, the base class of two: the request may have taken effect, which other errors exclude.
        except (TTransportException, OSError) as error:
            raise _unreachable(str(self), error) from error
        except (TProtocolException, *_DAMAGES) as error:
            raise self._malformed(f"{type(error).__name__}: {error}") from error
        except TApplicationException as error:
            if error.type in _DAMAGED_REPLIES:
                raise self._malformed(str(error)) from error
            raise ConfigError(
                f"the metastore does not support a request: {error}",
                metastore=str(self),
                hint="supported are Hive metastores from 2.3",
            ) from error
        except TException as error:
            text = getattr(error, "message", None) or str(error)
            raise RequestRefused(
                f"the metastore refused a request: {text}",
                metastore=str(self),
                hint="the log of the metastore has the whole error",
            ) from error
        finally:
            transport.close()

    def _connected(self) -> Any:
        failure: Exception | None = None
        for host, port in self.servers:
            socket_ = TSocket(host, port)
            socket_.setTimeout(_TIMEOUT_MILLIS)
            transport = TBufferedTransport(socket_)
            try:
                # Only connecting is tried on the next server. A request that was sent may have taken effect and is
                # not repeated.
                transport.open()
                return transport
            except (TTransportException, OSError) as error:
                failure = error
        raise _unreachable(str(self), failure) from failure

    def table(self, database: str, table: str) -> Any:
        """Return a table of any type. NameMissing if it does not exist."""
        with self.session() as client:
            # Hive 4 has no `get_table`. The forms with a request object exist in all versions from 2.3.
            found = client.get_table_req(ttypes.GetTableRequest(dbName=database, tblName=table)).table
        return self._named(found)

    def location(self, described: Any) -> str:
        """Return the folder of a table of Paimon."""
        found = described.sd.location if described.sd is not None else None
        return self._text(found, f"location of the table {described.tableName}")

    def database(self, name: str) -> Any:
        """Return a database, which has a location. NameMissing if it does not exist."""
        with self.session() as client:
            found = client.get_database(name)
        self._text(found.locationUri, f"location of the database {name}")
        return found

    def _named(self, described: Any) -> Any:
        """Return a table whose reply has at least its name."""
        self._text(getattr(described, "tableName", None), "name of a table")
        return described

    def _text(self, value: object, member: str) -> str:
        if not isinstance(value, str):
            raise self._malformed(f"it has no {member}")
        return value

    def _malformed(self, reason: str) -> MalformedReply:
        return MalformedReply(
            f"the reply of the Hive metastore is not as its protocol requires: {reason}",
            metastore=str(self),
            hint="check that the option uri is the address of a Hive metastore, 2.3 or newer",
        )

    def tables(self, database: str) -> list[Any]:
        """Return all tables of a database, of any type."""
        with self.session() as client:
            names = client.get_all_tables(database)
            found: list[Any] = []
            for start in range(0, len(names), _SLICE):
                request = ttypes.GetTablesRequest(dbName=database, tblNames=names[start : start + _SLICE])
                found += client.get_table_objects_by_name_req(request).tables
        return [self._named(table) for table in found]

    def create(self, described: Any) -> None:
        """Create a table. NameExists if its name is in use."""
        # Otherwise the metastore lists the files of the folder to count them.
        context = ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
        with self.session() as client:
            client.create_table_with_environment_context(described, context)

    def alter(self, database: str, table: str, described: Any) -> None:
        """Replace the description of a table; columns of its partitions follow."""
        context = ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true", "CASCADE": "true"})
        with self.session() as client:
            client.alter_table_with_environment_context(database, table, described, context)

    def partition_names(self, database: str, table: str) -> set[str]:
        """Return the partitions of a table as folders, such as `dt=a/hour=1`."""
        with self.session() as client:
            # -1: without a limit.
            return set(client.get_partition_names(database, table, -1))

    def add_partitions(self, database: str, table: str, described: list[Any]) -> None:
        """Add the partitions that the table does not have yet, by one request."""
        request = ttypes.AddPartitionsRequest(
            dbName=database, tblName=table, parts=described, ifNotExists=True, needResult=False
        )
        with self.session() as client:
            client.add_partitions_req(request)

    def drop_partition(self, database: str, table: str, folder: str) -> None:
        """Drop a partition and keep its files. Do nothing if the table does not have it."""
        with contextlib.suppress(NameMissing), self.session() as client:
            client.drop_partition_by_name(database, table, folder, deleteData=False)

    def request_lock(self, database: str, table: str) -> tuple[int, bool]:
        """Request the exclusive lock of a table. Return its id, and whether it was obtained at once."""
        component = ttypes.LockComponent(
            type=ttypes.LockType.EXCLUSIVE, level=ttypes.LockLevel.TABLE, dbname=database, tablename=table
        )
        request = ttypes.LockRequest(component=[component], user="penstock", hostname=socket.gethostname())
        return self._lock(lambda client: client.lock(request))

    def check_lock(self, lock: int) -> bool:
        """Return whether a lock has been obtained that was requested before."""
        return self._lock(lambda client: client.check_lock(ttypes.CheckLockRequest(lockid=lock)))[1]

    def _lock(self, ask: Callable[[Any], Any]) -> tuple[int, bool]:
        with self.session() as client:
            answer = ask(client)
            return int(answer.lockid), answer.state == ttypes.LockState.ACQUIRED

    def unlock(self, lock: int) -> None:
        """Release a lock, or withdraw a request for it."""
        with self.session() as client:
            client.unlock(ttypes.UnlockRequest(lockid=lock))


def _unreachable(servers: str, reason: object) -> StoreError:
    return StoreError(
        f"the Hive metastore does not answer: {reason}",
        metastore=servers,
        hint="check that the metastore is running. One that requires Kerberos closes connections; it is not supported",
    )
