//! What a dilated scenario slows down, and what cannot be.

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
    let mut files: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
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
            assert_eq!(format!("{:?}", is.report), format!("{:?}", was.report), "{}", slow.name);
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
    let refused = scenario.dilated(by(7)).unwrap_err().to_string();
    assert!(refused.contains("divided by 7") && refused.contains("link "), "{refused}");
    scenario.duration = Span::from_ms(1 << 30);
    let refused = scenario.dilated(by(1000)).unwrap_err().to_string();
    assert!(refused.contains("duration") && refused.contains("too long"), "{refused}");
}
