use crate::ports::PortNumber;
use crate::tm::{Limit, Service, Tm, Xon};

use super::*;

fn ports(numbers: &[u16], gbit: u32) -> Vec<PortLink> {
    let rate = (gbit != 0).then(|| BitsPerSec::gbit(gbit));
    numbers.iter().map(|number| PortLink { number: PortNumber(*number), rate }).collect()
}

fn parse(text: &str) -> QosConfig {
    serde_json::from_str(text).unwrap()
}

/// The problems of a configuration for two ports of 100 Gbit/s.
fn problems(text: &str) -> Vec<String> {
    match parse(text).resolve(&ports(&[1, 2], 100)) {
        Ok(_) => Vec::new(),
        Err(report) => report.problems.iter().map(ToString::to_string).collect(),
    }
}

fn refused(text: &str, needle: &str) {
    let problems = problems(text);
    assert!(problems.iter().any(|problem| problem.contains(needle)), "{needle}: {problems:#?}");
}

#[test]
fn presets_resolve_and_make_a_traffic_manager() {
    for preset in ["sonic_azure", "onyx_roce", "plain"] {
        let config = parse(&format!("{{ \"preset\": \"{preset}\" }}"));
        let qos = config.resolve(&ports(&[1, 2, 3], 100)).unwrap();
        assert_eq!(qos.report.warnings, [], "{preset}");
        let mut tm: Tm<u32> = Tm::new(qos.tm);
        for port in qos.ports {
            tm.add_port(port.tm).unwrap();
        }
        tm.view(wireyard_tables::time::Time::ZERO).audit().unwrap();
    }
    let plain = QosConfig::default().resolve(&ports(&[1], 0)).unwrap();
    assert_eq!(plain.ports[0].tm.rate, None);
}

#[test]
fn sonic_azure_is_what_sonic_has() {
    let config = parse(
        r#"{ "preset": "sonic_azure", "cell": "96 B",
        "port_defaults": { "cable": "40 m", "lossless_mtu": "1024 B" } }"#,
    );
    let qos = config.resolve(&ports(&[1], 100)).unwrap();
    let port = &qos.ports[0];
    let classifier = &port.classifier;
    let classes = [0, 3, 4, 5, 8, 26, 46, 48].map(|dscp: usize| classifier.dscp_to_tc[dscp]);
    assert_eq!(classes, [1, 3, 4, 2, 0, 1, 5, 6]);
    assert_eq!(classifier.tc_to_group, [0, 0, 0, 3, 4, 0, 0, 7]);
    assert_eq!(port.tm.flow_control.enabled, 0b11000);
    assert_eq!(port.tm.queues[3].service.service, Service::Dwrr { weight: 15 });
    assert_eq!(port.tm.queues[0].service.service, Service::Dwrr { weight: 14 });
    let lossless = port.tm.groups[3].lossless.unwrap();
    // SONiC's buffer formula: 100G, 40 m, MTU 9100, lossless MTU 1024, cell 96.
    assert_eq!((lossless.headroom_bytes, lossless.xon), (80_896, Xon::BelowXoff(18_432)));
    assert!(port.tm.groups[0].lossless.is_none());
    let (kmin, kmax, pmax) = port.tm.queues[4].wred.unwrap().curves[2].unwrap().parts();
    assert_eq!((kmin, kmax, pmax), (1 << 20, 2 << 20, Probability::percent(5).unwrap()));
    assert_eq!(port.tm.watchdog.unwrap().queues, None, "those of pfc_enable");
    let text = qos.report.to_string();
    assert!(text.contains("port 1 priority group 3 (ingress_lossless): xoff at"), "{text}");
    assert!(text.contains("peer response") && text.contains("kmin 1 MiB"), "{text}");
}

