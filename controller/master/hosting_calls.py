"""Calls about hosted drivers: a new driver is stored before it is placed, so that no restart of the master loses it."""

from __future__ import annotations

from controller.master.core.hosting import Hosting
from controller.master.outside import Outside
from controller.wire.hosting import HostedList, HostedView, HostRequest


class HostingCalls:
    """The calls. Each raises `BadInput` for a driver that is not known."""

    def __init__(self, core: Hosting, outside: Outside) -> None:
        self.core, self.outside = core, outside

    def submit(self, asked: HostRequest, now_s: float, wall_s: float) -> HostedView:
        """Take a driver in whose user somebody vouches for (`vouching`). Raise as `Hosting.made`, and `NotStored`; then
        nothing has changed."""
        with self.outside.changing(now_s):
            driver = self.core.made(asked, now_s, wall_s)
            self.outside.store_driver(driver)
            return self.core.add(driver, now_s)

    def view(self, driver_id: str) -> HostedView:
        return self.core.view(driver_id)

    def views(self) -> HostedList:
        return HostedList(drivers=self.core.views())

    def kill(self, driver_id: str, now_s: float) -> HostedView:
        """Have a driver end for good, unless it has ended; return what people see of it then."""
        with self.outside.changing(now_s):
            self.core.kill(driver_id)
        return self.core.view(driver_id)
