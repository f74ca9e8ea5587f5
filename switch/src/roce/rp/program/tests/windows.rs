//! Programs with a window, event by event, and the bounds of their parameters.

use super::*;

fn instance(name: &str, sender: &Sender, given: &[(&str, i128)]) -> Result<Instance, String> {
    let program = Arc::new(Program::parse(name, library(name)).unwrap());
    let given: Vec<_> = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Instance::new(&program, sender, &given).map_err(|problem| problem.to_string())
}

#[test]
fn dctcp_grows_only_while_half_of_its_window_is_used() {
    let mut rp = machine(library("dctcp"), 10_000_000_000);
    rp.on_ack(us(100), &ack(100, 1, false, 1, 4));
    assert_eq!(rp.window_bytes(), Some(10_000), "4 of 10 packets were under way");
    rp.on_ack(us(110), &ack(100, 1, false, 2, 7));
    assert_eq!(rp.window_bytes(), Some(11_000), "6 of 10");
    rp.on_ack(us(120), &ack(100, 1, true, 3, 9));
    let cut = 11_000.0 * (1.0 - 15.0 / 32.0);
    assert_eq!(rp.window_bytes(), Some(cut as u64));
    rp.on_ack(us(130), &ack(100, 1, false, 4, 5));
    assert_eq!(rp.window_bytes(), Some(cut as u64), "2 of 5.8 packets, after slow start");
    rp.on_ack(us(140), &ack(100, 1, false, 5, 9));
    assert_eq!(rp.window_bytes(), Some((cut + 1e6 / cut) as u64));
}

#[test]
fn dctcp_starts_slowly_after_a_timeout_up_to_half_of_its_window() {
    let mut rp = machine(library("dctcp"), 10_000_000_000);
    rp.on_ack(us(100), &ack(100, 10, false, 10, 20));
    assert_eq!(rp.window_bytes(), Some(20_000));
    for time in [200, 300] {
        rp.on_timeout(us(time), 1);
        assert_eq!((rp.window_bytes(), rp.value("ssthresh")), (Some(1000), Some(10_000.0)));
    }
    rp.on_ack(us(400), &ack(100, 1, false, 11, 20));
    assert_eq!(rp.window_bytes(), Some(2000));
    rp.on_ack(us(500), &ack(100, 8, false, 19, 27));
    assert_eq!(rp.window_bytes(), Some(10_000));
    rp.on_ack(us(600), &ack(100, 2, false, 21, 31));
    assert_eq!(rp.window_bytes(), Some(10_200), "two packets of ten, in a round trip one");
    rp.on_nack(us(700), 1);
    assert_eq!((rp.window_bytes(), rp.value("ssthresh")), (Some(5100), Some(5100.0)));
}

#[test]
fn swift_counts_timeouts_in_a_row_and_cuts_once_in_a_round_trip() {
    let mut rp = machine(library("swift"), 10_000_000_000);
    for time in [100, 200, 300, 400] {
        rp.on_timeout(us(time), 1);
    }
    assert_eq!(rp.value("cwnd"), Some(12.0 / 16.0));
    rp.on_nack(us(500), 1);
    rp.on_timeout(us(600), 1);
    assert_eq!(rp.value("cwnd"), Some(12.0 / 64.0), "fast recovery was between them");
    for time in [700, 800, 900, 1000] {
        rp.on_timeout(us(time), 1);
    }
    assert!((rp.value("cwnd").unwrap() - 0.01).abs() < 1e-5);
    assert_eq!(rp.value("last_decrease"), Some(1_000_000.0));
}

/// The pause does not depend on the length of packets, so it is no rate.
#[test]
fn swift_below_one_packet_pauses_for_a_round_trip_by_its_window() {
    let start = |cwnd: f64| {
        let cwnd = (cwnd * f64::from(1 << 20)) as i128;
        let sender = sender(10_000_000_000);
        Arc::new(instance("swift", &sender, &[("initial_cwnd", cwnd)]).unwrap()).start()
    };
    let rp = start(0.25);
    // Before the first acknowledgement a round trip is the base target, 20 us.
    assert_eq!((rp.gap(), rp.rate_bps()), (Span::from_us(80), 10e9));
    assert_eq!(rp.window_bytes(), Some(1000));
    assert_eq!(start(2.0).gap(), Span::ZERO);
}

#[test]
fn a_default_out_of_bounds_is_refused_as_a_written_value() {
    let long = [("base_rtt", 10_000_000)];
    let of = instance("nscc", &sender(100_000_000_000), &long).unwrap();
    // 1.5 times 10 ms at 100 Gbit/s.
    assert_eq!(Arc::new(of).start().window_bytes(), Some(187_500_000));
    let refused = instance("nscc", &sender(1_600_000_000_000), &long).unwrap_err();
    assert!(refused.starts_with("bdp: ") && refused.contains("is not from"), "{refused}");
}

#[test]
fn every_time_of_nscc_is_longer_in_a_slower_run() {
    let slow = Sender { dilation: Dilation::new(10).unwrap(), ..sender(10_000_000_000) };
    let of = instance("nscc", &slow, &[]).unwrap();
    let shown = |name: &str| {
        of.values().find(|(parameter, _)| parameter.name == name).map(|(_, value)| value)
    };
    assert_eq!(shown("base_rtt").as_deref(), Some("120000 ns"));
    assert_eq!(shown("reference_rtt").as_deref(), Some("120000 ns"));
}

#[test]
fn a_count_is_a_whole_number() {
    let program = Program::parse("swift", library("swift")).unwrap();
    let count = program.parameters().iter().find(|of| of.name == "resets_after").unwrap();
    assert_eq!((count.parse("4"), count.parse("8/2")), (Ok(4), Ok(4)));
    let refused = count.parse("2.5").unwrap_err().to_string();
    assert_eq!(refused, "expected a whole number, found `2.5`");
}
