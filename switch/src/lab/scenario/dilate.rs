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
mod tests {
    use std::path::Path;

    use wireyard_pipeline::source::Loader;

    use super::*;
    use crate::lab::queues::switch_qos;
    use crate::lab::scenario::read;
    use crate::library::LIBRARIES;
    use crate::units::BitsPerSec;

    fn library() -> Vec<Scenario> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs/lab");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
        files.sort();
        let loader = Loader::new(Vec::new(), LIBRARIES);
        files.iter().map(|path| read(path, &loader).unwrap().0).collect()
    }

    fn by(factor: u32) -> Dilation {
        Dilation::new(factor).unwrap()
    }

    /// Pools, XOFF, headroom and marking thresholds, pauses in quanta: all of them are bytes or bit times.
    #[test]
    fn thresholds_of_every_scenario_stay_and_two_steps_are_one() {
        let scenarios = library();
        assert!(scenarios.len() > 10);
        for scenario in scenarios {
            let slow = scenario.dilated(by(1000)).unwrap();
            for node in scenario.fabric.switches() {
                let resolved = |of: &Scenario| switch_qos(of, node).unwrap();
                let (was, is) = (resolved(&scenario), resolved(&slow));
                assert_eq!(
                    format!("{:?}", is.report),
                    format!("{:?}", was.report),
                    "{}",
                    slow.name
                );
                for (was, is) in was.ports.iter().zip(&is.ports) {
                    let (was, is) = (&was.tm, &is.tm);
                    assert_eq!(Some(is.rate.unwrap()), by(1000).rate(was.rate.unwrap()));
                    let within = by(1000).span(was.flow_control.honoured_within);
                    assert_eq!(Some(is.flow_control.honoured_within), within);
                    let detection = was.watchdog.as_ref().map(|dog| dog.detection);
                    let slower = is.watchdog.as_ref().map(|dog| dog.detection);
                    assert_eq!(slower, detection.and_then(|span| by(1000).span(span)));
                }
            }
            let twice = scenario.dilated(by(10)).unwrap().dilated(by(100)).unwrap();
            assert_eq!(format!("{twice:?}"), format!("{slow:?}"));
            assert_eq!(format!("{:?}", scenario.dilated(by(1)).unwrap()), format!("{scenario:?}"));
        }
    }

    #[test]
    fn a_preset_follows_and_stays_that_of_the_fast_link() {
        let mut scenario = library().remove(0);
        for name in ["dcqcn", "hpcc_dcqcn", "connectx"] {
            scenario.host.rate_control = name.to_owned();
            scenario.host.rate_program = None;
            scenario.host.cnp_interval = None;
            let slow = scenario.dilated(by(100)).unwrap();
            let (fast, slower) = (BitsPerSec::gbit(100), BitsPerSec::gbit(1));
            let was = host::rate_control(&scenario.host, fast).unwrap().1.unwrap();
            let is = host::rate_control(&slow.host, slower).unwrap().1.unwrap();
            assert_eq!(Some(&is), was.clone().dilated(by(100)).as_ref());
            assert_eq!(is.additive_increase_bps, was.additive_increase_bps / 100.0);
            let interval = host::cnp_interval(&scenario.host, fast);
            assert_eq!(Some(host::cnp_interval(&slow.host, slower)), by(100).span(interval));
        }
    }

    #[test]
    fn what_does_not_divide_or_fit_is_named() {
        let mut scenario = library().remove(0);
        let refused = scenario.dilated(by(7)).unwrap_err();
        assert!(refused.contains("divided by 7") && refused.contains("link "), "{refused}");
        scenario.duration = Span::from_ms(1 << 30);
        let refused = scenario.dilated(by(1000)).unwrap_err();
        assert!(refused.contains("duration") && refused.contains("too long"), "{refused}");
    }
}
