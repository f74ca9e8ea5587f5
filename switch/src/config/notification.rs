//! The `congestion_notification:` section: how CNPs are paced and what they look like.

use serde::Deserialize;
use wireyard_tables::time::Span;

use super::qos::{ClassMap, spread};
use crate::frames::cnp::{CnpConfig, SlToVl};
use crate::frames::envelope::Class;
use crate::roce::np::{NpConfig, Pacing, Role, WindowEnd};
use crate::units::Interval;

/// `role`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum RoleWord {
    #[default]
    Switch,
    Nic,
}

/// `pacing`: the scope of one CNP per interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum PacingWord {
    #[default]
    Flow,
    Pair,
    Port,
}

/// `window_end`: the treatment of marks inside an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum WindowEndWord {
    #[default]
    SendPending,
    Forget,
}

/// The section; everything may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notification {
    /// Place of the notification point (default switch).
    pub role: RoleWord,
    /// Least time between two CNPs (default 50 us); "0 us" answers every mark.
    pub interval: Option<Interval>,
    /// One CNP per interval for each flow, address pair or port (default flow).
    pub pacing: PacingWord,
    /// Marks inside an interval: one CNP at its end, or none (default send_pending).
    pub window_end: WindowEndWord,
    /// Flows whose interval may run at the same time (default 65536).
    pub max_windows: Option<u32>,
    /// DSCP of CNPs (default 48).
    pub dscp: Option<Dscp>,
    /// ECN field of CNPs (default 2, ECT(0), as ConnectX).
    pub ecn: Option<Ecn>,
    /// VLAN priority of CNPs on Ethernet (default 6).
    pub priority: Option<Priority>,
    /// Service level of CNPs on InfiniBand (default that of the marked packet).
    pub sl: Option<ServiceLevel>,
    /// Virtual lane of each service level (default its low three bits).
    pub sl_to_vl: Option<VirtualLanes>,
}

/// A number up to a limit, with a name for messages.
macro_rules! limited {
    ($name:ident, $max:literal, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "u8")]
        pub struct $name(u8);

        impl TryFrom<u8> for $name {
            type Error = String;

            fn try_from(value: u8) -> Result<$name, String> {
                if value <= $max {
                    return Ok($name(value));
                }
                Err(format!(concat!("{} is too much for ", $what, ": at most ", $max), value))
            }
        }
    };
}

limited!(Dscp, 63, "a DSCP");
limited!(Ecn, 2, "the ECN field of a CNP (3, congestion experienced, is for switches to write)");
limited!(Priority, 7, "a VLAN priority");
limited!(ServiceLevel, 15, "a service level");

/// `sl_to_vl`: the map of the port, with the default for classes without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ClassMap")]
pub struct VirtualLanes(SlToVl);

impl TryFrom<ClassMap> for VirtualLanes {
    type Error = String;

    fn try_from(map: ClassMap) -> Result<VirtualLanes, String> {
        let mut lanes = SlToVl::default();
        for (lane, said) in lanes.0.iter_mut().zip(spread::<u8, 16>(&map.0, LEVELS)?) {
            *lane = said.unwrap_or(*lane);
            if *lane > VL_MAX {
                return Err(format!("virtual lane {lane}: data has lanes 0 to {VL_MAX}"));
            }
        }
        Ok(VirtualLanes(lanes))
    }
}

const LEVELS: (&str, &str) = ("service level", "service levels");
/// The largest virtual lane that data may have; 15 is for subnet management.
const VL_MAX: u8 = 14;

impl Notification {
    /// For the notification point.
    pub fn np(&self) -> NpConfig {
        let default = NpConfig::default();
        NpConfig {
            interval: self.interval.map_or(Span::from_us(50), |interval| interval.span()),
            pacing: match self.pacing {
                PacingWord::Flow => Pacing::PerFlow,
                PacingWord::Pair => Pacing::PerPair,
                PacingWord::Port => Pacing::PerPort,
            },
            window_end: match self.window_end {
                WindowEndWord::SendPending => WindowEnd::SendPending,
                WindowEndWord::Forget => WindowEnd::Forget,
            },
            role: match self.role {
                RoleWord::Switch => Role::Switch,
                RoleWord::Nic => Role::Nic,
            },
            max_windows: self.max_windows.map_or(default.max_windows, |windows| windows as usize),
        }
    }

    /// For the builder of CNPs.
    pub fn cnp(&self) -> CnpConfig {
        let default = CnpConfig::default();
        let class = Class {
            dscp: self.dscp.map_or(default.class.dscp, |dscp| dscp.0),
            ecn: self.ecn.map_or(default.class.ecn, |ecn| ecn.0),
            pcp: self.priority.map_or(default.class.pcp, |priority| priority.0),
            ..default.class
        };
        let sl_to_vl = self.sl_to_vl.map_or(default.sl_to_vl, |lanes| lanes.0);
        CnpConfig { class, sl: self.sl.map(|sl| sl.0), sl_to_vl, ..default }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_levels_of_cnps_are_read() {
        let read = |text: &str| serde_json::from_str::<Notification>(text).map(|read| read.cnp());
        assert_eq!(read("{}").unwrap(), CnpConfig::default());
        let cnp = read(r#"{ "sl": 4, "sl_to_vl": { "0-3": 1, "9": 14 } }"#).unwrap();
        assert_eq!(cnp.sl, Some(4));
        assert_eq!(cnp.sl_to_vl.0, [1, 1, 1, 1, 4, 5, 6, 7, 0, 14, 2, 3, 4, 5, 6, 7]);
        for (text, why) in [
            (r#"{ "sl": 16 }"#, "16 is too much for a service level: at most 15"),
            (r#"{ "ecn": 3 }"#, "3 is too much for the ECN field of a CNP"),
            (r#"{ "sl_to_vl": { "1": 15 } }"#, "virtual lane 15: data has lanes 0 to 14"),
            (r#"{ "sl_to_vl": { "16": 1 } }"#, "from 0 to 15"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
