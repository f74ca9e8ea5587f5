use std::fmt::Write as _;

use super::*;
use crate::roce::rp::RateAlgorithm;

const LINE: f64 = 40e9;

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

fn params(name: &str, line: f64) -> DcqcnParams {
    preset::by_name(name, line).unwrap().rp
}

fn start(p: DcqcnParams) -> Dcqcn {
    Dcqcn::new(&p.profile().unwrap())
}

/// A sender that always has data: bytes leave continuously at the present rate.
struct Fluid {
    rp: Dcqcn,
    now_s: f64,
    /// Bytes since the last byte stage, exact, and the number of whole ones reported.
    sent: f64,
    reported: u64,
    csv: String,
    case: &'static str,
}

impl Fluid {
    fn row(&mut self, event: &str) {
        let s = self.rp.state();
        let (rate, target) = (s.rate_bps / 1e9, s.target_bps / 1e9);
        let (t, alpha) = (self.now_s, s.estimate);
        writeln!(
            self.csv,
            "{},{t:.9},{event},{rate:.6},{target:.6},{alpha:.9},{},{}",
            self.case, s.time_stage, s.byte_stage
        )
        .unwrap();
    }

    fn time(s: f64) -> Time {
        Time::from_ps((s * 1e12).round() as u64)
    }

    /// Bytes to send until the next byte stage; `None` without a running byte counter.
    fn bytes_to_next_stage(&self) -> Option<u64> {
        let threshold = self.rp.byte_threshold()?;
        self.rp.limited.then(|| threshold.saturating_sub(self.rp.bytes))
    }

    fn advance(&mut self, to_s: f64) {
        if self.rp.is_limited() {
            self.sent += self.rp.rate_bps() / 8.0 * (to_s - self.now_s);
            let left = self.bytes_to_next_stage().unwrap_or(u64::MAX);
            let whole = (self.sent as u64).saturating_sub(self.reported).min(left - 1);
            self.reported += whole;
            self.rp.on_bytes_sent(Self::time(self.now_s), whole);
        }
        self.now_s = to_s;
    }

    fn phase(&self, before: RateState) -> &'static str {
        // The phase is visible in the target: unchanged, one R_AI more, or more than that (or clamped).
        let (p, s) = (&self.rp.params, self.rp.state());
        let f = p.fast_recovery_stages;
        let (low, high) = (s.time_stage.min(s.byte_stage), s.time_stage.max(s.byte_stage));
        let gained = s.target_bps - before.target_bps;
        let at_line = s.target_bps >= p.line_rate_bps && p.law == Law::Paper;
        match () {
            () if high < f => {
                assert_eq!(gained, 0.0);
                "FR"
            }
            () if low > f && p.law == Law::Paper => "HI",
            () => {
                assert!(at_line || (gained - p.additive_increase_bps).abs() < 1.0);
                "AI"
            }
        }
    }

    fn run(mut self, cnps_us: &[u64], end_s: f64) -> String {
        self.row("start");
        let mut cnps = cnps_us.iter().map(|&t| t as f64 / 1e6).peekable();
        loop {
            let ps = |t: Deadline| t.instant().map_or(f64::MAX, |at| at.as_ps() as f64 / 1e12);
            let cnp = cnps.peek().copied().unwrap_or(f64::MAX);
            let (alpha, timer, bytes) = if self.rp.is_limited() {
                let left = self.bytes_to_next_stage().map_or(f64::MAX, |left| {
                    (left as f64 - (self.sent - self.reported as f64)) * 8.0 / self.rp.rate_bps()
                });
                (ps(self.rp.alpha_at), ps(self.rp.increase_at), self.now_s + left)
            } else {
                (f64::MAX, f64::MAX, f64::MAX)
            };
            let at = cnp.min(alpha).min(timer).min(bytes);
            if at > end_s {
                return self.csv;
            }
            let before = self.rp.state();
            if at == cnp {
                self.advance(at);
                cnps.next();
                self.rp.on_cnp(Self::time(at));
                (self.sent, self.reported) = (0.0, 0);
                self.row("CNP");
            } else if at == alpha {
                self.advance(at);
                // One instant may hold both events; the golden file has a row for each.
                self.rp.on_alpha_period(Self::time(at));
                self.row("ALPHA");
            } else if at == timer {
                self.advance(at);
                self.rp.poll(Self::time(at));
                let event = format!("T:{}", self.phase(before));
                self.row(&event);
            } else {
                self.advance(at);
                let left = self.bytes_to_next_stage().unwrap_or(0);
                self.rp.on_bytes_sent(Self::time(at), left);
                (self.sent, self.reported) = (0.0, 0);
                let event = format!("B:{}", self.phase(before));
                self.row(&event);
            }
        }
    }
}

