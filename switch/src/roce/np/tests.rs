use super::*;

const DATA: u8 = 0x0a;

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

fn marked(src: u128, qp: u32) -> Congestion {
    Congestion {
        flow: FlowKey { src, dst: 9, dest_qp: qp },
        opcode: DATA,
        port: 1,
        mark: Mark::IpCe,
        marked: Marked { pkey: 0x8000 | qp as u16, sl: 0 },
        sender_qp: Some(qp + 100),
    }
}

fn drain(np: &mut NotificationPoint, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| np.poll(now)).map(|(cnp, ())| cnp.sender_qp).collect()
}

/// The rule of the paper, in a slow form: one flow, all marks known.
fn oracle(marks: &[u64], interval: u64) -> Vec<u64> {
    let (mut out, mut last, mut pending) = (Vec::new(), None::<u64>, false);
    for &t in marks {
        if let Some(l) = last
            && pending
            && l + interval <= t
        {
            out.push(l + interval);
            last = Some(l + interval);
            pending = false;
        }
        match last {
            Some(l) if t < l + interval => pending = true,
            _ => {
                out.push(t);
                last = Some(t);
            }
        }
    }
    if let Some(l) = last.filter(|_| pending) {
        out.push(l + interval);
    }
    out
}

#[test]
fn first_mark_is_answered_at_once_and_the_rest_at_the_end_of_the_window() {
    let mut np = NotificationPoint::new(NpConfig::default());
    np.on_congestion(us(10), &marked(1, 5), ());
    assert_eq!(drain(&mut np, us(10)), [105]);
    assert_eq!(np.next_deadline(), Deadline::at(us(60)));
    np.on_congestion(us(20), &marked(1, 5), ());
    np.on_congestion(us(59), &marked(1, 5), ());
    assert!(drain(&mut np, us(59)).is_empty());
    assert_eq!(drain(&mut np, us(60)), [105]);
    assert!(drain(&mut np, us(110)).is_empty());
    assert_eq!(np.windows.len(), 0, "an idle flow leaves no state");
    let c = np.counters();
    assert_eq!((c.ce_seen, c.cnp_sent, c.cnp_suppressed), (3, 2, 1));
}

/// Marks at these instants (us), polled at every deadline: the instants of the CNPs.
fn instants(np: &mut NotificationPoint, marks: &[u64]) -> Vec<u64> {
    let mut sent = Vec::new();
    for &t in marks {
        run_until(np, us(t), &mut sent);
        np.on_congestion(us(t), &marked(1, 5), ());
        while np.poll(us(t)).is_some() {
            sent.push(t);
        }
    }
    run_until(np, us(1 << 40), &mut sent);
    sent
}

fn run_until(np: &mut NotificationPoint, until: Time, sent: &mut Vec<u64>) {
    while let Some(at) = np.next_deadline().instant().filter(|at| *at <= until) {
        while np.poll(at).is_some() {
            sent.push(at.as_ns() / 1000);
        }
    }
}

proptest::proptest! {
    #[test]
    fn agrees_with_the_written_rule(gaps in proptest::collection::vec(0u64..120, 1..200)) {
        let marks: Vec<u64> = gaps.iter().scan(0, |t, g| { *t += g; Some(*t) }).collect();
        let mut np = NotificationPoint::new(NpConfig::default());
        let sent = instants(&mut np, &marks);
        proptest::prop_assert!(sent.windows(2).all(|w| w[1] - w[0] >= 50));
        proptest::prop_assert_eq!(&sent, &oracle(&marks, 50));
        let c = np.counters();
        proptest::prop_assert_eq!(c.cnp_sent, sent.len() as u64);
        proptest::prop_assert_eq!(c.ce_seen, marks.len() as u64);
    }
}

#[test]
fn a_connectx_window_forgets() {
    let config = NpConfig { window_end: WindowEnd::Forget, ..NpConfig::default() };
    let mut np = NotificationPoint::new(config);
    assert_eq!(instants(&mut np, &[0, 10, 49, 50, 60, 130]), [0, 50, 130]);
}

#[test]
fn interval_zero_answers_every_mark() {
    let mut np = NotificationPoint::new(NpConfig { interval: Span::ZERO, ..NpConfig::default() });
    assert_eq!(instants(&mut np, &[1, 1, 2]), [1, 1, 2]);
    assert_eq!(np.windows.len(), 0);
}

