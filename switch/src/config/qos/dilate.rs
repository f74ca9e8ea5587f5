//! Quality of service of a network that is slower than the one it stands for.
//!
//! Everything that is written as a time or a rate follows the factor, in the preset too; bytes, weights, probabilities and
//! pause quanta (bit times) stay. Defaults that go by rate follow when the configuration is resolved. How far a late run
//! loop may catch up is about the machine and not about the network: it stays.

use super::{PortSection, QosConfig};
use crate::units::{BitsPerSec, Dilation, Interval};

impl QosConfig {
    /// The same thresholds on links that are `by` times slower.
    ///
    /// # Errors
    /// A rate that does not divide, or a time that is too long, with its place.
    pub fn dilated(&self, by: Dilation) -> Result<QosConfig, String> {
        let mut config = self.with_preset()?;
        let too_slow = || "slower than can be counted".to_owned();
        config.dilation = self.dilation.then(by).ok_or_else(too_slow)?;
        for (name, scheduler) in &mut config.schedulers {
            for (key, rate) in
                [("min_rate", &mut scheduler.min_rate), ("max_rate", &mut scheduler.max_rate)]
            {
                lower(rate, by).map_err(|why| format!("schedulers.{name}.{key}: {why}"))?;
            }
        }
        section(&mut config.port_defaults, by).map_err(|why| format!("port_defaults.{why}"))?;
        for (name, port) in &mut config.ports {
            section(port, by).map_err(|why| format!("ports.{name}.{why}"))?;
        }
        Ok(config)
    }
}

fn section(port: &mut PortSection, by: Dilation) -> Result<(), String> {
    let at = |key: &'static str| move |why: String| format!("{key}: {why}");
    lower(&mut port.rate, by).map_err(at("rate"))?;
    lower(&mut port.max_rate, by).map_err(at("max_rate"))?;
    if let Some(cable) = port.cable {
        let longer = by.cable(cable).ok_or_else(|| format!("cable: {cable} is too long"))?;
        port.cable = Some(longer);
    }
    lengthen(&mut port.peer_response, by).map_err(at("peer_response"))?;
    lengthen(&mut port.interface_delay, by).map_err(at("interface_delay"))?;
    lengthen(&mut port.pause_response, by).map_err(at("pause_response"))?;
    if let Some(watchdog) = &mut port.pfcwd {
        lengthen(&mut watchdog.detection_time, by).map_err(at("pfcwd.detection_time"))?;
        lengthen(&mut watchdog.restoration_time, by).map_err(at("pfcwd.restoration_time"))?;
        lengthen(&mut watchdog.poll_interval, by).map_err(at("pfcwd.poll_interval"))?;
    }
    Ok(())
}

fn lower(rate: &mut Option<BitsPerSec>, by: Dilation) -> Result<(), String> {
    if let Some(found) = *rate {
        let lower = by.rate(found);
        *rate = Some(lower.ok_or_else(|| {
            format!("{found} divided by {} is no whole number of bit/s", by.get())
        })?);
    }
    Ok(())
}

fn lengthen(time: &mut Option<Interval>, by: Dilation) -> Result<(), String> {
    if let Some(found) = *time {
        let longer = by.interval(found);
        *time = Some(longer.ok_or_else(|| format!("{found} times {} is too long", by.get()))?);
    }
    Ok(())
}