fn trace(case: &'static str, p: DcqcnParams, cnps_us: &[u64], end_s: f64) -> String {
    let csv = String::new();
    Fluid { rp: start(p), now_s: 0.0, sent: 0.0, reported: 0, csv, case }.run(cnps_us, end_s)
}

/// The four cases of the golden file, with the parameters of its script.
fn golden_cases() -> String {
    let base = DcqcnParams { min_rate_bps: 1.0, ..params("dcqcn", LINE) };
    let b150 = DcqcnParams { byte_counter_bytes: Some(150_000), ..base.clone() };
    let ns3 = DcqcnParams {
        law: Law::Ns3Rdma,
        alpha_initial: 0.5,
        min_rate_bps: 1e8,
        clamp_target: ClampTarget::Always,
        ..base.clone()
    };
    let four = [10, 60, 110, 160];
    [
        trace("paper_one_cnp_40G", base.clone(), &[10], 2e-3),
        trace("paper_four_cnp_50us_40G", base, &four, 1.5e-3),
        // The file ends at 1 ms; its clock is a sum in f64 and puts the event at 1 ms behind the end.
        trace("paper_one_cnp_B150KB_40G", b150, &[10], 0.9999e-3),
        trace("ns3rdma_four_cnp_50us_40G", ns3, &four, 1.5e-3),
    ]
    .concat()
}

#[test]
fn golden_traces_to_every_printed_digit() {
    // Beside the workspace, or beside the folder of its worktrees.
    let read = |up| {
        let path = format!("{}/{up}/shared/dcqcn/rp_golden.csv", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).ok()
    };
    let Some(golden) = read("../..").or_else(|| read("../../..")) else {
        return crate::skip::skip("golden_traces_to_every_printed_digit", "no ../shared/dcqcn");
    };
    let ours = golden_cases();
    let expected: Vec<_> = golden.lines().skip(1).map(str::trim_end).collect();
    for (line, (a, b)) in ours.lines().zip(&expected).enumerate() {
        assert_eq!(a, *b, "row {}", line + 1);
    }
    assert_eq!(ours.lines().count(), expected.len());
}

#[test]
fn paper_cuts_with_the_old_alpha_and_halves_from_one() {
    // Section 1.3: alpha = 1, so four CNPs inside 55 us each halve the rate.
    let mut rp = start(params("dcqcn", LINE));
    let expected = [20e9, 10e9, 5e9, 2.5e9];
    for (i, rate) in expected.into_iter().enumerate() {
        rp.on_cnp(us(10 + 50 * i as u64));
        assert_eq!(rp.rate_bps(), rate);
        assert_eq!(rp.state().target_bps, rate * 2.0);
    }
    // K after the last CNP alpha decays by 1 - g, T after it the rate recovers halfway.
    rp.poll(us(160 + 55));
    assert_eq!(rp.state().estimate, 255.0 / 256.0);
    assert_eq!(rp.rate_bps(), 3.75e9);
}

#[test]
fn ns3_raises_alpha_before_the_cut() {
    let mut rp = start(DcqcnParams { g: 1.0 / 256.0, ..params("ns3_rdma_config", LINE) });
    rp.on_cnp(us(10));
    let alpha = 0.5 * 255.0 / 256.0 + 1.0 / 256.0;
    assert_eq!(rp.rate_bps(), LINE * (1.0 - alpha / 2.0));
}

