"""The options of Flink's Pulsar connector that have an effect, by their names in the Java client."""

from __future__ import annotations

CLIENT, CONSUMER = "pulsar.client.", "pulsar.consumer."
SERVICE_URL = f"{CLIENT}serviceUrl"
ADMIN_URL = "pulsar.admin.adminUrl"
SUBSCRIPTION = f"{CONSUMER}subscriptionName"
QUEUE = f"{CONSUMER}receiverQueueSize"
AUTH_CLASS, AUTH_PARAMS, AUTH_MAP = (
    f"{CLIENT}{name}" for name in ("authPluginClassName", "authParams", "authParamMap")
)
TRUSTED, CERTIFICATE, KEY = (
    f"{CLIENT}{name}" for name in ("tlsTrustCertsFilePath", "tlsCertificateFilePath", "tlsKeyFilePath")
)
INSECURE, CHECKS_HOST = f"{CLIENT}tlsAllowInsecureConnection", f"{CLIENT}tlsHostnameVerificationEnable"
OPERATION_TIMEOUT, CONNECTION_TIMEOUT = f"{CLIENT}operationTimeoutMs", f"{CLIENT}connectionTimeoutMs"
IO_THREADS, LISTENER_THREADS = f"{CLIENT}numIoThreads", f"{CLIENT}numListenerThreads"
LOOKUPS, LISTENER = f"{CLIENT}concurrentLookupRequest", f"{CLIENT}listenerName"
# Trust and key stores of Java, which this client cannot read: they are refused.
STORES = frozenset(f"{CLIENT}{name}" for name in ("useKeyStoreTls", "tlsTrustStorePath", "tlsKeyStorePath"))
ACTED_ON = frozenset(
    (
        *(SERVICE_URL, ADMIN_URL, SUBSCRIPTION, QUEUE, AUTH_CLASS, AUTH_PARAMS, AUTH_MAP),
        *(TRUSTED, CERTIFICATE, KEY, INSECURE, CHECKS_HOST),
        *(OPERATION_TIMEOUT, CONNECTION_TIMEOUT, IO_THREADS, LISTENER_THREADS, LOOKUPS, LISTENER),
    )
)
_SPELLINGS = {name.lower(): name for name in ACTED_ON | STORES}


def spelled(name: str) -> str:
    """Return an option's name in its own case: Spark gives the names of options in lower case."""
    return _SPELLINGS.get(name.strip().lower(), name)
