use super::*;

fn error<T: std::str::FromStr<Err = UnitError> + std::fmt::Debug>(text: &str) -> String {
    text.parse::<T>().unwrap_err().to_string()
}

#[test]
fn sizes_say_their_unit() {
    assert_eq!("5 KB".parse(), Ok(Bytes::new(5_000)));
    assert_eq!("5KiB".parse(), Ok(Bytes::new(5_120)));
    assert_eq!("1.5 MB".parse(), Ok(Bytes::new(1_500_000)));
    assert_eq!("1_048_576 B".parse(), Ok(Bytes::new(1 << 20)));
    let message = error::<Bytes>("5k");
    assert!(message.contains("\"k\" is not a unit") && message.contains("5 KB"), "{message}");
    assert!(error::<Bytes>("5000").contains("missing unit"));
    assert!(error::<Bytes>("1.5 B").contains("whole number of B"));
    assert!(error::<Bytes>("KB").contains("no number"));
    assert!(error::<Bytes>("-5 B").contains("negative is not allowed"));
    assert!(error::<Interval>("-1 us").contains("negative is not allowed"));
    assert!(error::<Bytes>("-B").contains("no number"));
    assert!(error::<Bytes>("99999999999999999999 GB").contains("too large"));
    for text in ["", " ", ".", "5.", "_5 B", "5..2 B", "-5 B", "5 B B", "1e3 B"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
}

#[test]
fn rates_times_and_the_rest() {
    assert_eq!("100Gbit/s".parse(), Ok(BitsPerSec::gbit(100)));
    assert!(error::<BitsPerSec>("100G").contains("\"G\" is not a unit"));
    assert!(error::<BitsPerSec>("0 bit/s").contains("above 0"));
    assert_eq!("55 us".parse(), Ok(Interval::new(Span::from_us(55))));
    assert_eq!("40 m".parse(), Ok(Length::metres(40)));
    assert_eq!("5 %".parse(), Ok(Probability::percent(5).unwrap()));
    assert_eq!("100%".parse(), Ok(Probability::ONE));
    assert_eq!("1/256".parse::<Probability>().unwrap().get(), 1 << 24);
    assert!(error::<Probability>("101 %").contains("at most 100 %"));
    assert!(error::<Quanta>("65536 quanta").contains("65535"));
    assert_eq!("1/8".parse::<PoolAlpha>().unwrap(), PoolAlpha::power_of_two(-3).unwrap());
    assert!("0".parse::<PoolAlpha>().is_err() && "1/0".parse::<PoolAlpha>().is_err());
}

#[test]
fn a_bare_number_in_a_file_is_refused() {
    let error = serde_json::from_str::<Bytes>("5000").unwrap_err().to_string();
    assert!(error.contains("\"5000\": missing unit"), "{error}");
    assert_eq!(serde_json::from_str::<Bytes>("\"5 KB\"").unwrap(), Bytes::new(5_000));
    assert_eq!(serde_json::from_str::<PoolAlpha>("8").unwrap().terms(), (8, 1));
}

#[test]
fn display_parses_back() {
    for bytes in [0, 1, 999, 5_000, 72_704, 1 << 20, 12_000_000, 3_000_000_000] {
        let bytes = Bytes::new(bytes);
        assert_eq!(bytes.to_string().parse(), Ok(bytes));
    }
    for bps in [1, 40_000, 100_000_000, 25_000_000_000] {
        let rate = BitsPerSec::new(bps).unwrap();
        assert_eq!(rate.to_string().parse(), Ok(rate));
    }
    assert_eq!(Probability::percent(5).unwrap().to_string(), "5 %");
    assert_eq!(Probability::ratio(1, 800).unwrap().to_string(), "0.125 %");
}

/// Pause lengths printed in the PFC literature (IEEE 802.1Qbb: a quantum is 512 bit times).
#[test]
fn the_longest_pause_at_known_rates() {
    for (gbit, ns) in [(10, 3_355_392), (40, 838_848), (100, 335_539), (400, 83_884)] {
        assert_eq!(Quanta::MAX.span(BitsPerSec::gbit(gbit)).as_ns(), ns);
    }
}

#[test]
fn cells_round_up() {
    let cells = Bytes::new(1_048).cells(Bytes::new(96)).unwrap();
    assert_eq!((cells.get(), cells.bytes(Bytes::new(96))), (11, Some(Bytes::new(1_056))));
    assert_eq!(Bytes::new(1).cells(Bytes::ZERO), None);
}

/// Whatever is written can be read.
#[test]
fn numbers_between_two_steps_are_rounded() {
    for (number, unit, written) in [
        ("10", "KiB", "10 KiB"),
        ("17.78", "KiB", "18207 B"),
        ("1.5", "B", "2 B"),
        ("0.1234", "ns", "123 ps"),
        ("33.33", "bit/s", "33 bit/s"),
        ("0.000005623", "%", "0.00000562 %"),
        ("12.5", "%", "12.5 %"),
        ("0.12345", "m", "0.123 m"),
        ("7.5", "quanta", "8 quanta"),
        ("1.5", "x", "1.5 x"),
    ] {
        assert_eq!(rounded(number, unit), written);
    }
    assert!(is_unit("KiB") && is_unit("%") && !is_unit("") && !is_unit("x"));
}