#[test]
fn hyper_increase_steps_grow_in_the_paper() {
    // Both counters tick together: stage i is hyper from F + 1 on, by (i - F) R_HAI.
    let p = DcqcnParams { byte_counter_bytes: Some(1000), ..params("dcqcn", 1e12) };
    let mut rp = start(p);
    for t in [10, 11, 12, 13, 14, 15] {
        rp.on_cnp(us(t)); // far below line rate, so that the clamp stays out of the way
    }
    let (ai, hai) = (40e6, 200e6);
    let mut target = rp.state().target_bps;
    for stage in 1..=8u32 {
        rp.on_bytes_sent(us(15 + 55 * u64::from(stage) - 1), 1000); // byte stage first
        let by_bytes = match stage {
            0..=4 => 0.0,
            _ if stage - 1 > 5 => f64::from(stage - 1 - 5) * hai,
            _ => ai,
        };
        target += by_bytes;
        assert_eq!(rp.state().target_bps, target, "byte stage {stage}");
        rp.poll(us(15 + 55 * u64::from(stage)));
        target += match stage {
            0..=4 => 0.0,
            5 => ai,
            _ => f64::from(stage - 5) * hai,
        };
        assert_eq!(rp.state().target_bps, target, "time stage {stage}");
    }
}

#[test]
fn the_limiter_is_released_at_line_rate_and_forgets() {
    let mut rp = start(params("dcqcn", 1e9));
    rp.on_cnp(us(1));
    let mut polls = 0;
    while let Some(at) = rp.next_deadline().instant() {
        rp.poll(at);
        polls += 1;
        assert!(polls < 100, "line rate is reached in about 50 halvings");
    }
    assert!(!rp.is_limited());
    assert_eq!(rp.rate_bps(), 1e9);
    assert_eq!(rp.state().estimate, 1.0);
    rp.on_bytes_sent(us(1_000_000), 1 << 40);
    assert_eq!(rp.state().byte_stage, 0);
}

#[test]
fn sampled_law_cuts_on_its_own_period() {
    // HPCC code: alpha = 1 at the first CNP, the cut 4 us later, alpha sampled every 55 us, g = 1/16.
    let mut rp = start(params("hpcc_code", LINE));
    rp.on_cnp(us(10));
    assert_eq!(rp.rate_bps(), LINE, "the first CNP only starts the periods");
    assert_eq!(rp.next_deadline(), Deadline::at(us(14)));
    rp.poll(us(14));
    assert_eq!(rp.rate_bps(), LINE / 2.0);
    rp.on_cnp(us(15));
    rp.on_cnp(us(16));
    rp.poll(us(18));
    assert_eq!(rp.rate_bps(), LINE / 4.0, "two CNPs in a period cut once");
    assert_eq!(rp.state().target_bps, LINE, "CLAMP_TGT_RATE 0: no stage passed, target kept");
    rp.poll(us(65));
    assert_eq!(rp.state().estimate, 15.0 / 16.0 + 1.0 / 16.0);
    rp.poll(us(120));
    assert_eq!(rp.state().estimate, 15.0 / 16.0);
    assert_eq!(rp.next_deadline(), Deadline::at(us(18 + 1500)));
    rp.poll(us(18 + 1500));
    assert_eq!(rp.rate_bps(), (LINE / 4.0 + LINE) / 2.0);
}

