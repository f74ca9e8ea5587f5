mod dcqcn;
mod hpcc;
mod windows;

use super::*;
use crate::roce::rp::{AckSample, RateControl};
use wireyard_tables::time::{Deadline, Time};

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

fn sender(line: u64) -> Sender {
    Sender { line_rate_bps: line, packet_bytes: 1000, dilation: Dilation::ONE }
}

fn machine(text: &str, line: u64) -> Machine {
    let program = Program::parse("test.yaml", text).unwrap_or_else(|found| panic!("{found}"));
    Arc::new(Instance::new(&Arc::new(program), &sender(line), &[]).unwrap()).start()
}

fn library(name: &str) -> &'static str {
    crate::library::rate_control(name).unwrap()
}

fn refusal(text: &str) -> String {
    Program::parse("test.yaml", text).unwrap_err().to_string()
}

fn ack(rtt_us: u64, packets: u32, marked: bool, acked: u64, sent: u64) -> AckSample<'static> {
    let round_trip = Some(Span::from_us(rtt_us));
    AckSample { packets, round_trip, becn: marked, acked, sent, telemetry: None }
}

/// A program with these statements on an acknowledgement.
fn with(state: &str, statements: &str) -> String {
    format!("rate_control: t\nstate: {state}\non: {{ ack: [ {statements}, std.rate = 5 ] }}\n")
}

/// The value of `x` after one acknowledgement of 3 packets with a round trip of 10 us.
fn value(state: &str, statements: &str) -> f64 {
    let mut machine = machine(&with(state, statements), 1_000_000);
    machine.on_ack(us(100), &ack(10, 3, true, 3, 7));
    machine.value("x").unwrap()
}

#[test]
fn arithmetic_is_exact_and_rounds_down_where_it_is_stored() {
    let x = "{ x: 32 }";
    assert_eq!(value(x, "x = ack.rtt_ns * 3 - 1"), 29_999.0);
    assert_eq!(value(x, "'x = div(10000, ack.packets)'"), 3333.0);
    assert_eq!(value(x, "x = 7 |-| 9"), 0.0);
    assert_eq!(value("{ x: { bits: 8, signed: true } }", "x = 7 - 9"), -2.0);
    assert_eq!(value("{ x: { bits: 8, signed: true } }", "x = 7 - 900"), -128.0, "at its bound");
    assert_eq!(value("{ x: 4 }", "x = ack.rtt_ns"), 15.0, "at its bound");
    let half = "{ x: { bits: 16, fraction: 8 } }";
    assert_eq!(value(half, "'x = div(1, ack.packets, 16)'"), 85.0 / 256.0, "0.333 in 8 bits");
    assert_eq!(value(half, "'x = fixed(div(7, 2, 4), 0) * div(1, 4, 2)'"), 0.75);
    assert_eq!(value(half, "'x = sqrt(div(9, 4, 8))'"), 1.5);
    assert_eq!(
        value("{ x: { bits: 16, fraction: 8, signed: true } }", "'x = 0 - div(1, 3, 16)'"),
        -86.0 / 256.0
    );
    assert_eq!(value(x, "'x = clamp(ack.rtt_ns, 5, 50) + max(1, 2, 3) + min(4, 3)'"), 56.0);
    assert_eq!(value(x, "'x = ack.marked == 3 && !(std.acked > std.sent) ? 1 : 2'"), 1.0);
    assert_eq!(value("{ x: 8, y: { bits: 8, start: 3 } }", "x = y + 1 << 2"), 16.0);
    assert_eq!(value(x, "x = std.now_ns >> 1"), 50_000.0);
}

#[test]
fn statements_choose_call_and_forget_their_locals() {
    let text = "rate_control: t
state: { x: 32, y: 32 }
on:
  ack:
    - let a = ack.packets
    - if: a == 3
      then: [ let a2 = a + 1, x = a2 ]
      else: [ x = 100 ]
    - { call: more }
    - std.rate = 9
controls:
  more: [ let a2 = 5, y = y + a2 ]
";
    let mut machine = machine(text, 1_000_000);
    machine.on_ack(us(1), &ack(10, 3, false, 3, 3));
    assert_eq!((machine.value("x"), machine.value("y")), (Some(4.0), Some(5.0)));
    machine.on_ack(us(2), &ack(10, 4, false, 7, 7));
    assert_eq!((machine.value("x"), machine.value("y")), (Some(100.0), Some(10.0)));
    assert_eq!(machine.rate_bps(), 9.0);
}

