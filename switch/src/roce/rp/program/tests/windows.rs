//! Programs with a window, event by event.

use super::*;

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