#[test]
fn sampled_law_goes_hyper_after_one_additive_step() {
    let p = DcqcnParams { fast_recovery_stages: 1, ..params("hpcc_dcqcn", 100e9) };
    let (ai, hai) = (p.additive_increase_bps, p.hyper_increase_bps);
    assert_eq!((ai, hai), (20e6, 200e6));
    let mut rp = start(p);
    rp.on_cnp(us(0));
    rp.poll(us(4));
    rp.poll(us(5));
    rp.on_cnp(us(5));
    rp.poll(us(8)); // target still at line: it must fall for the steps to be visible
    rp.poll(us(8 + 300));
    rp.on_cnp(us(309));
    rp.poll(us(312));
    let target = rp.state().target_bps;
    assert!(target < 100e9);
    for (stage, expected) in [target, target + ai, target + ai + hai].into_iter().enumerate() {
        rp.poll(us(312 + 300 * (stage as u64 + 1)));
        assert_eq!(rp.state().target_bps, expected, "stage {stage}");
    }
}

#[test]
fn connectx_never_cuts_below_half_and_counts_bytes() {
    let mut rp = start(params("connectx", 100e9));
    rp.on_cnp(us(0));
    rp.poll(us(4));
    // Alpha was sampled at 1, 2, 3, 4 us without a further CNP: 1023/1024 (1 - 5/1024)^4.
    let mut alpha = 1023.0 / 1024.0;
    for _ in 0..4 {
        alpha *= 1.0 - 5.0 / 1024.0;
    }
    assert!((rp.rate_bps() - 100e9 * (1.0 - alpha / 2.0)).abs() < 1.0);
    assert!(rp.rate_bps() >= 50e9);
    let before = rp.rate_bps();
    rp.on_bytes_sent(us(5), 32_767);
    assert_eq!(rp.rate_bps(), (before + 100e9) / 2.0);
}

#[test]
fn rate_stays_between_minimum_and_line_whatever_happens() {
    use proptest::prelude::*;
    let event = (0u8..3, 0u64..500, 1u64..20_000);
    let which = 0..preset::PRESETS.len();
    proptest!(|(which in which, events in prop::collection::vec(event, 1..300))| {
        let p = preset::PRESETS[which].1(100e9).rp;
        let (min, max) = (p.min_rate_bps, p.line_rate_bps);
        let mut rp = start(p);
        let mut now = Time::ZERO;
        for (kind, gap, bytes) in events {
            now += Span::from_us(gap);
            match kind {
                0 => rp.on_cnp(now),
                1 => rp.on_bytes_sent(now, bytes),
                _ => rp.poll(now),
            }
            let s = rp.state();
            prop_assert!(s.rate_bps >= min && s.rate_bps <= max, "{s:?}");
            prop_assert!(s.estimate >= 0.0 && s.estimate <= 1.0, "{s:?}");
        }
    });
}

#[test]
fn polling_often_or_once_gives_the_same_state() {
    for name in preset::names() {
        let run = |step_us: u64| {
            let mut rp = start(params(name, 25e9));
            for t in [10, 40, 90, 200, 400] {
                let mut at = t;
                while at < t + 30 {
                    rp.poll(us(at));
                    at += step_us;
                }
                rp.on_cnp(us(t + 30));
            }
            rp.poll(us(5_000));
            rp.state()
        };
        assert_eq!(run(1), run(30), "{name}");
    }
}

#[test]
fn a_long_idle_time_costs_little() {
    let mut rp = start(params("connectx", 100e9));
    rp.on_cnp(us(0));
    rp.poll(Time::ZERO + Span::from_ms(50_000_000));
    assert_eq!(rp.state().estimate, 0.0);
    assert!(!rp.alpha_at.is_by(Time::ZERO + Span::from_ms(49_999_999)));
}

#[test]
fn every_preset_is_valid_at_every_common_rate() {
    for line in [10e9, 25e9, 40e9, 100e9, 200e9, 400e9] {
        for name in preset::names() {
            assert!(RateAlgorithm::by_name(name, line).is_ok(), "{name} at {line}");
        }
    }
    let marking = preset::by_name("hpcc_config", 100e9).unwrap().marking.unwrap();
    assert_eq!((marking.kmin_bytes, marking.kmax_bytes, marking.pmax), (400e3, 1600e3, 0.2));
}