#[test]
fn what_is_written_replaces_the_preset_by_name() {
    let config = parse(
        r#"{ "preset": "sonic_azure",
        "wred_profiles": { "AZURE_LOSSLESS":
            { "green": { "kmin": "5 KB", "kmax": "200 KB", "pmax": "1 %" }, "decide_at": "enqueue" } },
        "port_defaults": { "rate": "25Gbit/s" },
        "ports": { "2": { "rate": "40Gbit/s", "flow_control": "off" } } }"#,
    );
    let qos = config.resolve(&ports(&[1, 2], 100)).unwrap();
    assert_eq!(qos.ports[0].tm.rate, Some(BitsPerSec::gbit(25)));
    assert_eq!(qos.ports[1].tm.rate, Some(BitsPerSec::gbit(40)));
    assert_eq!(qos.ports[0].tm.queues[3].wred.unwrap().curves[1], None);
    assert_eq!(qos.report.queues[0].kmin_bytes, 5_000);
    // Lossless groups on a port that cannot pause its peer are a weak promise.
    assert!(qos.report.warnings.iter().any(|w| w.to_string().contains("nothing stops the peer")));
}

#[test]
fn contradictions_are_refused_with_their_numbers() {
    let profile = |body: &str| {
        format!(
            r#"{{ "preset": "sonic_azure", "buffer_profiles": {{ "ingress_lossless":
            {{ "pool": "ingress_lossless_pool", {body} }} }} }}"#
        )
    };
    refused(
        &profile(r#""static_th": "100 KB", "headroom": "10 KB", "xon_at": "50 KB""#),
        "headroom 10 KB is below the",
    );
    refused(
        &profile(r#""static_th": "100 KB", "headroom": "auto", "xon_at": "100 KB""#),
        "XON at 100 KB is not below XOFF at 100 KB",
    );
    refused(
        &profile(r#""static_th": "64 MB", "headroom": "auto", "xon_at": "1 KB""#),
        "threshold 64 MB is over the 32 MiB of pool ingress_lossless_pool",
    );
    refused(&profile(r#""static_th": "1 MB", "dynamic_th": 1"#), "exactly one of pool_alpha");
    refused(&profile(r#""static_th": "1 MB", "headroom": "auto""#), "exactly one of xon_at");
    refused(&profile(r#""static_th": "1 MB""#), "PFC is enabled for priority 3");
    refused(
        r#"{ "preset": "sonic_azure", "buffer_pools":
            { "ingress_lossless_pool": { "direction": "ingress", "size": "100 KB" } } }"#,
        "leave nothing of 100 KB",
    );
    refused(
        r#"{ "preset": "sonic_azure", "buffer_profiles":
            { "egress_lossless": { "pool": "egress_lossless_pool", "pool_alpha": 1 } },
            "buffer_pools": { "egress_lossless_pool": { "direction": "egress", "size": "32 MiB" } } }"#,
        "which drops beyond 16 MiB",
    );
    refused(
        r#"{ "preset": "sonic_azure", "wred_profiles": { "AZURE_LOSSLESS":
            { "green": { "kmin": "2 MB", "kmax": "1 MB", "pmax": "5 %" } } } }"#,
        "kmin 2 MB is above kmax 1 MB",
    );
    refused(r#"{ "ports": { "3": {} } }"#, "there is no port \"3\"; ports are: 1, 2");
    refused(r#"{ "port_defaults": { "queue_wred": { "3": "X" } } }"#, "no wred profile \"X\"");
    refused(r#"{ "port_defaults": { "pfc_enable": [8] } }"#, "priorities go from 0 to 7");
    refused(
        r#"{ "port_defaults": { "queue_wred": { "3-9": "X" } } }"#,
        "3-9: queues here go from 0 to 7",
    );
    let dscps = |map: &str| {
        format!(
            r#"{{ "dscp_to_tc_maps": {{ "F": {map} }}, "port_defaults": {{ "dscp_to_tc_map": "F" }} }}"#
        )
    };
    refused(&dscps(r#"{ "24-64": 3 }"#), "24-64: DSCPs here go from 0 to 63");
    refused(&dscps(r#"{ "24-31": 3, "30": 4 }"#), "30: DSCP 30 is named twice");
}

#[test]
fn a_port_without_a_rate_cannot_speak_pfc() {
    let report = parse(r#"{ "preset": "sonic_azure" }"#).resolve(&ports(&[1], 0)).unwrap_err();
    assert!(
        report.to_string().contains("a pause quantum (512 bit times) has no length"),
        "{report}"
    );
}

/// 17 ports x 8 x 37.5 KB of headroom in 4 MB (the HPCC simulator accepts it).
#[test]
fn the_headroom_sum_that_ns3_accepts_is_refused() {
    let numbers: Vec<u16> = (0..17).collect();
    let config = parse(
        r#"{ "allow_lossy_headroom": true,
        "buffer_pools": { "in": { "direction": "ingress", "size": "4 MB" } },
        "buffer_profiles": { "lossless": { "pool": "in", "pool_alpha": "1/8", "headroom": "37.5 KB",
            "xon_below_xoff": "3 KB" } },
        "port_defaults": { "pfc_enable": [0,1,2,3,4,5,6,7], "priority_groups": { "0-7": "lossless" } } }"#,
    );
    let report = config.resolve(&ports(&numbers, 100)).unwrap_err();
    let text = report.to_string();
    assert!(text.contains("headroom 5100 KB = 5100 KB leave nothing of 4 MB"), "{text}");
}

#[test]
fn allow_lossy_headroom_turns_refusal_into_warning() {
    let text = r#"{ "preset": "sonic_azure", "allow_lossy_headroom": true, "buffer_profiles":
        { "ingress_lossless": { "pool": "ingress_lossless_pool", "static_th": "100 KB",
          "headroom": "10 KB", "xon_at": "50 KB" } } }"#;
    let qos = parse(text).resolve(&ports(&[1, 2], 100)).unwrap();
    assert!(qos.report.warnings.iter().any(|w| w.message.contains("headroom 10 KB is below")));
    assert_eq!(qos.ports[0].tm.groups[3].account.limit, Limit::Static(100_000));
}

#[test]
fn unknown_keys_and_bare_numbers_are_named() {
    let error = |text: &str| serde_json::from_str::<QosConfig>(text).unwrap_err().to_string();
    assert!(error(r#"{ "buffer_pool": {} }"#).contains("unknown field `buffer_pool`"));
    assert!(error(r#"{ "cell": 96 }"#).contains("\"96\": missing unit"));
    assert!(error(r#"{ "port_defaults": { "rate": "100G" } }"#).contains("\"G\" is not a unit"));
    assert!(
        error(r#"{ "port_defaults": { "queue_wred": { "x": "y" } } }"#).contains("not a class")
    );
}

/// A peer that is a process has headroom for milliseconds more, up to half of the pool; a shortage is reported.
#[test]
fn a_live_port_has_headroom_for_a_peer_that_is_a_process() {
    let live = |text: &str, gbit: u32, ms: Option<u64>| {
        let mut config = parse(text);
        config.live = ms.map(Span::from_ms);
        let qos = config.resolve(&ports(&[1, 2], gbit)).unwrap();
        let port = &qos.ports[0].tm;
        let warnings: Vec<String> = qos.report.warnings.iter().map(ToString::to_string).collect();
        (port.groups[3].lossless.unwrap().headroom_bytes, port.catch_up_frames, warnings)
    };
    let preset = r#"{ "preset": "onyx_roce" }"#;
    let (hardware, frames, warnings) = live(preset, 1, None);
    assert_eq!((frames, warnings.len()), (u32::MAX, 0));
    // 5 ms at 1 Gbit/s.
    assert_eq!(live(preset, 1, Some(5)), (hardware + 625_000, 512, vec![]));
    let choice = r#"{ "preset": "onyx_roce", "port_defaults": { "peer": "hardware" } }"#;
    assert_eq!(live(choice, 1, Some(5)).0, hardware);
    let response = r#"{ "preset": "onyx_roce", "port_defaults": { "peer_response": "1 us" } }"#;
    assert!(live(response, 1, Some(5)).0 < hardware + 1000);
    let choice = r#"{ "preset": "onyx_roce", "port_defaults": { "peer": "software" } }"#;
    assert_eq!(live(choice, 1, None).0, hardware + 625_000);
    // 5 ms at 100 Gbit/s are 62.5 MB for each of two ports, and the pool has 32 MiB.
    let (given, _, warnings) = live(preset, 100, Some(5));
    assert!((8_000_000..=8 << 20).contains(&given), "{given}");
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings[0].contains("a peer which is a process needs"), "{warnings:#?}");
    // A static threshold stays if it can be reached.
    let high = r#"{ "preset": "onyx_roce", "buffer_profiles": { "ingress_lossless": {
        "pool": "ingress_lossless_pool", "static_th": "24 MiB", "headroom": "auto", "xon_below_xoff": "18 KiB" } } }"#;
    assert!(live(high, 100, Some(5)).0 <= 4 << 20);
    // Configured bytes stay, and a shortage for a process is reported.
    let fixed = r#"{ "preset": "onyx_roce", "buffer_profiles": { "ingress_lossless": {
        "pool": "ingress_lossless_pool", "dynamic_th": 0, "headroom": "100 KB", "xon_below_xoff": "18 KiB" } } }"#;
    let (given, _, warnings) = live(fixed, 1, Some(5));
    assert_eq!((given, warnings.len()), (100_000, 2));
    assert!(warnings[0].contains("is enough for hardware"), "{warnings:#?}");
}

#[test]
fn a_curve_on_a_port_without_a_rate_is_told() {
    let config = parse(
        r#"{ "wred_profiles": { "w": { "green": { "kmin": "1 KB", "kmax": "2 KB", "pmax": "1 %" } } },
        "port_defaults": { "queue_wred": { "0": "w" } } }"#,
    );
    let qos = config.resolve(&ports(&[1], 0)).unwrap();
    assert!(qos.report.warnings[0].message.contains("has no rate"), "{:?}", qos.report.warnings);
    assert!(config.resolve(&ports(&[1], 1)).unwrap().report.warnings.is_empty());
}

/// `sonic_azure` with these settings of all ports, and this in front of them.
fn azure(port: &str, more: &str) -> String {
    format!(r#"{{ "preset": "sonic_azure", {more} "port_defaults": {{ {port} }} }}"#)
}

#[test]
fn numbers_that_no_link_has_are_refused() {
    refused(&azure(r#""mtu": "10 B""#, ""), "mtu 10 B is below 64 B");
    refused(&azure(r#""mtu": "1500 B", "lossless_mtu": "9000 B""#, ""), "is above mtu 1500 B");
    refused(&azure(r#""mtu": "1500 B", "min_frame": "2 KB""#, ""), "min_frame 2 KB is above mtu");
    refused(&azure(r#""small_packet_percent": 200"#, ""), "give 0 to 100");
    refused(&azure(r#""max_burst": "1 KB""#, ""), "max_burst is the bucket of max_rate");
    refused(
        &azure(r#""pfcwd": { "restoration_time": "1 ns" }"#, ""),
        "port 1, pfcwd.restoration_time: 1 ns: give at least 1 us",
    );
    refused(&azure(r#""pfcwd": { "detection_time": "0 ms" }"#, ""), "pfcwd.detection_time: 0");
    refused(
        &azure(r#""pfcwd": { "detection_time": "1 ms", "poll_interval": "2 ms" }"#, ""),
        "poll_interval 2 ms is not between 1 us and detection_time 1 ms",
    );
    refused(&azure("", r#""packet_slots": 100, "hold_slots": 101,"#), "101 of 100 packet_slots");
    refused(&azure("", r#""hold_slots": 4000000000,"#), "4000000000: give 0 to 1000000");
    let more = parse(&azure("", r#""hold_slots": 100000,"#)).resolve(&ports(&[1], 100)).unwrap();
    assert_eq!((more.tm.hold_slots, more.tm.packet_slots), (65_536, 65_536));
    refused(&azure(r#""pause_time": "0 quanta""#, ""), "resumes the peer in place of stopping it");
    refused(&azure(r#""pause_time": "0 quanta", "flow_control": "off""#, ""), "give 1 to 65535");
    refused(&azure(r#""pause_time": "10 quanta""#, ""), "a refresh may come too late");
    let whole = azure(r#""pause_time": "10 quanta", "flow_control": "pause""#, "");
    refused(&whole, "a refresh may come too late");
    // XOFF at half of the pool is 16 MiB: some 1800 frames of 9216 B.
    refused(&azure("", r#""packet_slots": 1000,"#), "packet_slots has room for 1000");
    assert_eq!(problems(&azure("", r#""packet_slots": 4000,"#)), [] as [&str; 0]);
    // Without a poll_interval the watchdog looks as often as its times need.
    let qos = parse(&azure(r#""pfcwd": { "detection_time": "50 ms" }"#, ""));
    let qos = qos.resolve(&ports(&[1], 100)).unwrap();
    assert_eq!(qos.ports[0].tm.watchdog.unwrap().poll, Span::from_ms(50));
}

/// Sums of sizes stop at the largest number instead of going around.
#[test]
fn sizes_beyond_any_buffer_are_refused() {
    let most = u64::MAX;
    let profile = |pool: &str, name: &str, keys: &str| {
        let body = format!(r#""pool": "{pool}", "dynamic_th": 0, {keys}"#);
        azure("", &format!(r#""buffer_profiles": {{ "{name}": {{ {body} }} }},"#))
    };
    let reserved = format!(r#""reserved": "{most} B""#);
    refused(&profile("ingress_lossy_pool", "ingress_lossy", &reserved), "leave nothing of");
    refused(&profile("egress_lossy_pool", "egress_lossy", &reserved), "leave nothing of");
    let headroom = format!(r#""headroom": "{most} B", "xon_below_xoff": "1 KB""#);
    let lossless = profile("ingress_lossless_pool", "ingress_lossless", &headroom);
    refused(&lossless, "leave nothing of 32 MiB");
    let shared = r#""buffer_pools": { "ingress_lossless_pool": { "direction": "ingress", "size": "32 MiB",
        "shared_headroom": "1 MB" } },"#;
    let shared =
        lossless.replacen("\"buffer_profiles\"", &format!("{shared} \"buffer_profiles\""), 1);
    refused(&shared, "is more than the 32 MiB of pool");
    let long =
        format!(r#""mtu": "{most} B", "lossless_mtu": "{most} B", "preamble_and_gap": "{most} B""#);
    for formula in ["ieee", "sonic"] {
        let port = format!(r#"{long}, "headroom_formula": "{formula}""#);
        refused(&azure(&port, r#""cell": "96 B","#), "leave nothing of 32 MiB");
    }
}

#[test]
fn ports_that_are_not_named_have_the_defaults_only() {
    let text = r#"{ "preset": "sonic_azure",
        "schedulers": { "slow": { "type": "dwrr", "max_rate": "1Mbps" } },
        "ports": { "1": { "queue_schedulers": { "default": "slow" }, "queue_wred": {} } } }"#;
    let qos = parse(text).resolve(&ports(&[1], 100)).unwrap();
    assert!(qos.ports[0].tm.queues[0].service.max.is_some());
    let defaults = &qos.defaults.tm;
    assert!(defaults.queues.iter().all(|queue| queue.service.max.is_none()));
    assert!(defaults.queues[3].wred.is_some(), "the preset's");
    assert_eq!(defaults.queues[3].service.service, Service::Dwrr { weight: 15 });
    assert!(qos.report.warnings.iter().all(|warning| !warning.place.contains("port 0")));
}

#[test]
fn a_map_without_entries_replaces_the_preset_too() {
    let text = r#"{ "preset": "sonic_azure", "port_defaults": { "queue_wred": {} } }"#;
    let qos = parse(text).resolve(&ports(&[1], 100)).unwrap();
    assert!(qos.ports[0].tm.queues.iter().all(|queue| queue.wred.is_none()));
}

#[test]
fn rates_beyond_the_port_are_named() {
    let scheduler = |keys: &str| {
        format!(r#""schedulers": {{ "scheduler.1": {{ "type": "dwrr", "weight": 15, {keys} }} }},"#)
    };
    let guarantee = azure("", &scheduler(r#""min_rate": "60Gbps""#));
    refused(&guarantee, "adds up to 120 Gbit/s, and the port has 100 Gbit/s");
    assert_eq!(problems(&azure("", &scheduler(r#""min_rate": "50Gbps""#))), [] as [&str; 0]);
    refused(
        &azure(r#""max_rate": "80Gbps""#, &scheduler(r#""min_rate": "50Gbps""#)),
        "and the port has 80 Gbit/s",
    );
    refused(&azure("", &scheduler(r#""min_burst": "1 KB""#)), "the bucket of min_rate");
    let limit = azure(r#""max_rate": "400Gbps""#, &scheduler(r#""max_rate": "200Gbps""#));
    warned(&limit, &["max_rate 200 Gbit/s is above", "max_rate 400 Gbit/s is above"]);
}

#[test]
fn keys_without_an_effect_are_named() {
    let profile = |name: &str, keys: &str| {
        let pool =
            if name.starts_with("egress") { "egress_lossy_pool" } else { "ingress_lossy_pool" };
        let body = format!(r#""pool": "{pool}", "dynamic_th": 0, {keys}"#);
        azure("", &format!(r#""buffer_profiles": {{ "{name}": {{ {body} }} }},"#))
    };
    refused(&profile("egress_lossy", r#""headroom": "5 KB""#), "headroom belongs to a lossless");
    refused(&profile("egress_lossy", r#""xon_at": "5 KB""#), "xon_at belongs to a lossless");
    refused(&profile("ingress_lossy", r#""xon_at": "5 KB""#), "xon_at means nothing without");
    refused(
        &azure(
            "",
            r#""buffer_pools": { "egress_lossy_pool": { "direction": "egress", "size": "32 MiB",
                "shared_headroom": "1 MB" } },"#,
        ),
        "shared_headroom belongs to lossless",
    );
    warned(&azure(r#""small_packet_percent": 10"#, ""), &["qos has no cell"]);
    let plain = |keys: &str| format!(r#"{{ "port_defaults": {{ {keys} }} }}"#);
    refused(&plain(r#""pfcwd_sw_enable": [3]"#), "the watchdog pfcwd, which is not given");
    refused(&plain(r#""pfcwd": {}, "pfcwd_sw_enable": [8]"#), "priorities go from 0 to 7");
    warned(
        &azure(r#""flow_control": "pause""#, ""),
        &["pfc_enable means nothing", "pfcwd watches"],
    );
}

#[test]
fn a_pause_is_about_the_packets_that_it_is_for() {
    let groups = r#""tc_to_priority_group_maps": { "AZURE": { "3": 0, "4": 4, "default": 0 } },"#;
    refused(&azure("", groups), "no traffic class is charged to its priority group 3");
    let queues = r#""pfc_priority_to_queue_maps": { "other": { "3": 5 } },"#;
    refused(
        &azure(r#""pfc_to_queue_map": "other""#, queues),
        "a received pause of priority 3 stops queue 5",
    );
    let late = r#""wred_profiles": { "AZURE_LOSSLESS": { "green":
        { "kmin": "17 MiB", "kmax": "20 MiB", "pmax": "5 %" } } },"#;
    warned(&azure("", late), &["paused before it is marked"]);
}

/// The warnings for two ports of 100 Gbit/s contain each of these.
fn warned(text: &str, needles: &[&str]) {
    let report = parse(text).resolve(&ports(&[1, 2], 100)).unwrap().report;
    for needle in needles {
        let is_there = report.warnings.iter().any(|warning| warning.message.contains(needle));
        assert!(is_there, "{needle}: {:#?}", report.warnings);
    }
}
