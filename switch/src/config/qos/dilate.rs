//! Quality of service of a network that is slower than the one that it models.
//!
//! All times and rates follow the factor, those of the preset too; bytes, weights, probabilities and pause quanta (bit
//! times) stay. Defaults that depend on the rate follow when the configuration is resolved. How far a late run loop may
//! catch up depends on the machine and not on the network: it stays.

use super::preset::PresetError;
use super::{PortSection, QosConfig};
use crate::units::{BitsPerSec, Dilation, Interval, Length};

/// Why queues cannot be slowed down by the factor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DilationError {
    /// A rate that the factor does not divide.
    #[error("{key}: {rate} divided by {by} is no whole number of bit/s")]
    Rate {
        /// Its place.
        key: String,
        /// The rate.
        rate: BitsPerSec,
        /// The factor.
        by: u32,
    },
    /// A time that becomes too long.
    #[error("{key}: {time} times {by} is too long")]
    Time {
        /// Its place.
        key: String,
        /// The time.
        time: Interval,
        /// The factor.
        by: u32,
    },
    /// A cable that becomes too long.
    #[error("{key}: {cable} is too long")]
    Cable {
        /// Its place.
        key: String,
        /// The cable.
        cable: Length,
    },
    /// They are already slowed down, and the product of both factors is too large.
    #[error("slower than can be counted")]
    Factor,
    /// An error in the preset under them. It does not occur in a build that passed its tests.
    #[error(transparent)]
    Preset(#[from] PresetError),
}

impl QosConfig {
    /// The same thresholds on links that are `by` times slower.
    ///
    /// # Errors
    /// A rate that does not divide, or a time that is too long, with its place.
    pub fn dilated(&self, by: Dilation) -> Result<QosConfig, DilationError> {
        let mut config = self.with_preset()?;
        config.dilation = self.dilation.then(by).ok_or(DilationError::Factor)?;
        for (name, scheduler) in &mut config.schedulers {
            let key = |key: &str| format!("schedulers.{name}.{key}");
            lower(&mut scheduler.min_rate, by, key("min_rate"))?;
            lower(&mut scheduler.max_rate, by, key("max_rate"))?;
        }
        section(&mut config.port_defaults, by, "port_defaults")?;
        for (name, port) in &mut config.ports {
            section(port, by, &format!("ports.{name}"))?;
        }
        Ok(config)
    }
}

fn section(port: &mut PortSection, by: Dilation, place: &str) -> Result<(), DilationError> {
    let at = |key: &str| format!("{place}.{key}");
    lower(&mut port.rate, by, at("rate"))?;
    lower(&mut port.max_rate, by, at("max_rate"))?;
    if let Some(cable) = port.cable {
        let longer = by.cable(cable);
        port.cable = Some(longer.ok_or_else(|| DilationError::Cable { key: at("cable"), cable })?);
    }
    lengthen(&mut port.peer_response, by, at("peer_response"))?;
    lengthen(&mut port.interface_delay, by, at("interface_delay"))?;
    lengthen(&mut port.pause_response, by, at("pause_response"))?;
    if let Some(watchdog) = &mut port.pfcwd {
        lengthen(&mut watchdog.detection_time, by, at("pfcwd.detection_time"))?;
        lengthen(&mut watchdog.restoration_time, by, at("pfcwd.restoration_time"))?;
        lengthen(&mut watchdog.poll_interval, by, at("pfcwd.poll_interval"))?;
    }
    Ok(())
}

fn lower(written: &mut Option<BitsPerSec>, by: Dilation, key: String) -> Result<(), DilationError> {
    if let Some(rate) = *written {
        let lower = by.rate(rate);
        *written = Some(lower.ok_or(DilationError::Rate { key, rate, by: by.get() })?);
    }
    Ok(())
}

fn lengthen(
    written: &mut Option<Interval>,
    by: Dilation,
    key: String,
) -> Result<(), DilationError> {
    if let Some(time) = *written {
        let longer = by.interval(time);
        *written = Some(longer.ok_or(DilationError::Time { key, time, by: by.get() })?);
    }
    Ok(())
}
