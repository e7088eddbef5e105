"""The executor image: its name, its base, and building it on first use.

The tag holds a hash of the Dockerfile and the base image's name, so a changed Dockerfile is a new image and an old one
is never taken by mistake. Not here: containers (`engine`).
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections import deque
from contextlib import ExitStack
from importlib import resources

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from controller.machine.files import cache_root, locked
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

REPOSITORY = "sparkpace-executor"
LOCAL_BASE = "sparkpace-base:bookworm"
"""Base image that dockerfiles/engine.sh makes where no registry can be reached."""
BUILD_TIMEOUT_S = 1800
KEPT_LINES = 8
"""Number of lines of a failed build that are shown."""


def dockerfile() -> bytes:
    """Return the executor's Dockerfile, from the source tree or the installed package."""
    return (resources.files("dockerfiles") / "executor" / "Dockerfile").read_bytes()


def choose_base(client: docker.APIClient, base_image: str | None) -> str | None:
    """Return the base image's name: the given one, else `LOCAL_BASE` if it is here; None leaves it to the Dockerfile."""
    return base_image or (LOCAL_BASE if exists(client, LOCAL_BASE) else None)


def tag_of(base: str | None) -> str:
    """Return name and tag of the executor image on `base`."""
    digest = hashlib.sha256(dockerfile() + b"\0" + (base or "").encode()).hexdigest()[:12]
    return f"{REPOSITORY}:{digest}"


def image_id(client: docker.APIClient, image: str) -> str | None:
    """Return the id of a local image; None when it is not here."""
    try:
        return str(client.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None


def exists(client: docker.APIClient, image: str) -> bool:
    return image_id(client, image) is not None


def ensure_executor_image(client: docker.APIClient, base_image: str | None) -> str:
    """Return the executor image's name; build the image if it is missing (about half a minute and 250 MB on top of the base).

    The agents of one user build one after another; agents of two users build the same image. Raises `RuntimeRefused` when it
    cannot be built, `RuntimeFailed` when the engine goes away meanwhile.
    """
    base = choose_base(client, base_image)
    tag = tag_of(base)
    if exists(client, tag):
        return tag
    with ExitStack() as held:
        try:
            held.enter_context(locked(cache_root() / "image.lock", BUILD_TIMEOUT_S))
        except RuntimeFailed as error:
            log.warning("the executor image is built without waiting for others that may build it: %s", error)
        if not exists(client, tag):  # another agent may have built it while this one waited
            _build(client, tag, base)
    return tag


def ensure_named_image(client: docker.APIClient, image: str) -> str:
    """Return a user's image: as it is here, else pulled. Raise `RuntimeRefused` if neither works."""
    if not exists(client, image):
        try:
            for step in client.pull(image, stream=True, decode=True):
                if "error" in step:
                    raise RuntimeRefused(_no_image(image, str(step["error"])))
        except APIError as error:
            raise RuntimeRefused(_no_image(image, str(error.explanation or error))) from error
    return image


def _no_image(image: str, reason: str) -> str:
    return f"image {image!r} is not on this worker and cannot be pulled ({reason}); load it, or leave out --image"


def _build(client: docker.APIClient, tag: str, base: str | None) -> None:
    last: deque[str] = deque(maxlen=KEPT_LINES)
    try:
        steps = client.build(
            fileobj=io.BytesIO(dockerfile()),
            tag=tag,
            buildargs={"BASE_IMAGE": base} if base else None,
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
            timeout=BUILD_TIMEOUT_S,
        )
        failure: str | None = None
        for step in steps:
            last.extend(line for line in str(step.get("stream", "")).splitlines() if line.strip())
            failure = failure or step.get("error")
    except (APIError, BuildError) as error:
        failure = str(error)
    except OSError as error:  # requests' errors are OSErrors
        raise RuntimeFailed(f"the Docker engine went away while image {tag} was built: {error}") from error
    if failure is not None:
        raise RuntimeRefused(
            f"executor image {tag} cannot be built on base {base or 'of the Dockerfile'} ({failure.strip()}); "
            f"choose a base image that is here or can be pulled, with apt-get inside. Last lines:\n" + "\n".join(last)
        )