#[test]
fn pacing_scope_decides_which_flows_share_a_window() {
    for (pacing, expected) in [(Pacing::PerFlow, 4), (Pacing::PerPair, 3), (Pacing::PerPort, 2)] {
        let mut np = NotificationPoint::new(NpConfig { pacing, ..NpConfig::default() });
        for seen in [marked(1, 5), marked(1, 6), marked(2, 5)] {
            np.on_congestion(us(0), &seen, ());
        }
        np.on_congestion(us(0), &Congestion { port: 2, ..marked(1, 5) }, ());
        let immediate = drain(&mut np, us(0)).len();
        // The second port is a window of its own only when windows are per port.
        let windows = np.windows.len();
        assert_eq!(immediate, windows);
        assert_eq!(windows, if pacing == Pacing::PerFlow { 3 } else { 2 }, "{pacing:?}");
        assert_eq!(
            immediate + drain(&mut np, us(50)).len(),
            expected.max(windows + 1),
            "{pacing:?}"
        );
    }
}

#[test]
fn a_shared_window_serves_the_first_flow_that_was_turned_away() {
    let mut np =
        NotificationPoint::new(NpConfig { pacing: Pacing::PerPair, ..NpConfig::default() });
    for qp in [5, 6, 7, 6] {
        np.on_congestion(us(1), &marked(1, qp), ());
    }
    assert_eq!(drain(&mut np, us(1)), [105]);
    assert_eq!(drain(&mut np, us(51)), [106]);
    assert_eq!(np.counters().cnp_suppressed, 2);
}

#[test]
fn a_full_table_evicts_the_window_that_closes_first_and_loses_no_signal() {
    let mut np = NotificationPoint::new(NpConfig { max_windows: 2, ..NpConfig::default() });
    np.on_congestion(us(0), &marked(1, 1), ());
    np.on_congestion(us(1), &marked(1, 2), ());
    np.on_congestion(us(2), &marked(1, 1), ()); // pending on the oldest window
    np.on_congestion(us(3), &marked(1, 3), ());
    assert_eq!(drain(&mut np, us(3)), [101, 102, 101, 103]);
    assert_eq!((np.windows.len(), np.counters().evicted), (2, 1));
}

#[test]
fn a_late_poll_does_not_shorten_the_next_window() {
    let mut np = NotificationPoint::new(NpConfig::default());
    np.on_congestion(us(0), &marked(1, 1), ());
    np.on_congestion(us(1), &marked(1, 1), ());
    assert_eq!(drain(&mut np, us(70)), [101, 101]);
    np.on_congestion(us(71), &marked(1, 1), ());
    assert!(drain(&mut np, us(119)).is_empty());
    assert_eq!(drain(&mut np, us(120)), [101]);
}

#[test]
fn some_packets_are_never_answered() {
    let mut np = NotificationPoint::new(NpConfig::default());
    let ack = Congestion { opcode: 0x11, ..marked(1, 1) };
    let rd_ack = Congestion { opcode: 0x51, ..marked(1, 1) };
    let cnp = Congestion { opcode: 0x81, ..marked(1, 1) };
    let native_cnp = Congestion { opcode: 0x80, mark: Mark::Fecn, ..marked(1, 1) };
    let multicast = marked(1, MULTICAST_QP);
    for seen in [ack, rd_ack, cnp, native_cnp, multicast] {
        np.on_congestion(us(1), &seen, ());
    }
    np.on_congestion(us(1), &Congestion { sender_qp: None, ..marked(1, 1) }, ());
    assert_eq!(np.poll(us(1)), None);
    let c = np.counters();
    assert_eq!((c.ce_seen, c.ignored, c.cnp_no_qp_pair, c.cnp_sent), (6, 5, 1, 0));
}

#[test]
fn the_cnp_says_what_frames_needs() {
    let mut np = NotificationPoint::new(NpConfig { role: Role::Switch, ..NpConfig::default() });
    let seen = Congestion { mark: Mark::Fecn, port: 3, ..marked(1, 5) };
    np.on_congestion(us(1), &seen, ());
    let marked = Marked { pkey: 0x8005, sl: 0 };
    let (flow, mark, role) = (seen.flow, Mark::Fecn, Role::Switch);
    let expected = Cnp { flow, sender_qp: 105, port: 3, mark, marked, role };
    assert_eq!(np.poll(us(1)), Some((expected, ())));
}

#[test]
fn a_cnp_that_waits_keeps_its_way_back_whatever_else_is_marked() {
    let config = NpConfig { pacing: Pacing::PerPort, max_windows: 1, ..NpConfig::default() };
    let mut np = NotificationPoint::new(config);
    for reply in 0..100_u32 {
        np.on_congestion(us(1), &marked(1, reply + 1), reply);
    }
    let replies = |np: &mut NotificationPoint<u32>, at| {
        std::iter::from_fn(|| np.poll(us(at))).map(|(_, reply)| reply).collect::<Vec<_>>()
    };
    assert_eq!(replies(&mut np, 1), [0]);
    assert_eq!(replies(&mut np, 51), [1]);
}
