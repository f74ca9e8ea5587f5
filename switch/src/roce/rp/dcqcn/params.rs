//! DCQCN parameters: names, units, checks.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use wireyard_tables::time::Span;

use super::super::ParamError;
use super::super::pacer::Gap;
use crate::units::Dilation;

/// The published semantics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// SIGCOMM 2015.
    Paper,
    /// ns3-rdma `qbb-net-device.cc`.
    Ns3Rdma,
    /// ConnectX documentation as modelled by HPCC `rdma-hw.cc`.
    Sampled,
}

/// When a cut pulls the target rate down to the rate before the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClampTarget {
    /// `CLAMP_TGT_RATE = 1`, and the paper.
    Always,
    /// `CLAMP_TGT_RATE = 0`, `CLAMP_TGT_RATE_AFTER_TIME_INC = 0`.
    AfterByteStage,
    /// `CLAMP_TGT_RATE = 0`, `CLAMP_TGT_RATE_AFTER_TIME_INC = 1` (ConnectX, HPCC).
    AfterAnyStage,
}

/// When a reaction point of [`Law::Sampled`] makes its first cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstCut {
    /// With the first CNP.
    AtOnce,
    /// One period of cuts after it (HPCC).
    NextPeriod,
}

/// All settings of a reaction point. [`DcqcnParams::profile`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnParams {
    /// Semantics.
    pub law: Law,
    /// Rate of the port, at which the reaction point starts and which it never exceeds, bit/s.
    pub line_rate_bps: f64,
    /// R_min, bit/s.
    pub min_rate_bps: f64,
    /// Alpha of a flow without a CNP so far.
    pub alpha_initial: f64,
    /// Gain of the alpha average.
    pub g: f64,
    /// Alpha timer K (paper, ns3-rdma: since the last CNP) or sampling period (ConnectX, HPCC).
    pub alpha_period: Span,
    /// T: the rate increase timer.
    pub increase_period: Span,
    /// B: the byte counter; `None` is off.
    pub byte_counter_bytes: Option<u64>,
    /// F: stages of fast recovery.
    pub fast_recovery_stages: u32,
    /// Fast recovery while `max(T, BC) <= F` (uet-htsim) instead of `< F`.
    pub fast_recovery_inclusive: bool,
    /// R_AI, bit/s.
    pub additive_increase_bps: f64,
    /// R_HAI, bit/s.
    pub hyper_increase_bps: f64,
    /// Target clamp.
    pub clamp_target: ClampTarget,
    /// Least time between cuts; [`Law::Sampled`] only (`RATE_REDUCE_MONITOR_PERIOD`).
    pub decrease_period: Span,
    /// A cut never goes below this part of the rate (`RPG_MIN_DEC_FAC`).
    pub min_decrease_factor: f64,
    /// Part of the rate set by the first CNP, instead of a cut by alpha; `None`: it is like any other.
    pub rate_on_first_cnp: Option<f64>,
    /// The first cut; [`Law::Sampled`] only.
    pub first_cut: FirstCut,
    /// The treatment of a gap between two packets while the rate changes.
    pub pacing_gap: Gap,
}

/// A setting that is one of a few words.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceInfo {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
    /// Sets the value with this index in `values`.
    set: fn(&mut DcqcnParams, usize),
}

const LAWS: [Law; 3] = [Law::Paper, Law::Ns3Rdma, Law::Sampled];
const CLAMPS: [ClampTarget; 3] =
    [ClampTarget::Always, ClampTarget::AfterByteStage, ClampTarget::AfterAnyStage];
const FIRST_CUTS: [FirstCut; 2] = [FirstCut::AtOnce, FirstCut::NextPeriod];
const GAPS: [Gap; 3] = [Gap::Rest, Gap::Whole, Gap::Kept];

