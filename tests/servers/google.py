"""The XML protocol of Google Cloud Storage, as far as the client of tables speaks it, over moto's objects.

No package registry has a server for it: fake-gcs-server speaks the JSON protocol. Google's XML protocol is that of S3
with other conditions, copies and credentials, and a delete of a missing object is an error.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.test import EnvironBuilder, run_wsgi_app

BUCKET = "google-lake"
EMAIL = "penstock@project.iam.gserviceaccount.com"
TOKEN = "a-token"
_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}.</Message></Error>"

# moto requires a signature, but does not verify it.
_OF_MOTO = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class Google:
    """Accepts the token TOKEN, and those that the key of its service account has signed.

    The next request of each method in `lost` takes effect, and its answer is 503. With `ignores_conditions` objects
    are replaced, and a `public` store asks for no token.
    """

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.ignores_conditions = self.public = False
        self.asked: list[str] = []
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.url = ""
        self._objects = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()

    def key_file(self, **other: object) -> str:
        """Return the text of a service account's key that names this server."""
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        fields = {"type": "service_account", "client_email": EMAIL, "private_key": pem.decode(), "private_key_id": "1"}
        return json.dumps({**fields, "gcs_base_url": self.url, **other})

    def create_bucket(self, name: str = BUCKET) -> None:
        status = self._ask(EnvironBuilder(f"/{name}", method="PUT").get_environ())[1]
        assert status.startswith(("200", "409")), status

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        body, status, headers = self._answer(environ)
        if method in self.lost:
            self.lost.remove(method)
            body, status, headers = b"", "503 Service Unavailable", [("Content-Length", "0")]
        start_response(status, headers)
        return [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[bytes, str, Any]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.asked.append(f"{method} {path}")
        if not self.public and not self._is_signed(environ.pop("HTTP_AUTHORIZATION", "")):
            return _error("401 Unauthorized", "AuthenticationRequired")
        if "HTTP_X_GOOG_COPY_SOURCE" in environ:
            environ["HTTP_X_AMZ_COPY_SOURCE"] = environ.pop("HTTP_X_GOOG_COPY_SOURCE")
        generation = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        assert generation in {None, "0"}
        if generation and not self.ignores_conditions:
            environ["HTTP_IF_NONE_MATCH"] = "*"
        with self._one_at_a_time:
            if method == "DELETE" and "uploadId" not in environ.get("QUERY_STRING", ""):
                read = {name: value for name, value in environ.items() if name != "QUERY_STRING"}
                found = self._ask({**read, "REQUEST_METHOD": "GET"})
                if found[1].startswith("404"):
                    return found
            return self._ask(environ)

    def _ask(self, environ: dict[str, Any]) -> tuple[bytes, str, Any]:
        # Google's client encodes slashes and hyphens too, which moto does not expect.
        path, query = quote(environ["PATH_INFO"].encode("latin-1"), safe="/-_.~"), environ.get("QUERY_STRING", "")
        environ["RAW_URI"] = environ["REQUEST_URI"] = f"{path}?{query}" if query else path
        environ["HTTP_AUTHORIZATION"] = _OF_MOTO
        chunks, status, headers = run_wsgi_app(self._objects, environ, buffered=True)
        return b"".join(chunks), status, list(headers)

    def _is_signed(self, header: str) -> bool:
        """Return whether the token is valid. A service account signs its own, without a server of tokens."""
        token = header.removeprefix("Bearer ")
        if token == TOKEN:
            return True
        signed, _, signature = token.rpartition(".")
        try:
            self.key.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            return False
        claims = json.loads(_decoded(signed.partition(".")[2]))
        return claims["iss"] == EMAIL and claims["exp"] > time.time()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _error(status: str, code: str) -> tuple[bytes, str, Any]:
    body = _ERROR.format(code=code).encode()
    return body, status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]


@contextmanager
def running() -> Iterator[Google]:
    google = Google()
    server = make_server("127.0.0.1", 0, google, threaded=True)
    google.url = f"http://127.0.0.1:{server.server_port}"
    google.create_bucket()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield google
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
