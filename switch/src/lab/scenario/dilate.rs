//! A scenario in slow motion: the same network, so many times slower.
//!
//! Rates are divided and times multiplied by one factor; bytes, counts and probabilities stay. In the model of DCQCN the
//! marking probability, the queue and alpha are then exactly what they were, only later (`dcqcn.md` 4.5); so are pauses,
//! which are bit times, and headroom, whose bounds go by the rate that a slow link stands for. What cannot follow exactly is
//! the timeout of acknowledgements, a power of two on the wire: it becomes the next longer one.

use wireyard_tables::time::{Span, Time};

use super::{FaultKind, HostSetup, Scenario};
use crate::lab::host;
use crate::units::Dilation;

/// Longest exponent of an ACK timeout (IBTA 9.7.6.1.3: five bits).
const ACK_TIMEOUT_MAX: u32 = 31;

impl Scenario {
    /// This scenario, `by` times slower: `by` more of the slower seconds for the same bytes.
    ///
    /// # Errors
    /// A rate that does not divide, or a time that becomes too long, by name.
    pub fn dilated(&self, by: Dilation) -> Result<Scenario, String> {
        if by == Dilation::ONE {
            return Ok(self.clone());
        }
        let mut slow = self.clone();
        slow.duration = longer("duration", self.duration, by)?;
        slow.warm_up = longer("warm_up", self.warm_up, by)?;
        slow.sample = longer("sample", self.sample, by)?;
        for link in 0..slow.fabric.links.len() {
            let name = self.fabric.link_name(link);
            let setup = &mut slow.fabric.links[link].setup;
            setup.rate = by.rate(setup.rate).ok_or_else(|| {
                let (rate, by) = (setup.rate, by.get());
                format!("link {name}: {rate} divided by {by} is no whole number of bit/s")
            })?;
            setup.delay = longer("a link's delay", setup.delay, by)?;
            setup.reorder_by = longer("reorder_by", setup.reorder_by, by)?;
        }
        let sources = self.sources.iter().map(|source| source.dilated(by)).collect();
        let sources: Option<_> = sources;
        slow.sources = sources.ok_or("a time of the flows is too long")?;
        slow.draw();
        for fault in &mut slow.faults {
            fault.at = later("a fault", fault.at, by)?;
            fault.until = fault.until.map(|at| later("a fault's end", at, by)).transpose()?;
            if let FaultKind::LinkDown { reroute_after: Some(after), .. } = &mut fault.kind {
                *after = longer("reroute_after", *after, by)?;
            }
        }
        slow.switch.qos = self.switch.qos.dilated(by).map_err(|why| format!("switch.qos.{why}"))?;
        slow.host = slower(&self.host, by)?;
        for setup in slow.hosts.values_mut() {
            *setup = slower(setup, by)?;
        }
        Ok(slow)
    }
}

fn slower(host: &HostSetup, by: Dilation) -> Result<HostSetup, String> {
    let mut slow = host.clone();
    let too_slow = || format!("{} times slower is slower than can be counted", by.get());
    slow.dilation = host.dilation.then(by).ok_or_else(too_slow)?;
    let queues = host::queues_config(host)?;
    slow.qos = Some(queues.dilated(by).map_err(|why| format!("host.qos.{why}"))?);
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
    slow.ack_timer.early = early.collect::<Result<_, String>>()?;
    Ok(slow)
}

/// The least power of two that is not less, as its exponent.
fn doublings(by: Dilation) -> u32 {
    u32::BITS - (by.get() - 1).leading_zeros()
}

fn longer(what: &str, span: Span, by: Dilation) -> Result<Span, String> {
    by.span(span).ok_or_else(|| format!("{what}: {span} times {} is too long", by.get()))
}

fn later(what: &str, at: Time, by: Dilation) -> Result<Time, String> {
    longer(what, at.since(Time::ZERO), by).map(|span| Time::ZERO + span)
}

#[cfg(test)]
mod tests;
