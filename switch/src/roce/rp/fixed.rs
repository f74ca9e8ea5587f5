//! A constant rate: the control case beside DCQCN.

use wireyard_tables::time::{Deadline, Time};

use super::{RateControl, RateState};

/// Constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    rate_bps: f64,
}

impl Fixed {
    /// Sends at `rate_bps` for ever.
    pub fn new(rate_bps: f64) -> Self {
        Fixed { rate_bps }
    }
}

impl RateControl for Fixed {
    fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    fn on_cnp(&mut self, _now: Time) {}

    fn on_bytes_sent(&mut self, _now: Time, _bytes: u64) {}

    fn next_deadline(&self) -> Deadline {
        Deadline::NEVER
    }

    fn poll(&mut self, _now: Time) {}

    fn state(&self) -> RateState {
        RateState {
            rate_bps: self.rate_bps,
            target_bps: self.rate_bps,
            estimate: 0.0,
            time_stage: 0,
            byte_stage: 0,
        }
    }
}
