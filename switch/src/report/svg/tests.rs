use super::*;
use crate::report::{Layer, Unit};

fn plot_of(layers: Vec<Layer>) -> Plot {
    Plot {
        id: "queue".to_owned(),
        title: "Queue <1>".to_owned(),
        caption: String::new(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("queue", Unit::Bytes),
        layers,
    }
}

#[test]
fn a_picture_has_axes_in_fitting_units_and_escapes_its_text() {
    let points = vec![(0.0, 0.0), (0.005, 20_151.0), (0.01, 15_000.0)];
    let text = plot(&plot_of(vec![Layer::Line { name: "s1 & s2".to_owned(), points }]));
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>"));
    assert!(text.contains("queue (KB)") && text.contains("time (ms)"), "{text}");
    assert!(text.contains("Queue &lt;1&gt;") && text.contains("s1 &amp; s2"));
    assert!(text.contains(">25<") && text.contains(">10<"), "round ticks up to the next: {text}");
}

#[test]
fn a_long_line_is_thinned_and_keeps_its_peak() {
    let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (i as f64, 1.0)).collect();
    points[54_321].1 = 7.0;
    points[77_777].1 = f64::NAN;
    let text = plot(&plot_of(vec![Layer::Line { name: "q".to_owned(), points }]));
    assert!(text.len() < 60_000, "{} bytes", text.len());
    assert!(text.contains(">7<") || text.contains(">8<"), "the axis reaches the peak");
}

#[test]
fn a_line_that_begins_inside_of_a_column_keeps_its_peak() {
    let value = |n: u32| match n {
        0..=5000 => f64::NAN,
        5001 => 9.0,
        5002 => 8.0,
        _ => 1.0,
    };
    let points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), value(n))).collect();
    let text = plot(&plot_of(vec![Layer::Line { name: "q".to_owned(), points: points.clone() }]));
    let peak = plot(&plot_of(vec![Layer::Line {
        name: "q".to_owned(),
        points: points[5001..5003].to_vec(),
    }]));
    // Both reach the same height: the first command of the second is at the peak.
    let height = |text: &str| {
        let path = text.split("<path d=\"M").nth(1).unwrap();
        path.split(['L', '"']).next().unwrap().split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(height(&text), height(&peak));
}

#[test]
fn a_band_has_gaps() {
    let points = vec![(0.0, 1.0, 2.0), (1.0, 1.0, 2.0), (2.0, f64::NAN, f64::NAN), (3.0, 1.0, 2.0)];
    let points = [points, vec![(4.0, 1.0, 2.0)]].concat();
    let text = plot(&plot_of(vec![Layer::Band { name: "p5".to_owned(), points }]));
    assert_eq!(text.matches("fill-opacity=\"0.18\"/>").count(), 3, "two areas and the key: {text}");
}

#[test]
fn nothing_measured_is_said() {
    assert!(plot(&plot_of(Vec::new())).contains("nothing was measured"));
    let nan = Layer::Steps { name: "q".to_owned(), points: vec![(0.0, f64::NAN)] };
    assert!(plot(&plot_of(vec![nan])).contains("nothing was measured"));
}

/// One instant is no range: the axis is wider.
#[test]
fn an_axis_with_equal_bounds_has_places() {
    for is_logarithmic in [false, true] {
        let x = Axis {
            from: Some(1.0),
            to: Some(1.0),
            is_logarithmic,
            ..Axis::new("time", Unit::Seconds)
        };
        let scale = super::scale::Scale::new(&x, vec![1.0], (0.0, 100.0));
        assert!(scale.place(1.0).is_finite(), "{is_logarithmic}");
        assert!(scale.ticks().iter().all(|(place, _)| place.is_finite()), "{is_logarithmic}");
    }
}

#[test]
fn a_logarithmic_axis_has_ticks_within_its_range_and_whole_labels() {
    let points = vec![(12e-6, 0.1), (3806e-6, 1.0)];
    let x = Axis { is_logarithmic: true, ..Axis::new("time", Unit::Seconds) };
    let steps = Layer::Steps { name: "flows".to_owned(), points };
    let text = plot(&Plot { x, ..plot_of(vec![steps]) });
    assert!(text.contains(">1000</text>") && !text.contains(">10000</text>"), "{text}");
    assert_eq!(label_middle(388.0, "10000"), 382.0);
    assert_eq!(label_middle(200.0, "10000"), 200.0);
}
