//! `nic`: measurements of real adapters, or statements of their makers, as keys of `host` with the source of each.
//!
//! The keys of a profile are read before the others, so those in `host` or `hosts` take precedence. A key for which no
//! source was found is in no profile and stays that of the ideal end point; `programs/lab/reference.md` lists those.

use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::{Key, Map, Node, NodeKind, Scalar};

/// A key of a host, its value or values, and their source.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As in `host`.
    pub key: &'static str,
    /// One, or a list.
    pub values: &'static [&'static str],
    /// The source of the value.
    pub source: &'static str,
}

/// An adapter.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// As it is named in a scenario.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its known settings.
    pub settings: &'static [Setting],
}

const fn setting(
    key: &'static str,
    values: &'static [&'static str],
    source: &'static str,
) -> Setting {
    Setting { key, values, source }
}

const CONNECTX_RATES: Setting = setting(
    "rate_control",
    &["connectx"],
    "mlxconfig of ConnectX-4 to -6; NVIDIA DOC-2790 and DOCA 3.4, \"DCQCN Parameters\"",
);
const CONNECTX_INTERVAL: Setting =
    setting("cnp_interval", &["4 us"], "mlxconfig: MIN_TIME_BETWEEN_CNPS 4");
const CONNECTX_PORT: Setting = setting(
    "cnp_per",
    &["port"],
    "NVIDIA's firmware tools, struct tools_open_roce_cc_ecn: \"minimum time between sending cnps from the port\"",
);
const MLX5_ACKS: Setting = setting(
    "ack_every",
    &["256"],
    "Linux, drivers/infiniband/hw/mlx5/qp.c: log_ack_req_freq is MLX5_IB_ACK_REQ_FREQ, 8",
);
const MLX4_ACKS: Setting = setting(
    "ack_every",
    &["256"],
    "Linux, drivers/infiniband/hw/mlx4/qp.c: MLX4_IB_ACK_REQ_FREQ 8, a power of two",
);
const FLOOR: &str = "measured on a ConnectX-6 VPI, firmware 20.43.4100, timeouts 14 to 20: regular timeouts are 2 x 4.096 us x 2^max(T, 16) apart (536.9 ms for T up to 16)";

/// All of them; the first is the default of hosts.
pub const PROFILES: &[Profile] = &[
    Profile { name: "ideal", about: "An end point as IBTA and the papers have it.", settings: &[] },
    Profile {
        name: "connectx2",
        about: "Mellanox ConnectX-2, as it is delivered.",
        settings: &[
            MLX4_ACKS,
            setting(
                "ack_timeout_min",
                &["17"],
                "RAMCloud wiki, page 6848686: no timeout below about 500 ms; 4.096 us x 2^17 is 537 ms",
            ),
        ],
    },
    Profile {
        name: "connectx5",
        about: "NVIDIA ConnectX-5 with adaptive retransmission, as it is delivered.",
        settings: &[
            CONNECTX_RATES,
            CONNECTX_INTERVAL,
            CONNECTX_PORT,
            MLX5_ACKS,
            setting(
                "early_timeouts",
                &["2 ms", "4 ms", "8 ms", "16 ms"],
                "linux-rdma/perftest issue 251: sent again after 2, 4, 8 and 16 ms whatever the timeout is",
            ),
            setting(
                "ack_timeout_min",
                &["16"],
                "the study of the ConnectX-6 on a ConnectX-5 before it: 537 ms for each further retry at T = 8",
            ),
            setting("ack_timeout_factor", &["2"], "the same: 537 ms is 2 x 4.096 us x 2^16"),
        ],
    },
    Profile {
        name: "connectx6",
        about: "NVIDIA ConnectX-6 with adaptive retransmission, as it is delivered.",
        settings: &[
            CONNECTX_RATES,
            CONNECTX_INTERVAL,
            CONNECTX_PORT,
            MLX5_ACKS,
            setting(
                "early_timeouts",
                &[
                    "12.3 ms",
                    "8.6 ms",
                    "16.6 ms",
                    "33.7 ms",
                    "67.1 ms",
                    "100.6 ms",
                    "201.4 ms",
                    "536.8 ms",
                    "805.3 ms",
                    "2147.8 ms",
                    "4294.8 ms",
                ],
                "measured on a ConnectX-6 VPI, firmware 20.43.4100: steps of adaptive retransmission, of which those up to 4.096 us x 2^max(T, 16) are taken",
            ),
            setting("ack_timeout_min", &["16"], FLOOR),
            setting("ack_timeout_factor", &["2"], FLOOR),
        ],
    },
    Profile {
        name: "thor2",
        about: "Broadcom BCM57608 with the driver bnxt_re.",
        settings: &[setting(
            "ack_timeout",
            &["16"],
            "Linux, drivers/infiniband/hw/bnxt_re/bnxt_re.h: BNXT_RE_DEFAULT_ACK_DELAY 16, about 260 ms",
        )],
    },
    Profile {
        name: "rxe",
        about: "Soft RoCE of Linux.",
        settings: &[
            setting(
                "ack_every",
                &["66"],
                "Linux, drivers/infiniband/sw/rxe/rxe_req.c: the packet that finds noack_pkts above RXE_MAX_PKT_PER_ACK, 64, asks",
            ),
            setting(
                "outstanding",
                &["129 packets"],
                "Linux, rxe_req.c: it waits when the next PSN is more than RXE_MAX_UNACKED_PSNS, 128, behind the oldest",
            ),
        ],
    },
];

/// Their names.
pub const NAMES: &[&str] = &{
    let mut names = [""; PROFILES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = PROFILES[at].name;
        at += 1;
    }
    names
};

/// The profile of this name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

impl Profile {
    /// Its keys as they would appear in the file.
    pub(super) fn node(&self, span: SourceSpan) -> Node {
        let scalar =
            |text: &str| Scalar { text: text.to_owned(), start: None, plain: true, flow: false };
        let node = |kind| Node { kind, span, alias: None };
        let value = |text: &&str| node(NodeKind::Scalar(scalar(text)));
        let pairs = self.settings.iter().map(|setting| {
            let value = match setting.values {
                [one] => value(one),
                several => node(NodeKind::List(several.iter().map(value).collect())),
            };
            (Key { scalar: scalar(setting.key), span }, value)
        });
        node(NodeKind::Map(Map { pairs: pairs.collect(), braces: true }))
    }

    /// Its description, a line for each key with the source.
    pub fn page(&self) -> String {
        let mut page = format!("{}: {}\n\n", self.name, self.about);
        if self.settings.is_empty() {
            page += "Every key of `host` is that of programs/lab/reference.md, Hosts.\n";
        }
        for setting in self.settings {
            let value = match setting.values {
                [one] => (*one).to_owned(),
                several => format!("[{}]", several.join(", ")),
            };
            page += &format!("{}: {value}\n    {}\n", setting.key, setting.source);
        }
        page + "\n`host: { nic: NAME }` of a scenario stands for these keys; a key that is written wins.\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_a_source() {
        for setting in PROFILES.iter().flat_map(|profile| profile.settings) {
            assert!(setting.source.len() > 20 && !setting.values.is_empty(), "{}", setting.key);
        }
    }
}
