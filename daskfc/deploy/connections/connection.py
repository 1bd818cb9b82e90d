"""The driver's connection to a scheduler, with every failure as one sentence."""

import asyncio
import contextlib
import gc
import logging
import warnings
from typing import Any

import dask.config
from distributed import Client

from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.config.dask_insides import VersionMismatchWarning, stop_loop
from daskfc.deploy.config.peers import peer_of
from daskfc.deploy.connections.reaching import reach
from daskfc.errors import ClusterError, NotAdmitted, PrivacyError

_dasks = logging.getLogger("distributed.client")
_BATCH_S = 0.002  # as at schedulers and workers


def connect_client(
    address: str, *, timeout: float, security: SecurityFiles | None = None, loop: Any = None
) -> Client:
    """Return Dask's client of a scheduler, which must answer within `timeout` seconds."""
    what = f"no Dask scheduler answered at {address}"
    if loop is None:
        reach(address, wait=timeout, what=what, security=security)
    made: list[_Client] = []
    refusal: ClusterError
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": timeout}))
        # Dask's table of all differences: those that matter are checked when a federation opens.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            client = _Client(
                made,
                address,
                timeout=timeout,
                security=security_of(security),
                loop=loop,
                set_as_default=False,
                direct_to_workers=True,  # results for the caller do not pass the scheduler
            )
        except ImportError as error:  # how Dask's clients report a scheduler's refusal
            refusal = NotAdmitted(f"{what}: {error}")
        except PrivacyError as error:
            refusal = NotAdmitted(f"{what}: {error}")
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            refusal = ClusterError(
                f"{what}: nobody answered within {timeout:g} s ({type(error).__name__}). Start one "
                "with 'daskfc scheduler', or correct the address in the cluster's file."
            )
        else:
            client.loop.asyncio_loop.set_exception_handler(_as_dasks)
            # Dask holds what comes within 10 ms of the last message back; a round has several.
            client.scheduler_comm.interval = _BATCH_S
            peer = peer_of(client.scheduler_comm.comm)
            if peer is None or peer.role == "scheduler":
                return client
            close_client(client)
            refusal = NotAdmitted(
                f"{what}: by its certificate it is {peer}. Have one signed for the role scheduler, "
                "or correct the address."
            )
    if made and made[0].status != "closed":
        _forget(made.pop())
    # The half-made client is part of a cycle. Collected while another thread starts a loop, it
    # would wait for the lock that this start holds.
    gc.collect()
    raise refusal


def _as_dasks(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log as Dask's an error that nobody awaits; Python may report it after the client closed."""
    _dasks.debug("%s", context["message"], exc_info=context.get("exception"))


class _Client(Client):  # type: ignore[misc]
    """Dask's client, recorded before it connects, so that it is closed if that fails."""

    def __init__(self, made: list["_Client"], *args: Any, **kwargs: Any) -> None:
        made.append(self)
        super().__init__(*args, **kwargs)


def _forget(half_made: Client) -> None:
    """Close a refused client; only its loop's thread may collect, and so close, its connection."""

    async def collect() -> None:
        gc.collect()

    with contextlib.suppress(OSError, TimeoutError, RuntimeError, AttributeError):
        half_made.sync(collect, callback_timeout=2)
        close_client(half_made)


def close_client(client: Client) -> None:
    """Close a client; one that its scheduler sent away is only stopped."""
    try:
        client.close(timeout=2)
    except PrivacyError:
        client.status = "closed"  # else it would try again when it is collected
        stop_loop(client)