#[test]
fn timers_and_byte_counters_end_when_they_should() {
    let text = "rate_control: t
state: { fired: 32, counted: 32 }
on: { cnp: [ 'arm(slow, 1500)', 'arm(each_kb, 1000)', std.rate = 1000 ] }
timers: { slow: [ fired = fired + 1, 'arm(slow, 1000)', std.rate = std.rate + 1 ] }
bytes: { each_kb: [ counted = counted + 1, 'arm(each_kb, 1000)' ] }
";
    let mut machine = machine(text, 1_000_000);
    assert_eq!(machine.next_deadline(), Deadline::NEVER);
    machine.on_cnp(us(10));
    assert_eq!(machine.next_deadline(), Deadline::at(Time::from_ns(11_500)));
    machine.on_bytes_sent(us(11), 999);
    assert_eq!(machine.value("counted"), Some(0.0));
    machine.on_bytes_sent(us(11), 2002);
    assert_eq!(machine.value("counted"), Some(3.0), "what is over counts");
    machine.poll(us(20));
    assert_eq!((machine.value("fired"), machine.rate_bps()), (Some(9.0), 1009.0));
    assert_eq!(machine.next_deadline(), Deadline::at(Time::from_ns(20_500)));
}

#[test]
fn rates_stay_between_one_bit_and_the_line() {
    let text =
        "rate_control: t\non: { cnp: [ std.rate = 0 ], ack: [ std.rate = std.line_rate * 3 ] }\n";
    let mut machine = machine(text, 500);
    machine.on_cnp(us(1));
    assert_eq!(machine.rate_bps(), 1.0);
    machine.on_ack(us(2), &ack(1, 1, false, 1, 1));
    assert_eq!(machine.rate_bps(), 500.0);
}

#[test]
fn what_cannot_be_run_is_refused_at_its_place() {
    let zero = refusal(&with("{ x: 8, y: 8 }", "'x = div(ack.packets, y)'"));
    assert!(zero.contains("E0210") && zero.contains("this divisor can be 0 or less"), "{zero}");
    let never = refusal(&with("{ x: 8 }", "'x = div(ack.packets, 0)'"));
    assert!(never.contains("is never above 0"), "{never}");
    let wide = refusal(&with("{ x: 64 }", "x = x * x * x"));
    assert!(wide.contains("more than 125 bits"), "{wide}");
    let nothing = refusal("rate_control: t\nstate: { x: 8 }\non: { ack: [ x = 1 ] }\n");
    assert!(nothing.contains("it would control nothing"), "{nothing}");
    let standing = refusal(
        "rate_control: t\non: { cnp: [ std.rate = 1, 'arm(again, 1000)' ] }\ntimers: { again: [ 'arm(again, 0)' ] }\n",
    );
    assert!(standing.contains("must let time go by"), "{standing}");
    let itself = refusal(
        "rate_control: t\non: { cnp: [ { call: a }, std.rate = 1 ] }\ncontrols: { a: [ { call: a } ] }\n",
    );
    assert!(itself.contains("calls itself"), "{itself}");
    let deaf = refusal(
        "rate_control: t\nnotification: { marks: ack }\non: { cnp: [ std.rate = 1 ], ack: [ std.rate = 2 ] }\n",
    );
    assert!(
        deaf.contains("test.yaml:3:7") && deaf.contains("with `marks: ack` no CNP comes"),
        "{deaf}"
    );
    let unread = refusal(
        "rate_control: t\nnotification: { marks: ack, cnp_interval: 4 us }\non: { ack: [ std.rate = 2 ] }\n",
    );
    assert!(
        unread.contains("test.yaml:2:29") && unread.contains("this time means nothing"),
        "{unread}"
    );
    // What is declared wrongly is declared: one mistake, one error.
    for declared in [
        "parameters: { x: { unit: number, default: 5, max: 4 } }",
        "parameters: { x: { unit: furlong, default: 5 } }",
        "state: { x: 65 }",
        "state: { y: { bits: 8, start: 3 + } }\nshows: { estimate: y }",
    ] {
        let name = if declared.contains(" y:") { "y" } else { "x" };
        let text = format!(
            "rate_control: t\n{declared}\non: {{ ack: [ let z = {name} + 1, std.rate = z ] }}\n"
        );
        let once = refusal(&text);
        assert_eq!(once.matches("error[").count(), 1, "{declared}: {once}");
    }
    let full = refusal(&with("{ x: { bits: 4, start: 99 } }", "x = 1"));
    assert!(full.contains("this state holds 0 to 15"), "{full}");
    let wrong = refusal("rate_control: t\non: { cnp: [ std.rate = y ] }\n");
    assert!(wrong.contains("there is no `y`") && !wrong.contains("control nothing"), "{wrong}");
    let timer = refusal(&with("{ x: 8 }", "'arm(x, 5)'"));
    assert!(timer.contains("there is none: `timers` and `bytes`"), "{timer}");
    for (statement, said) in [
        ("y = 1", "there is no `y`"),
        ("std.line_rate = 1", "cannot be set"),
        ("x = x == 1", "x"),
        ("x = 8w3", "no width"),
        ("x = ipv4", "there is no `ipv4`"),
        ("drop x", "a rate control has assignments"),
        ("'arm(x, 5)'", "no timer"),
        ("{ if: x, then: [ x = 1 ] }", "a condition is a comparison"),
        ("'x = mod(x, 3)'", "there is no function `mod`"),
    ] {
        match Program::parse("t", &with("{ x: 8 }", statement)) {
            Err(found) => assert!(found.to_string().contains(said), "{statement}: {found}"),
            Ok(_) => assert_eq!(statement, "x = x == 1", "a comparison is 0 or 1"),
        }
    }
}

