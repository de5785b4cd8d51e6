"""The four clients with a common interface, for tests that apply to all."""

import asyncio
import threading

from keras_bert.tf_serving.client import AsyncGrpcClient, AsyncRestClient, GrpcClient, RestClient

CLIENTS = {"rest": RestClient, "grpc": GrpcClient, "async rest": AsyncRestClient, "async grpc": AsyncGrpcClient}


class Waiting:
    """Gives an async client the blocking interface: every call runs in an event loop of its own thread."""

    def __init__(self, kind, *arguments, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def make():
            return kind(*arguments, **options)

        self._client = self._run(make())

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __getattr__(self, name):
        return lambda *arguments, **options: self._run(getattr(self._client, name)(*arguments, **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def make_client(kind: str, server, model="toy", **options):
    """Returns a client with the blocking interface. A server has `url` for REST and `address` for gRPC."""
    arguments = (server.url if "rest" in kind else server.address, model)
    if "async" in kind:
        return Waiting(CLIENTS[kind], *arguments, **options)
    return CLIENTS[kind](*arguments, **options)
