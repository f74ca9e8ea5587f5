//! The default tables of published implementations, by name.
//!
//! A preset has the whole loop of its source: reaction point, CNP interval of the notification point and, if the source
//! has one, the marking curve of the switch. Cells that a source leaves open are filled from the paper.

use wireyard_tables::time::Span;

use super::super::ParamError;
use super::super::pacer::Gap;
use super::params::{ClampTarget, DcqcnParams, FirstCut, Law};

/// Marking curve of a congestion point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Queue below which nothing is marked, bytes.
    pub kmin_bytes: f64,
    /// Queue above which everything is marked, bytes.
    pub kmax_bytes: f64,
    /// Marking probability at `kmax_bytes`.
    pub pmax: f64,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// The reaction point.
    pub rp: DcqcnParams,
    /// N of the notification point; zero: every mark causes a CNP and the reaction point gates.
    pub cnp_interval: Span,
    /// The switch, where stated.
    pub marking: Option<Marking>,
}

/// A name, and the preset for ports of a line rate in bit/s.
type Named = (&'static str, fn(f64) -> Preset);

/// Every preset.
pub const PRESETS: [Named; 11] = [
    ("dcqcn", paper),
    ("ns3_rdma_code", ns3_rdma_code),
    ("ns3_rdma_config", ns3_rdma_config),
    ("hpcc_code", hpcc_code),
    ("hpcc_config", hpcc_config),
    ("hpcc_dcqcn", hpcc_dcqcn),
    ("hpcc_dcqcn_paper", hpcc_dcqcn_paper),
    ("conweave", conweave),
    ("uet_htsim", uet_htsim),
    ("connectx", connectx),
    ("spirent", spirent),
];

/// Names for [`by_name`].
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.into_iter().map(|(name, _)| name)
}

/// The preset of that name, for ports of `line_rate_bps`.
///
/// # Errors
/// An unknown name, with the valid names.
pub fn by_name(name: &str, line_rate_bps: f64) -> Result<Preset, ParamError> {
    let found = PRESETS.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, preset)| preset(line_rate_bps)).ok_or_else(|| {
        let names: Vec<&str> = names().collect();
        let expected = format!("fixed or one of {}", names.join(", "));
        ParamError::new("rate control", format!("`{name}`"), expected)
    })
}

/// SIGCOMM 2015 / CoNEXT 2016 text and `dcqcn2.m`. R_HAI and R_min are not stated there: 200 Mb/s as in
/// ns3-rdma's configuration, and 1 Mb/s as in ConnectX so that a flow never stops.
fn paper(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            law: Law::Paper,
            line_rate_bps: line,
            min_rate_bps: 1e6,
            alpha_initial: 1.0,
            g: 1.0 / 256.0,
            alpha_period: Span::from_us(55),
            increase_period: Span::from_us(55),
            byte_counter_bytes: Some(10_000_000),
            fast_recovery_stages: 5,
            fast_recovery_inclusive: false,
            additive_increase_bps: 40e6,
            hyper_increase_bps: 200e6,
            clamp_target: ClampTarget::Always,
            decrease_period: Span::from_us(50),
            min_decrease_factor: 0.5,
            rate_on_first_cnp: None,
            first_cut: FirstCut::NextPeriod,
            pacing_gap: Gap::Rest,
        },
        cnp_interval: Span::from_us(50),
        marking: Some(Marking { kmin_bytes: 5e3, kmax_bytes: 200e3, pmax: 0.01 }),
    }
}

/// Defaults in `qbb-net-device.cc`. Its KB is 1,030 bytes.
fn ns3_rdma_code(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            law: Law::Ns3Rdma,
            min_rate_bps: 100e6,
            alpha_initial: 0.5,
            g: 1.0 / 16.0,
            increase_period: Span::from_us(1500),
            byte_counter_bytes: Some(150_000),
            additive_increase_bps: 5e6,
            hyper_increase_bps: 50e6,
            clamp_target: ClampTarget::AfterByteStage,
            ..paper(line).rp
        },
        cnp_interval: Span::from_us(50),
        marking: Some(Marking { kmin_bytes: 61_800.0, kmax_bytes: 61_800.0, pmax: 0.1 }),
    }
}

/// The shipped `config.txt`.
fn ns3_rdma_config(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            g: 1.0 / 256.0,
            increase_period: Span::from_us(60),
            byte_counter_bytes: Some(300_000_000),
            additive_increase_bps: 40e6,
            hyper_increase_bps: 200e6,
            clamp_target: ClampTarget::Always,
            ..ns3_rdma_code(line).rp
        },
        cnp_interval: Span::from_us(50),
        marking: Some(Marking { kmin_bytes: 41_200.0, kmax_bytes: 1_030_000.0, pmax: 1.0 }),
    }
}