#[test]
fn parameters_have_units_bounds_and_follow_the_link() {
    let text = "rate_control: t
parameters:
  period: { unit: ns, default: 55 us, min: 1 us, max: 10 ms }
  step: { unit: bit/s, default: 'div(std.line_rate, 20)' }
  share: { unit: number, fraction: 16, default: 1/256 }
on: { cnp: [ std.rate = step ] }
";
    let program = Arc::new(Program::parse("t", text).unwrap());
    let shown = |sender: &Sender, given: &[(String, i128)]| {
        let of = Instance::new(&program, sender, given)?;
        Ok::<_, ParameterError>(of.values().map(|(_, value)| value).collect::<Vec<_>>().join(", "))
    };
    let usual = sender(100_000_000_000);
    assert_eq!(shown(&usual, &[]).unwrap(), "55000 ns, 5 Gbit/s, 0.00390625");
    // Ten times slower: times are longer, rates lower, and the result is still a twentieth of the line rate.
    let slow =
        Sender { dilation: Dilation::new(10).unwrap(), line_rate_bps: 10_000_000_000, ..usual };
    assert_eq!(shown(&slow, &[]).unwrap(), "550000 ns, 500 Mbit/s, 0.00390625");
    let period = &program.parameters()[0];
    assert_eq!(period.parse("2 us"), Ok(2000));
    let refused = period.parse("20 ms").unwrap_err().to_string();
    assert!(refused.contains("is not from"), "{refused}");
    assert!(period.parse("7").is_err(), "no unit");
    let given = [("period".to_owned(), 5_000_000)];
    assert!(shown(&slow, &given).is_err(), "50 ms is beyond its bound");
}

#[test]
fn dctcp_cuts_by_the_share_of_marks_once_a_window() {
    let mut rp = machine(library("dctcp"), 10_000_000_000);
    assert_eq!(rp.window_bytes(), Some(10_000));
    rp.on_ack(us(100), &ack(100, 10, false, 10, 20));
    assert_eq!(rp.window_bytes(), Some(20_000), "slow start");
    // Alpha after the first window: 1 - 1/16; the second window is marked throughout, then alpha is 15/16 + 1/256 ...
    assert_eq!(rp.value("alpha"), Some(15.0 / 16.0));
    rp.on_ack(us(200), &ack(100, 10, true, 20, 40));
    let alpha = 15.0 / 16.0 * 15.0 / 16.0 + 1.0 / 16.0;
    assert!((rp.value("alpha").unwrap() - alpha).abs() < 1e-5);
    let window = 20_000.0 * (1.0 - alpha / 2.0);
    assert!((rp.window_bytes().unwrap() as f64 - window).abs() < 2.0);
    rp.on_ack(us(210), &ack(100, 1, true, 21, 40));
    assert!((rp.window_bytes().unwrap() as f64 - window).abs() < 2.0, "once in a window");
    rp.on_ack(us(220), &ack(100, 4, false, 25, 40));
    let grown = window + 4.0 * 1000.0 * 1000.0 / window;
    assert!((rp.window_bytes().unwrap() as f64 - grown).abs() < 2.0);
}

#[test]
fn timely_follows_the_gradient_between_its_thresholds() {
    let mut rp = machine(library("timely"), 10_000_000_000);
    let mut measure = |rtt: u64| {
        rp.on_ack(us(1), &ack(rtt, 16, false, 16, 16));
        rp.rate_bps()
    };
    assert_eq!(measure(100), 10e9);
    // A difference of 20 us in minRTT of 20 us, weight 0.875: gradient 0.875, rate (1 - 0.8 x 0.875).
    let cut = measure(120);
    assert!((cut / (10e9 * (1.0 - 0.8 * 0.875)) - 1.0).abs() < 1e-4, "{cut}");
    assert_eq!(measure(40), cut + 10e6, "below T_low");
    let high = (cut + 10e6) * (1.0 - 0.8 * (1.0 - 500.0 / 1000.0));
    assert!((measure(1000) / high - 1.0).abs() < 1e-4, "above T_high");
}