#[test]
fn wrong_parameters_are_refused_by_name() {
    let refused = |name: &str, value: f64| params("dcqcn", LINE).set(name, value).unwrap_err();
    assert_eq!(refused("g", 0.0).param, "g");
    assert_eq!(refused("g", f64::NAN).param, "g");
    assert_eq!(refused("increase_period_us", 0.0).param, "increase_period_us");
    assert_eq!(refused("alpha_period_us", -1.0).param, "alpha_period_us");
    let unknown = refused("gee", 1.0).to_string();
    assert!(unknown.contains("`gee`") && unknown.contains("min_rate_bps"), "{unknown}");
    let direct = DcqcnParams { alpha_period: Span::ZERO, ..params("dcqcn", LINE) };
    assert_eq!(direct.profile().unwrap_err().param, "alpha_period_us");
    let low_line = params("ns3_rdma_code", 10e6).profile().unwrap_err();
    assert_eq!(low_line.param, "min_rate_bps");
    let none = RateAlgorithm::by_name("dqcn", LINE).unwrap_err().to_string();
    assert!(none.contains("`dqcn`") && none.contains("connectx"), "{none}");
    let mut ok = params("dcqcn", LINE);
    ok.set("byte_counter_bytes", 0.0).unwrap();
    ok.set("increase_period_us", 55.5).unwrap();
    assert_eq!((ok.byte_counter_bytes, ok.increase_period), (None, Span::from_ns(55_500)));
}

#[test]
fn words_set_what_numbers_cannot() {
    let word = |text: &str| Setting::Word(text.to_owned());
    let mut p = params("hpcc_dcqcn_paper", LINE);
    for (name, value) in [
        ("law", "paper"),
        ("clamp_target", "always"),
        ("fast_recovery", "inclusive"),
        ("first_cut", "at_once"),
        ("pacing_gap", "kept"),
    ] {
        p.apply(name, &word(value)).unwrap();
    }
    assert_eq!((p.law, p.clamp_target), (Law::Paper, ClampTarget::Always));
    assert_eq!((p.first_cut, p.fast_recovery_inclusive), (FirstCut::AtOnce, true));
    assert_eq!(p.pacing_gap, crate::roce::rp::pacer::Gap::Kept);
    p.apply("g", &Setting::Number(0.5)).unwrap();
    assert_eq!(p.g, 0.5);
    let wrong = p.apply("law", &word("papre")).unwrap_err();
    assert_eq!(wrong.to_string(), "law is `papre`, expected one of paper, ns3, sampled");
    assert!(p.apply("g", &word("half")).is_err());
}

/// HPCC waits a period and cuts by an alpha that may have decayed by then; without the wait, it is as in the paper.
#[test]
fn the_first_cut_waits_or_not() {
    let rate = |p: DcqcnParams, at: u64| {
        let mut rp = start(p);
        rp.on_cnp(us(10));
        rp.poll(us(at));
        rp.rate_bps()
    };
    let hpcc = params("hpcc_dcqcn_paper", LINE);
    assert_eq!((rate(hpcc.clone(), 10), rate(hpcc.clone(), 59)), (LINE, LINE));
    assert!(rate(hpcc.clone(), 60) <= 0.51 * LINE);
    let at_once = DcqcnParams { first_cut: FirstCut::AtOnce, ..hpcc };
    assert_eq!(rate(at_once.clone(), 10), LINE / 2.0);
    assert_eq!(rate(at_once, 60), LINE / 2.0, "one CNP, one cut");
    // A part of the rate instead of a cut by alpha, with the laws that cut at once.
    for name in ["dcqcn", "ns3_rdma_config"] {
        let p = DcqcnParams { rate_on_first_cnp: Some(0.25), ..params(name, LINE) };
        let mut rp = start(p.clone());
        rp.on_cnp(us(10));
        assert_eq!((rp.rate_bps(), rp.state().target_bps), (LINE / 4.0, LINE / 4.0), "{name}");
        rp.on_cnp(us(11));
        assert!(rp.rate_bps() < LINE / 4.0, "{name}: the second is like any other");
    }
}