/// Defaults in `rdma-hw.cc`.
fn hpcc_code(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            law: Law::Sampled,
            min_rate_bps: 100e6,
            alpha_initial: 1.0,
            g: 1.0 / 16.0,
            alpha_period: Span::from_us(55),
            increase_period: Span::from_us(1500),
            byte_counter_bytes: None,
            fast_recovery_stages: 5,
            additive_increase_bps: 5e6,
            hyper_increase_bps: 50e6,
            clamp_target: ClampTarget::AfterAnyStage,
            decrease_period: Span::from_us(4),
            rate_on_first_cnp: Some(1.0),
            ..paper(line).rp
        },
        cnp_interval: Span::ZERO,
        marking: None,
    }
}

/// `mix/config.txt`.
fn hpcc_config(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            g: 1.0 / 256.0,
            alpha_period: Span::from_us(1),
            increase_period: Span::from_us(900),
            fast_recovery_stages: 1,
            additive_increase_bps: 50e6,
            hyper_increase_bps: 100e6,
            ..hpcc_code(line).rp
        },
        cnp_interval: Span::ZERO,
        marking: Some(hpcc_marking(line)),
    }
}

/// `run.py` with `dcqcn`: increase steps grow with the port rate.
fn hpcc_dcqcn(line: f64) -> Preset {
    let base = hpcc_config(line);
    Preset {
        rp: DcqcnParams {
            increase_period: Span::from_us(300),
            additive_increase_bps: 5e6 * (line / 25e9),
            hyper_increase_bps: 50e6 * (line / 25e9),
            ..base.rp
        },
        ..base
    }
}

/// `run.py` with `dcqcn_paper`.
fn hpcc_dcqcn_paper(line: f64) -> Preset {
    let base = hpcc_dcqcn(line);
    Preset {
        rp: DcqcnParams {
            decrease_period: Span::from_us(50),
            alpha_period: Span::from_us(50),
            increase_period: Span::from_us(55),
            ..base.rp
        },
        ..base
    }
}

/// conweave-ns3 `run.py`: 100 KB / 400 KB / 20 % at every rate.
fn conweave(line: f64) -> Preset {
    let base = hpcc_dcqcn(line);
    Preset {
        rp: DcqcnParams {
            additive_increase_bps: 10e6 * (line / 25e9),
            hyper_increase_bps: 25e6 * (line / 25e9),
            ..base.rp
        },
        marking: Some(Marking { kmin_bytes: 100e3, kmax_bytes: 400e3, pmax: 0.2 }),
        ..base
    }
}

/// uet-htsim `dcqcn.cpp`, without its defect that all flows share one alpha.
fn uet_htsim(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            fast_recovery_inclusive: true,
            additive_increase_bps: line / 20.0,
            hyper_increase_bps: line / 10.0,
            ..paper(line).rp
        },
        cnp_interval: Span::from_us(50),
        marking: None,
    }
}

/// ConnectX-4 to -6: `mlxconfig`, NVIDIA DOC-2790, DOCA. `DCE_TCP_G` 1019 is g = 5/1024.
fn connectx(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            min_rate_bps: 1e6,
            alpha_initial: 1023.0 / 1024.0,
            g: 5.0 / 1024.0,
            alpha_period: Span::from_us(1),
            increase_period: Span::from_us(300),
            byte_counter_bytes: Some(32_767),
            fast_recovery_stages: 1,
            rate_on_first_cnp: None,
            ..hpcc_code(line).rp
        },
        cnp_interval: Span::from_us(4),
        marking: None,
    }
}

/// Spirent TestCenter `Rocev2DcqcnProfile`; the open cells are the paper's.
fn spirent(line: f64) -> Preset {
    Preset {
        rp: DcqcnParams {
            min_rate_bps: 2e6,
            alpha_period: Span::from_us(1550),
            byte_counter_bytes: Some(2_000_000),
            additive_increase_bps: 5e6,
            hyper_increase_bps: 40e6,
            ..paper(line).rp
        },
        cnp_interval: Span::from_us(50),
        marking: None,
    }
}

/// 100/400 KB at 25G, growing with the port rate, 20 %.
fn hpcc_marking(line: f64) -> Marking {
    let scale = line / 25e9;
    Marking { kmin_bytes: 100e3 * scale, kmax_bytes: 400e3 * scale, pmax: 0.2 }
}
