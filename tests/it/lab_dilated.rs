//! Time dilation: a network so many times slower, with the same bytes, behaves as the fast one.

use serde_json::Value;

use crate::lab::{figure, lab, scenario};

/// 10:1 at 100 Gbit/s; rates grow so fast that a short run has marks to count.
const INCAST: &str = "
lab: dilated
dilate: FACTOR
duration: 14 ms
warm_up: 6 ms
link: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 10 } }
switch:
  program: PROGRAMS/rocev2_lossless
  qos:
    preset: onyx_roce
    wred_profiles: { ROCE: { green: { kmin: 5 KB, kmax: 2000 KB, pmax: 10 % } } }
host: { program: PROGRAMS/roce_nic, rate_control: dcqcn, parameters: { additive_increase_bps: 7.5e8 } }
flows: { from: senders, to: sink }
";

fn report(factor: u32) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let path = scenario(folder.path(), &INCAST.replace("FACTOR", &factor.to_string()));
    let ended = lab(&[&path, "--json"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).expect("JSON")
}

/// Bytes, probabilities and alpha are those of the fast network; rates are divided, times multiplied.
#[test]
fn a_network_ten_and_a_thousand_times_slower_behaves_as_the_fast_one() {
    let fast = report(1);
    let near = |slow: &Value, name: &str, scale: f64, tolerance: f64| {
        let (was, is) = (figure(&fast, name), figure(slow, name) * scale);
        assert!((is / was - 1.0).abs() < tolerance, "{name}: {was} fast, {is} slow, scaled back");
    };
    assert!(figure(&fast, "bottleneck.marked") > 100.0, "too few marks to compare");
    for factor in [10, 1000] {
        let slow = report(factor);
        let by = f64::from(factor);
        near(&slow, "run.time", 1.0 / by, 1e-9);
        near(&slow, "theory.marking_probability", 1.0, 1e-6);
        near(&slow, "theory.cnp_rate", by, 1e-6);
        near(&slow, "flows.throughput", by, 0.02);
        near(&slow, "run.delivered", 1.0, 0.02);
        // Samples of a loop in motion: the events are not the same, only their law.
        near(&slow, "bottleneck.marking_probability", 1.0, 0.2);
        near(&slow, "bottleneck.queue_mean", 1.0, 0.2);
        near(&slow, "flows.alpha", 1.0, 0.05);
        near(&slow, "flows.cnp_rate", by, 0.1);
    }
}

#[test]
fn a_factor_that_cannot_be_is_refused_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    for (factor, expected) in [("7", "no whole number of bit/s"), ("0", "expected 1 to 1000000")] {
        let path = scenario(folder.path(), &INCAST.replace("FACTOR", factor));
        let ended = lab(&[&path]);
        assert_eq!(ended.status, Some(2), "{}", ended.err);
        assert!(ended.err.contains(expected) && ended.err.contains("dilate: "), "{}", ended.err);
    }
}
