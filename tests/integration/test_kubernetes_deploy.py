"""deploy/kubernetes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet, a job they pace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from controller.submit.attaching import attach_settings
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import deployed