/// Every setting that is a word.
pub const CHOICES: &[ChoiceInfo] = &[
    ChoiceInfo { name: "law", values: &["paper", "ns3", "sampled"], set: |p, n| p.law = LAWS[n] },
    ChoiceInfo {
        name: "clamp_target",
        values: &["always", "after_byte_stage", "after_any_stage"],
        set: |p, n| p.clamp_target = CLAMPS[n],
    },
    ChoiceInfo {
        name: "fast_recovery",
        values: &["exclusive", "inclusive"],
        set: |p, n| p.fast_recovery_inclusive = n == 1,
    },
    ChoiceInfo {
        name: "first_cut",
        values: &["at_once", "next_period"],
        set: |p, n| p.first_cut = FIRST_CUTS[n],
    },
    ChoiceInfo {
        name: "pacing_gap",
        values: &["rest", "whole", "kept"],
        set: |p, n| p.pacing_gap = GAPS[n],
    },
];

/// A parameter as written: a number, or a word of [`CHOICES`].
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Number(number) => number.fmt(f),
            Setting::Word(word) => f.write_str(word),
        }
    }
}

/// A numeric parameter that can be set by name.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// Name with its unit.
    pub name: &'static str,
    /// Smallest and largest value.
    pub range: (f64, f64),
    get: fn(&DcqcnParams) -> f64,
    set: fn(&mut DcqcnParams, f64),
}

const RATE: (f64, f64) = (1.0, 1e15);
const PERIOD_US: (f64, f64) = (0.001, 1e9);
const PART: (f64, f64) = (0.0, 1.0);

/// Every numeric parameter.
pub const PARAMS: &[ParamInfo] = &[
    ParamInfo {
        name: "line_rate_bps",
        range: RATE,
        get: |p| p.line_rate_bps,
        set: |p, v| p.line_rate_bps = v,
    },
    ParamInfo {
        name: "min_rate_bps",
        range: RATE,
        get: |p| p.min_rate_bps,
        set: |p, v| p.min_rate_bps = v,
    },
    ParamInfo {
        name: "alpha_initial",
        range: PART,
        get: |p| p.alpha_initial,
        set: |p, v| p.alpha_initial = v,
    },
    ParamInfo { name: "g", range: (1e-9, 1.0), get: |p| p.g, set: |p, v| p.g = v },
    ParamInfo {
        name: "alpha_period_us",
        range: PERIOD_US,
        get: |p| us(p.alpha_period),
        set: |p, v| p.alpha_period = from_us(v),
    },
    ParamInfo {
        name: "increase_period_us",
        range: PERIOD_US,
        get: |p| us(p.increase_period),
        set: |p, v| p.increase_period = from_us(v),
    },
    ParamInfo {
        name: "byte_counter_bytes",
        range: (0.0, 1e15),
        get: |p| p.byte_counter_bytes.map_or(0.0, |b| b as f64),
        set: |p, v| p.byte_counter_bytes = (v >= 1.0).then_some(v as u64),
    },
    ParamInfo {
        name: "fast_recovery_stages",
        range: (0.0, 1e6),
        get: |p| f64::from(p.fast_recovery_stages),
        set: |p, v| p.fast_recovery_stages = v as u32,
    },
    ParamInfo {
        name: "additive_increase_bps",
        range: (0.0, 1e15),
        get: |p| p.additive_increase_bps,
        set: |p, v| p.additive_increase_bps = v,
    },
    ParamInfo {
        name: "hyper_increase_bps",
        range: (0.0, 1e15),
        get: |p| p.hyper_increase_bps,
        set: |p, v| p.hyper_increase_bps = v,
    },
    ParamInfo {
        name: "decrease_period_us",
        range: PERIOD_US,
        get: |p| us(p.decrease_period),
        set: |p, v| p.decrease_period = from_us(v),
    },
    ParamInfo {
        name: "min_decrease_factor",
        range: PART,
        get: |p| p.min_decrease_factor,
        set: |p, v| p.min_decrease_factor = v,
    },
    ParamInfo {
        name: "rate_on_first_cnp",
        range: PART,
        get: |p| p.rate_on_first_cnp.unwrap_or(0.0),
        set: |p, v| p.rate_on_first_cnp = (v > 0.0).then_some(v),
    },
];

