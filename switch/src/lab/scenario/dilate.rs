//! A scenario in slow motion: the same network, slowed down by a factor.
//!
//! Rates are divided and times multiplied by one factor; bytes, counts and probabilities stay. In the model of DCQCN
//! the marking probability, the queue and alpha are then exactly the same, only later; so are pauses,
//! which are bit times, and headroom, whose bounds are those of the rate that a slow link models. Only the timeout of
//! acknowledgements cannot follow exactly, a power of two on the wire: it becomes the next longer one.

use wireyard_tables::time::{Span, Time};

use super::{FaultKind, HostSetup, Scenario};
use crate::config::qos::{DilationError, QosConfig};
use crate::lab::host;
use crate::units::{BitsPerSec, Dilation};

/// Longest exponent of an ACK timeout (IBTA 9.7.6.1.3: five bits).
const ACK_TIMEOUT_MAX: u32 = 31;

/// Why a scenario cannot be slowed down by the factor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlowMotionError {
    /// The rate of a link that the factor does not divide.
    #[error("link {link}: {rate} divided by {by} is no whole number of bit/s")]
    Rate {
        /// The link.
        link: String,
        /// Its rate.
        rate: BitsPerSec,
        /// The factor.
        by: u32,
    },
    /// A time that becomes too long.
    #[error("{what}: {time} times {by} is too long")]
    Time {
        /// Name of the time.
        what: &'static str,
        /// Its length.
        time: Span,
        /// The factor.
        by: u32,
    },
    /// A time of the flows that becomes too long.
    #[error("a time of the flows is too long")]
    Flows,
    /// Queues that cannot be slowed down.
    #[error("{of}.qos.{source}")]
    Qos {
        /// Whose: `switch` or `host`.
        of: &'static str,
        /// Their errors.
        source: DilationError,
    },
    /// Hosts that are already slowed down, and the product of both factors is too large.
    #[error("{0} times slower is slower than can be counted")]
    Factor(u32),
    /// The default queues of hosts are wrong. It does not occur in a build that passed its tests.
    #[error(transparent)]
    HostQueues(#[from] serde_json::Error),
}

impl Scenario {
    /// This scenario, `by` times slower: the same bytes in `by` times the time.
    ///
    /// # Errors
    /// A rate that does not divide, or a time that becomes too long, by name.
    pub fn dilated(&self, by: Dilation) -> Result<Scenario, SlowMotionError> {
        if by == Dilation::ONE {
            return Ok(self.clone());
        }
        let mut slow = self.clone();
        slow.duration = longer("duration", self.duration, by)?;
        slow.warm_up = longer("warm_up", self.warm_up, by)?;
        slow.sample = longer("sample", self.sample, by)?;
        for link in 0..slow.fabric.links.len() {
            let setup = &mut slow.fabric.links[link].setup;
            setup.rate = by.rate(setup.rate).ok_or_else(|| {
                let (link, rate) = (self.fabric.link_name(link), setup.rate);
                SlowMotionError::Rate { link, rate, by: by.get() }
            })?;
            setup.delay = longer("a link's delay", setup.delay, by)?;
            setup.reorder_by = longer("reorder_by", setup.reorder_by, by)?;
        }
        let sources = self.sources.iter().map(|source| source.dilated(by)).collect();
        let sources: Option<_> = sources;
        slow.sources = sources.ok_or(SlowMotionError::Flows)?;
        slow.draw();
        for fault in &mut slow.faults {
            fault.at = later("a fault", fault.at, by)?;
            fault.until = fault.until.map(|at| later("a fault's end", at, by)).transpose()?;
            if let FaultKind::LinkDown { reroute_after: Some(after), .. } = &mut fault.kind {
                *after = longer("reroute_after", *after, by)?;
            }
        }
        slow.switch.qos = slower_queues("switch", &self.switch.qos, by)?;
        slow.host = slower(&self.host, by)?;
        for setup in slow.hosts.values_mut() {
            *setup = slower(setup, by)?;
        }
        Ok(slow)
    }
}

fn slower(host: &HostSetup, by: Dilation) -> Result<HostSetup, SlowMotionError> {
    let mut slow = host.clone();
    slow.dilation = host.dilation.then(by).ok_or(SlowMotionError::Factor(by.get()))?;
    slow.qos = Some(slower_queues("host", &host::queues_config(host)?, by)?);
    if let Some(interval) = host.cnp_interval {
        slow.cnp_interval = Some(longer("cnp_interval", interval, by)?);
    }
    let more = doublings(slow.dilation) - doublings(host.dilation);
    for exponent in [&mut slow.ack_timeout, &mut slow.ack_timer.code_min] {
        if *exponent != 0 {
            *exponent = (u32::from(*exponent) + more).min(ACK_TIMEOUT_MAX) as u8;
        }
    }
    let early = host.ack_timer.early.iter().map(|wait| longer("early_timeouts", *wait, by));
    slow.ack_timer.early = early.collect::<Result<_, SlowMotionError>>()?;
    Ok(slow)
}

/// The least power of two that is not less, as its exponent.
fn doublings(by: Dilation) -> u32 {
    u32::BITS - (by.get() - 1).leading_zeros()
}

fn slower_queues(
    of: &'static str,
    queues: &QosConfig,
    by: Dilation,
) -> Result<QosConfig, SlowMotionError> {
    queues.dilated(by).map_err(|source| SlowMotionError::Qos { of, source })
}

fn longer(what: &'static str, time: Span, by: Dilation) -> Result<Span, SlowMotionError> {
    by.span(time).ok_or(SlowMotionError::Time { what, time, by: by.get() })
}

fn later(what: &'static str, at: Time, by: Dilation) -> Result<Time, SlowMotionError> {
    longer(what, at.since(Time::ZERO), by).map(|span| Time::ZERO + span)
}

#[cfg(test)]
mod tests;
