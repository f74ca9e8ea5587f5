use super::stats;
use super::unit::digits;
use super::*;

#[test]
fn numbers_read_as_people_write_them() {
    assert_eq!(Unit::Bytes.show(20_151.3), "20.15 KB");
    assert_eq!(Unit::BitRate.show(99.53e9), "99.53 Gbit/s");
    assert_eq!(Unit::Seconds.show(83.84e-9), "83.84 ns");
    assert_eq!(Unit::Seconds.show(0.0), "0 us");
    assert_eq!(Unit::Share.show(0.000_777), "0.0777 %");
    assert_eq!(Unit::PerSecond.show(1851.8), "1.852k/s");
    assert_eq!(Unit::Count.show(1_234_567.0), "1234567");
    assert_eq!(Unit::Plain.show(f64::NAN), "-");
    assert_eq!(digits(0.1, 4), "0.1");
    for (unit, text, value) in [
        (Unit::Bytes, "20 KB", 20_000.0),
        (Unit::BitRate, "40 Gbit/s", 40e9),
        (Unit::BitRate, "0", 0.0),
        (Unit::BitRate, "0 bit/s", 0.0),
        (Unit::BitRate, "0.0 Gbit/s", 0.0),
        (Unit::BitRate, "0.5 Gbit/s", 5e8),
        (Unit::Seconds, "55 us", 55e-6),
        (Unit::PerSecond, "1850/s", 1850.0),
        (Unit::PerSecond, "17.97k/s", 17_970.0),
        (Unit::PerSecond, "2 M/s", 2e6),
        (Unit::Hertz, "20 kHz", 20e3),
        (Unit::Hertz, "380", 380.0),
        (Unit::Plain, "0.98", 0.98),
    ] {
        assert!((unit.read(text).unwrap() - value).abs() <= value * 1e-12, "{text}");
    }
    assert!((Unit::Share.read("0.0777 %").unwrap() - 0.000_777).abs() < 1e-9);
    assert!(Unit::Bytes.read("5k").unwrap_err().to_string().contains("is not a unit"));
    assert!(Unit::Count.read("many").is_err());
    assert_eq!(
        (Unit::Count.show_mean(16.0 / 6.0), Unit::Count.show_mean(1e6 / 3.0)),
        ("2.667".into(), "333333".into())
    );
    assert_eq!([digits(f64::INFINITY, 3), digits(f64::NAN, 3)], ["inf", "NaN"]);
}

#[test]
fn statistics_of_known_sets() {
    let values = stats::sorted(&[5.0, 1.0, 4.0, 2.0, 3.0]);
    assert_eq!((stats::percentile(&values, 50.0), stats::percentile(&values, 99.0)), (3.0, 5.0));
    assert_eq!((stats::mean(&values), stats::deviation(&values)), (3.0, 2f64.sqrt()));
    assert!((stats::sample_deviation(&values) - 2.5f64.sqrt()).abs() < 1e-12);
    assert!(stats::sample_deviation(&[1.0]).is_nan());
    assert!(stats::percentile(&[], 50.0).is_nan());
    let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
    assert_eq!(stats::percentile(&thousand, 99.9), 999.0);
    assert_eq!(stats::jain(&[3.0, 3.0, 3.0]), 1.0);
    assert!((stats::jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    let (low, high) = stats::wilson(10, 1000);
    // Wilson's interval for 1 % of 1000: 0.54 % to 1.83 % (Newcombe 1998, method 3).
    assert!((low - 0.005_44).abs() < 1e-4 && (high - 0.018_3).abs() < 1e-4, "{low} {high}");
    assert_eq!(stats::wilson(0, 0), (0.0, 1.0));
    for trials in [1, 7, 300, 12_345] {
        assert_eq!(stats::wilson(0, trials).0, 0.0);
        assert_eq!(stats::wilson(trials, trials).1, 1.0);
    }
    assert_eq!(stats::distribution(&values)[4], (5.0, 1.0));
}

#[test]
fn the_spectrum_finds_a_tone_and_spreads_noise() {
    let step = 10e-6;
    let tone: Vec<f64> =
        (0..8192).map(|i| (std::f64::consts::TAU * 2_000.0 * i as f64 * step).sin()).collect();
    let spectrum = stats::spectrum(&tone, step, 1024);
    let peak = spectrum.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!((peak.0 - 2_000.0).abs() < 100.0 && peak.1 > 0.4, "{peak:?}");
    let mut state = 1u64;
    let noise: Vec<f64> = (0..8192)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64
        })
        .collect();
    let flat = stats::spectrum(&noise, step, 1024);
    assert!(flat.iter().all(|(_, power)| *power < 0.02));
    assert!(stats::spectrum(&[1.0; 100], step, 1024).is_empty());
}