impl DcqcnParams {
    /// Sets a parameter by its name in [`PARAMS`]; 0 switches `byte_counter_bytes` and `rate_on_first_cnp` off.
    ///
    /// # Errors
    /// An unknown name (with all names), or a value out of range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
        let Some(info) = PARAMS.iter().find(|info| info.name == name) else {
            let names: Vec<_> = PARAMS.iter().map(|info| info.name).collect();
            let expected = format!("one of {}", names.join(", "));
            return Err(ParamError::new("parameter name", format!("`{name}`"), expected));
        };
        info.check(value)?;
        (info.set)(self, value);
        Ok(())
    }

    /// Names and values of the numeric parameters that this law uses.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let used = PARAMS.iter().filter(|info| info.is_of(self.law));
        used.map(|info| (info.name, (info.get)(self)))
    }

    /// Sets a number ([`DcqcnParams::set`]) or a word.
    ///
    /// # Errors
    /// As [`DcqcnParams::set`]; a word that is none of its values.
    pub fn apply(&mut self, name: &str, setting: &Setting) -> Result<(), ParamError> {
        let word = match setting {
            Setting::Number(value) => return self.set(name, *value),
            Setting::Word(word) => word,
        };
        let Some(info) = CHOICES.iter().find(|info| info.name == name) else {
            return Err(ParamError::new("parameter name", format!("`{name}`"), "a number"));
        };
        let Some(place) = info.values.iter().position(|value| value == word) else {
            let expected = format!("one of {}", info.values.join(", "));
            return Err(ParamError::new(info.name, format!("`{word}`"), expected));
        };
        (info.set)(self, place);
        Ok(())
    }

    /// The same reaction point on a clock slower by `by`; `None` if a period is too long.
    pub fn dilated(self, by: Dilation) -> Option<DcqcnParams> {
        let factor = f64::from(by.get());
        Some(DcqcnParams {
            line_rate_bps: self.line_rate_bps / factor,
            min_rate_bps: self.min_rate_bps / factor,
            additive_increase_bps: self.additive_increase_bps / factor,
            hyper_increase_bps: self.hyper_increase_bps / factor,
            alpha_period: by.span(self.alpha_period)?,
            increase_period: by.span(self.increase_period)?,
            decrease_period: by.span(self.decrease_period)?,
            ..self
        })
    }

    /// Checks every parameter and the conditions between them.
    ///
    /// # Errors
    /// The first invalid parameter, by name.
    pub fn profile(self) -> Result<Profile, ParamError> {
        for info in PARAMS {
            info.check((info.get)(&self))?;
        }
        if self.min_rate_bps > self.line_rate_bps {
            let expected = format!("at most line_rate_bps, {} bit/s", self.line_rate_bps);
            return Err(ParamError::new("min_rate_bps", self.min_rate_bps.to_string(), expected));
        }
        Ok(Profile(Arc::new(self)))
    }
}

impl ChoiceInfo {
    /// Whether a reaction point of this law uses it.
    pub fn is_of(&self, law: Law) -> bool {
        match self.name {
            "first_cut" => law == Law::Sampled,
            // The phase of ns3-rdma looks at one counter.
            "fast_recovery" => law != Law::Ns3Rdma,
            _ => true,
        }
    }
}

impl ParamInfo {
    /// Whether a reaction point of this law uses it.
    pub fn is_of(&self, law: Law) -> bool {
        law == Law::Sampled || self.name != "decrease_period_us"
    }

    fn check(&self, value: f64) -> Result<(), ParamError> {
        let (low, high) = self.range;
        if value >= low && value <= high {
            return Ok(());
        }
        Err(ParamError::new(self.name, value.to_string(), format!("a number from {low} to {high}")))
    }
}

/// Checked parameters, shared by the queue pairs that use them.
#[derive(Clone, Debug)]
pub struct Profile(Arc<DcqcnParams>);

impl Deref for Profile {
    type Target = DcqcnParams;

    fn deref(&self) -> &DcqcnParams {
        &self.0
    }
}

fn us(span: Span) -> f64 {
    span.as_ps() as f64 / 1e6
}

fn from_us(us: f64) -> Span {
    Span::from_ps((us * 1e6 + 0.5) as u64)
}