/// htsim marks each packet for retransmission separately: the window shrinks by the number of lost packets.
#[test]
fn nscc_takes_every_lost_packet_out_of_its_window() {
    let mut rp = machine(library("nscc"), 100_000_000_000);
    let first = rp.window_bytes().unwrap();
    rp.on_nack(us(100), 7);
    assert_eq!(rp.window_bytes(), Some(first - 7 * 1000));
    rp.on_timeout(us(200), 20);
    assert_eq!(rp.window_bytes(), Some(first - 27 * 1000));
    rp.on_timeout(us(300), 1 << 20);
    assert_eq!(rp.window_bytes(), Some(1000), "a packet at least");
}

#[test]
fn how_many_are_lost_is_known_where_packets_are_lost() {
    let text =
        |event: &str| format!("rate_control: t\non: {{ {event}: [ std.rate = lost.packets ] }}\n");
    for event in ["nack", "trim", "timeout"] {
        Program::parse("test.yaml", &text(event)).unwrap_or_else(|found| panic!("{found}"));
    }
    let found = refusal(&text("ack"));
    assert!(found.contains("`lost.packets` is known in `on: nack`"), "{found}");
}

/// Contradictions of each program: parameters, and the violated requirement.
const CONTRADICTIONS: &[(&str, &str, &str, &str)] = &[
    ("dcqcn", "min_rate", "200 Gbit/s", "min_rate <= std.line_rate"),
    ("dcqcn", "g", "0", "g > 0"),
    ("dcqcn_sampled", "min_rate", "200 Gbit/s", "min_rate <= std.line_rate"),
    ("dcqcn_sampled", "g", "0", "g > 0"),
    ("dctcp", "g", "0", "g > 0"),
    ("dctcp", "initial_window", "999 B", "initial_window >= std.packet_bytes"),
    ("hpcc", "w_ai", "200 KB", "w_ai <= initial_window"),
    ("nscc", "max_cwnd", "999 B", "max_cwnd >= std.packet_bytes"),
    ("nscc", "fast_below", "10 us", "fast_below <= target_delay"),
    ("nscc", "target_delay", "0 s", "target_delay > 0"),
    ("swift", "base_target", "0 s", "base_target > 0"),
    ("swift", "min_cwnd", "13", "min_cwnd <= initial_cwnd"),
    ("swift", "max_cwnd", "11", "initial_cwnd <= max_cwnd"),
    ("swift", "fs_min_cwnd", "100", "fs_min_cwnd < fs_max_cwnd"),
    ("timely", "t_low", "501 us", "t_low <= t_high"),
    ("timely", "min_rate", "200 Gbit/s", "min_rate <= initial_rate"),
    ("timely_patched", "t_high", "49 us", "t_low <= t_high"),
    ("timely_patched", "initial_rate", "200 Gbit/s", "initial_rate <= std.line_rate"),
];

/// Every program here has requirements on its parameters, which its defaults fulfil on links of 10 to 800 Gbit/s.
#[test]
fn parameters_that_contradict_each_other_are_refused_with_their_values() {
    for (name, parameter, value, requires) in CONTRADICTIONS {
        let program = Arc::new(Program::parse(name, library(name)).unwrap());
        for line in [10, 25, 100, 400, 800] {
            Instance::new(&program, &sender(line * 1_000_000_000), &[])
                .unwrap_or_else(|problem| panic!("{name} on {line} Gbit/s: {problem}"));
        }
        let of = program.parameters().iter().find(|known| known.name == *parameter).unwrap();
        let given = [((*parameter).to_owned(), of.parse(value).unwrap())];
        let found = Instance::new(&program, &sender(100_000_000_000), &given).unwrap_err();
        let said = found.to_string();
        assert!(said.starts_with(&format!("`{requires}` does not hold: ")), "{name}: {said}");
        assert!(said.contains(&format!("{parameter} is ")), "{name}: {said}");
    }
    let named: std::collections::BTreeSet<&str> = CONTRADICTIONS.iter().map(|of| of.0).collect();
    assert_eq!(named, crate::library::rate_controls().into_iter().collect(), "each of them");
    let found =
        refusal("rate_control: t\nrequires: [ std.rate > 5 ]\non: { cnp: [ std.rate = 5 ] }\n");
    assert!(found.contains("not in a default"), "{found}");
    let found = refusal(
        "rate_control: t\nrequires: [ std.line_rate + 1 ]\non: { cnp: [ std.rate = 5 ] }\n",
    );
    assert!(found.contains("a condition is a comparison"), "{found}");
}
