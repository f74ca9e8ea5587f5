//! The device's part of its control handle: commands between two bursts.

use wireyard_tables::time::Time;

use super::Core;
use crate::control::{Control, WorkerLink};

impl Core {
    /// The handle on this device, which other threads may hold; `None` for a device that was made without one ([`Core::new`]).
    pub fn control(&self) -> Option<&Control> {
        self.control.as_ref().map(|link| link.control())
    }

    /// Makes this device one that `link` reaches.
    pub(crate) fn set_control(&mut self, link: WorkerLink) {
        self.control = Some(Box::new(link));
    }

    /// What wakes the loop that polls this device.
    pub(crate) fn wake_by(&self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Some(link) = &self.control {
            link.wake_by(wake);
        }
    }

    /// True while commands of control wait.
    pub fn has_commands(&self) -> bool {
        self.control.as_ref().is_some_and(|link| link.has_commands())
    }

    /// Does what control asks for. [`Core::poll`] and [`Core::poll_readable`] do this first.
    #[inline]
    pub fn serve_control(&mut self, now: Time) {
        if self.control.as_ref().is_some_and(|link| link.polled(now)) {
            self.serve_commands(now);
        }
    }

    #[cold]
    fn serve_commands(&mut self, now: Time) {
        let Some(mut link) = self.control.take() else { return };
        self.now = now;
        link.serve(self, now);
        self.control = Some(link);
    }
}