/// A report with every kind of content.
pub(super) fn sample() -> Report {
    let mut report =
        Report { title: "two <flows>".into(), about: "a & b".into(), ..Report::default() };
    report.fact("seed", "1");
    report.figure("queue_mean", 20_151.0, Unit::Bytes);
    report.figure("theory", 20_900.0, Unit::Bytes);
    report.figure("nothing", f64::NAN, Unit::Seconds);
    report.verdict("no loss", true, "0 dropped");
    report.tables.push(Table {
        title: "Flows".into(),
        note: String::new(),
        columns: vec![Column::words("flow"), Column::numbers("rate", Unit::BitRate)],
        rows: vec![vec!["f1".into(), 20e9.into()], vec!["f2".into(), Cell::Empty]],
    });
    report.sample_times = vec![0.0, 1e-5];
    report.series.push(Series {
        name: "queue".into(),
        unit: Unit::Bytes,
        values: vec![0.0, 1048.0],
    });
    report.plots.push(Plot {
        id: "queue".into(),
        title: "Queue".into(),
        caption: "depth".into(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("queue", Unit::Bytes),
        layers: vec![Layer::Steps { name: "q".into(), points: vec![(0.0, 0.0), (1e-5, 1048.0)] }],
    });
    report.timelines.push(Timeline {
        id: "pauses".into(),
        title: "Pauses".into(),
        caption: String::new(),
        range: (0.0, 1e-5),
        rows: vec![Row { name: "s1".into(), spans: vec![(0.0, 5e-6, 0.5)] }],
    });
    report
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let page = html::page(&sample());
    for outside in ["http://", "https://", "src=", "@import", "<script", "<link"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "the page has {outside}");
    }
    assert!(page.contains("two &lt;flows&gt;") && page.contains("a &amp; b"));
    assert!(page.contains("20 Gbit/s") && page.contains("no loss") && page.contains("<svg"));
    // For a phone, in dark mode and in print.
    for wanted in
        ["width=device-width", "(max-width:40rem)", "(prefers-color-scheme:dark)", "@media print"]
    {
        assert!(page.contains(wanted), "the page has no {wanted}");
    }
    // In dark mode every colour of a line differs, and no picture has a white ground.
    assert!(page.contains("svg{background:none;") && page.contains("svg [stroke=\"#0b5c97\"]"));
    // On a phone each cell has its own heading, and no picture needs more than the width.
    assert!(page.contains("data-h=\"rate\"") && !page.contains("min-width:26rem"), "{page}");
}

/// Values over three decades are drawn by ratio, a band is an area, and a network has its bottleneck drawn thick.
#[test]
fn pictures_of_many_values() {
    let values = [1e-6, 1e-4, 1e-3];
    let axis = Axis::fitting("time", Unit::Seconds, &values);
    assert!(
        axis.is_logarithmic && !Axis::fitting("time", Unit::Seconds, &[1.0, 2.0]).is_logarithmic
    );
    let plot = Plot {
        id: "p".into(),
        title: "p".into(),
        caption: String::new(),
        x: axis,
        y: Axis::from_zero("share", Unit::Share),
        layers: vec![
            Layer::Band {
                name: "p5 to p95".into(),
                points: vec![(1e-6, 0.0, 1.0), (1e-3, 0.5, 0.6)],
            },
            Layer::Steps { name: "s".into(), points: values.map(|x| (x, 0.5)).to_vec() },
            Layer::Reference { name: "Kmin".into(), points: vec![(1e-6, 0.2), (1e-3, 0.2)] },
            Layer::Reference { name: "Kmax".into(), points: vec![(1e-6, 0.4), (1e-3, 0.4)] },
        ],
    };
    let drawn = svg::plot(&plot);
    // 1 us, 10 us, 100 us, 1 ms: equally far apart between 58 and 388.
    for place in [58, 168, 278, 388].map(|x| format!("x1=\"{x}\" x2=\"{x}\"")) {
        assert!(drawn.contains(&place), "{place}: {drawn}");
    }
    assert!(drawn.contains("fill-opacity=\"0.18\""), "{drawn}");
    // Two references have different dashes, in the picture and in its legend.
    for dashes in ["\"5 3\"", "\"1.5 3\""] {
        assert_eq!(drawn.matches(dashes).count(), 2, "{drawn}");
    }
    let network = Diagram {
        id: "t".into(),
        title: "t".into(),
        caption: String::new(),
        layers: vec![vec!["s1".into()], vec!["h1".into(), "h2".into()]],
        links: vec![("h1".into(), "s1".into(), false), ("s1".into(), "h2".into(), true)],
    };
    let drawn = svg::diagram(&network);
    assert_eq!(drawn.matches("<line").count(), 2);
    assert_eq!(drawn.matches("stroke-width=\"3\"").count(), 1, "{drawn}");
}

#[test]
fn terminal_json_and_csv_say_the_same() {
    let report = sample();
    let shown = text::summary(&report);
    assert!(shown.contains("20 Gbit/s") && shown.contains("PASS  no loss"), "{shown}");
    let value = json::value(&report);
    assert_eq!(value["figures"]["queue_mean"]["value"], 20_151.0);
    assert!(value["figures"]["nothing"]["value"].is_null());
    assert_eq!(value["passed"], true);
    assert_eq!(csv::series(&report), "time (seconds),queue (bytes)\n0,0\n0.00001,1048\n");
    assert_eq!(csv::table(&report.tables[0]), "flow,rate (bit/s)\nf1,20000000000\nf2,\n");
}

/// A skipped verdict neither passes nor fails, in every format.
#[test]
fn what_was_not_judged_is_no_pass() {
    let mut report = sample();
    assert_eq!(report.headline(), "All checks and expectations hold");
    report.skip("queue_mean", "too short");
    let headline = "1 of 2 checks and expectations were not judged, the others hold";
    assert_eq!(report.headline(), headline);
    assert!(report.passed());
    assert!(text::summary(&report).contains("SKIP  queue_mean: too short"));
    let page = html::page(&report);
    assert!(page.contains(headline) && page.contains("<b>SKIP</b> queue_mean"), "{page}");
    let value = json::value(&report);
    assert!(value["verdicts"][1]["passed"].is_null() && value["skipped"] == 1, "{value}");
    report.verdict("other", false, "7");
    assert_eq!(report.headline(), "1 of 3 checks and expectations fail, 1 were not judged");
    assert!(!report.passed());
}
