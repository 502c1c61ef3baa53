"""deepspeed.ops.aio: asked for by those who want to know whether it is there. It is not."""
from .._absent import error_type, sentence
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class AsyncIOBuilder:
    NAME = "async_io"

    def is_compatible(self, verbose: bool = False) -> bool:
        return False

    def load(self, verbose: bool = True) -> None:
        raise error_type()(sentence("deepspeed.ops.aio.AsyncIOBuilder.load",
                                    "a higher stage, which needs less memory on each rank"))
