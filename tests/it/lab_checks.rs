//! What the laboratory's checks find, where they find it, and what they let pass.

use crate::lab::{figure, lab, report, scenario};

/// Two senders to one receiver over links of 10 Gbit/s; `MORE` are further keys.
fn incast(more: &str) -> String {
    format!(
        "
lab: checked
duration: 20 ms
link: {{ rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }}
topology: {{ incast: {{ senders: 2 }} }}
flows: {{ from: senders, to: sink }}
{more}"
    )
}

#[test]
fn a_port_has_the_rate_of_its_link() {
    let folder = tempfile::tempdir().expect("a folder");
    for rate in ["9 Gbit/s", "11 Gbit/s"] {
        let more = format!("switch: {{ qos: {{ port_defaults: {{ rate: {rate} }} }} }}");
        let ended = lab(&[&scenario(folder.path(), &incast(&more)), "--check"]);
        ended.expect(
            2,
            &[
                &format!("the rate is {rate}, and that of its link 10 Gbit/s"),
                "`max_rate` makes a port slower",
                "nothing was run",
            ],
        );
    }
}

/// Frames without preamble and gap are 2 % more than a link of Ethernet carries.
#[test]
fn a_link_that_carries_too_much_breaks_the_check_of_rates() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "host: { rate_control: fixed }\nswitch: { qos: { preset: onyx_roce, port_defaults: { preamble_and_gap: 0 B } } }";
    let ended = lab(&[&scenario(folder.path(), &incast(more))]);
    ended.expect(1, &["check rates failed", "s1-sink", "are more than 10 Gbit/s"]);
}

/// A frame takes 6 ms here: more than the time that counts as a standstill on fast links.
#[test]
fn a_queue_behind_a_slow_shaper_is_no_standstill() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "switch: { qos: { preset: plain, port_defaults: { max_rate: 2 Mbit/s } } }";
    let ended = lab(&[&scenario(folder.path(), &incast(more))]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
}

/// A pause is lost on the link of h1: its port has refused packets, and not that of the receiver.
#[test]
fn the_port_that_lost_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "
lab: lost_pause
duration: 5 ms
link: { rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }
topology:
  hosts: [sink, h1, h2]
  switches: [s1]
  links: [ { ends: [s1, sink] }, { ends: [h1, s1], loss: 30 % }, { ends: [h2, s1] } ]
switch: { qos: { preset: onyx_roce, buffer_pools: { ingress_lossless_pool: { direction: ingress, size: 400 KB } } } }
host: { rate_control: fixed, ecn: false, retransmission: selective, reordering: 100 }
flows: { from: [h1, h2], to: sink }
";
    let ended = lab(&[&scenario(folder.path(), text)]);
    ended.expect(1, &["check lossless failed", "s1->h1: ", "packets of lossless class 3"]);
}

/// Every packet of a selective sender has an address of 16 bytes, which is no payload.
#[test]
fn no_flow_has_more_than_the_payload_that_fits() {
    let more = "host: { rate_control: fixed, outstanding: 200 KB, retransmission: selective }\nwarm_up: 1 ms";
    let found = report(&incast(more));
    let (total, fits) =
        (figure(&found, "flows.throughput"), figure(&found, "bottleneck.payload_rate"));
    assert!((0.999..=1.0001).contains(&(total / fits)), "{total} of {fits}");
}

#[test]
fn a_flow_alone_is_as_fast_as_it_can_be() {
    let text = incast("host: { rate_control: fixed }").replace("senders: 2", "senders: 1");
    let text = text.replace("to: sink", "to: sink, size: 100 KB");
    let found = report(&text);
    assert_eq!(figure(&found, "flows.slowdown_p50"), 1.0);
}

#[test]
fn captures_that_memory_does_not_hold_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = scenario(folder.path(), &incast("captures: { s1-sink: 10000000 }"));
    lab(&[&scenario, "--check"])
        .expect(2, &["captures of up to 15 GB", "at most 2048 MiB", "keep fewer frames"]);
}
