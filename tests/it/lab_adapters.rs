//! `nic`: what an adapter stands for, by what comes of it in a run.

use serde_json::Value;
use wireyard_tests::binary::run;

use crate::lab::{figure, lab, report, scenario};

/// Two flows over slow links; the one to h2 loses its link for good after 1 ms.
fn cut(host: &str, duration: &str) -> Value {
    report(&format!(
        "
lab: cut
duration: {duration}
sample: 5 ms
link: {{ rate: 100 Mbit/s, delay: 1 us, mtu: 1500 B }}
topology: {{ hosts: [h1, h2, h3, h4], switches: [s], links: [{{ ends: [h1, s] }}, {{ ends: [h2, s] }}, {{ ends: [h3, s], rate: 2 Mbit/s }}, {{ ends: [h4, s], rate: 2 Mbit/s }}] }}
host: {{ {host}, rate_control: fixed }}
flows:
  - {{ from: h1, to: h2, message: 1 KB, window: 1 }}
  - {{ from: h3, to: h4 }}
faults: [{{ at: 1 ms, link_down: h2-s }}]
"
    ))
}

/// The study: 440 ms of adaptive retransmission and 6 regular timeouts of 536.9 ms, of which the last fails: 3661.8 ms.
#[test]
fn a_connectx6_with_seven_retries_fails_when_it_was_measured_to() {
    assert_eq!(figure(&cut("nic: connectx6", "3660 ms"), "flows.failed"), 0.0);
    let over = cut("nic: connectx6", "3665 ms");
    assert_eq!(figure(&over, "flows.failed"), 1.0);
    // Eight times 67.1 ms.
    assert_eq!(figure(&cut("nic: ideal", "535 ms"), "flows.failed"), 0.0);
    assert_eq!(figure(&cut("nic: ideal", "541 ms"), "flows.failed"), 1.0);
}

/// A link that is cut for 1.5 ms: each adapter goes on when its timer ends, the first of which is 2 ms with a ConnectX-5.
#[test]
fn timers_of_adapters_end_when_theirs_do() {
    let after_cut = |host: &str| {
        figure(
            &report(&format!(
                "
lab: timers
duration: 600 ms
sample: 1 ms
link: {{ rate: 1 Gbit/s, delay: 1 us, mtu: 1500 B }}
topology: {{ incast: {{ senders: 1 }} }}
host: {{ {host}, rate_control: fixed }}
flows: {{ from: senders, to: sink, size: 1 MB }}
faults: [{{ at: 7 ms, until: 8700 us, link_down: sink-s1 }}]
"
            )),
            "flows.completion_max",
        )
    };
    // All is sent after 8.6 ms, and what was lost takes 1.7 ms again; the timer began with the last acknowledgement that was asked for.
    let ends_after = |host: &str, wait_ms: f64| {
        let found = after_cut(host) * 1e3;
        let wanted = 10.3 + wait_ms;
        assert!((wanted - 1.5..wanted + 0.5).contains(&found), "{host}: {found} ms, not {wanted}");
    };
    ends_after("nic: connectx5", 2.0);
    ends_after("nic: connectx6", 12.3);
    ends_after("nic: ideal", 67.1);
    ends_after("nic: thor2", 268.4);
    ends_after("nic: connectx2", 536.9);
    // What is written wins, on either side of `nic`.
    ends_after("ack_timeout_min: 10, nic: connectx2, ack_timeout: 10", 4.2);
    ends_after("nic: connectx5, early_timeouts: [5 ms]", 5.0);
}

const WIDE: &str = "
lab: wide
duration: 20 ms
link: { rate: 10 Gbit/s, delay: 500 us, mtu: 1500 B }
topology: { incast: { senders: 1 } }
host: { HOST, rate_control: fixed }
flows: { from: senders, to: sink, window: 16 }
";

/// Soft RoCE lets 129 packets be without an acknowledgement: 129 x 1024 bytes in a round trip of 2 ms.
#[test]
fn rxe_keeps_its_window() {
    let of = |host: &str| figure(&report(&WIDE.replace("HOST", host)), "flows.throughput");
    let (ideal, rxe) = (of("nic: ideal"), of("nic: rxe"));
    assert!(ideal > 7e9, "{ideal}");
    let window = 129.0 * 1024.0 * 8.0 / 2.002e-3;
    assert!((rxe / window - 1.0).abs() < 0.1, "{rxe}, wanted {window}");
}

/// Two flows into one host, both marked: a ConnectX sends a CNP in 4 us for the port, not for each flow.
#[test]
fn a_connectx_bounds_the_cnps_of_its_port_and_asks_for_few_acknowledgements() {
    let of = |host: &str| {
        report(&format!(
            "
lab: cnps
duration: 2 ms
link: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}
topology: {{ incast: {{ senders: 4 }} }}
switch: {{ qos: {{ preset: onyx_roce, wred_profiles: {{ ROCE: {{ green: {{ kmin: 1 KB, kmax: 2 KB, pmax: 100 % }} }} }} }} }}
host: {{ {host} }}
flows: {{ from: senders, to: sink }}
"
        ))
    };
    let line_rate = "nic: connectx6, rate_control: fixed";
    let (port, flow) = (of(line_rate), of(&format!("{line_rate}, cnp_per: flow")));
    let cnps = |of: &Value| figure(of, "flows.cnps");
    assert!(cnps(&port) <= 2000.0 / 4.0 + 1.0, "{}", cnps(&port));
    assert!(
        cnps(&port) > 400.0 && cnps(&flow) > 3.0 * cnps(&port),
        "{} and {}",
        cnps(&flow),
        cnps(&port)
    );
    let frames = |host: &str| figure(&of(&format!("{host}, rate_control: fixed")), "links.sent");
    let (few, many) = (frames("nic: connectx6"), frames("nic: connectx6, ack_every: 4"));
    assert!(many > 1.1 * few, "{many} and {few}");
}

/// `hosts` may have another adapter, and keeps what is written in `host`.
#[test]
fn one_host_has_another_adapter() {
    let text =
        WIDE.replace("HOST", "nic: rxe, path_mtu: 512 B") + "hosts: [{ of: h1, nic: ideal }]\n";
    let ideal = figure(&report(&text), "flows.throughput");
    assert!(ideal > 6e9, "{ideal}");
    let rxe = WIDE.replace("HOST", "path_mtu: 512 B") + "hosts: [{ of: h1, nic: rxe }]\n";
    let window = 129.0 * 512.0 * 8.0 / 2.002e-3;
    let found = figure(&report(&rxe), "flows.throughput");
    assert!((found / window - 1.0).abs() < 0.1, "{found}, wanted {window}");
}

#[test]
fn an_unknown_adapter_gets_a_suggestion_and_bad_timers_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (host, wanted) in [
        ("nic: conectx6", "connectx6"),
        ("ack_timeout_factor: 5", "expected 1 to 4"),
        ("early_timeouts: [1 ms, 0 us]", "longer than zero"),
        ("outstanding: 0 packets", "1 to 8388607"),
        ("outstanding: 0 B", "nothing may be under way"),
    ] {
        let path = scenario(folder.path(), &WIDE.replace("HOST", host));
        lab(&[&path, "--check"]).expect(2, &[wanted]);
    }
    let explained = run(&["explain", "connectx6"]);
    assert_eq!(explained.status, Some(0));
    for wanted in ["ack_timeout_min: 16", "20.43.4100", "cnp_per: port"] {
        assert!(explained.out.contains(wanted), "{}", explained.out);
    }
    let schema = run(&["schema", "scenario"]);
    assert!(schema.out.contains("\"thor2\""), "no adapter in the schema");
}
