//! Presets: well-known configurations, kept as data in the same language as `qos:` itself.

use serde::Deserialize;

use super::{PortSection, QosConfig};

/// A preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// SONiC's AZURE profiles (`qos_config.j2`, `buffers_defaults_t0.j2`): priorities 3 and 4 lossless,
    /// ECN 1 MiB / 2 MiB / 5 %, DWRR 14 and 15, watchdog 200 ms. Pool sizes are ours.
    SonicAzure,
    /// NVIDIA Onyx and Cumulus `roce`: priority 3 lossless with half the bandwidth, priority 6 (CNP)
    /// strict, ECN 150 KB / 1500 KB. Pool sizes are ours.
    OnyxRoce,
    /// No class of service: one lossy pool. The default of a switch without `qos:`.
    Plain,
}

/// A preset that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("preset {preset:?}: {source}")]
pub struct PresetError {
    /// The preset.
    pub preset: Preset,
    /// The error.
    pub source: serde_json::Error,
}

impl Preset {
    /// The preset as text, in JSON, which is YAML too.
    pub fn text(self) -> &'static str {
        match self {
            Preset::SonicAzure => include_str!("presets/sonic_azure.json"),
            Preset::OnyxRoce => include_str!("presets/onyx_roce.json"),
            Preset::Plain => include_str!("presets/plain.json"),
        }
    }

    /// The preset as configuration.
    pub(super) fn config(self) -> Result<QosConfig, PresetError> {
        serde_json::from_str(self.text()).map_err(|source| PresetError { preset: self, source })
    }
}

/// Entries of `over` replace those of `base` with the same name.
fn extend<K: Ord + Clone, V: Clone>(
    base: &mut std::collections::BTreeMap<K, V>,
    over: &std::collections::BTreeMap<K, V>,
) {
    base.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
}

impl QosConfig {
    /// This configuration on top of its preset.
    pub(super) fn with_preset(&self) -> Result<QosConfig, PresetError> {
        let mut merged = self.preset.unwrap_or(Preset::Plain).config()?;
        merged.preset = self.preset;
        merged.dilation = self.dilation;
        merged.live = self.live;
        merged.seed = self.seed.or(merged.seed);
        merged.packet_slots = self.packet_slots.or(merged.packet_slots);
        merged.hold_slots = self.hold_slots.or(merged.hold_slots);
        merged.allow_lossy_headroom |= self.allow_lossy_headroom;
        merged.cell = self.cell.or(merged.cell);
        extend(&mut merged.buffer_pools, &self.buffer_pools);
        extend(&mut merged.buffer_profiles, &self.buffer_profiles);
        extend(&mut merged.wred_profiles, &self.wred_profiles);
        extend(&mut merged.schedulers, &self.schedulers);
        extend(&mut merged.dscp_to_tc_maps, &self.dscp_to_tc_maps);
        extend(&mut merged.dot1p_to_tc_maps, &self.dot1p_to_tc_maps);
        extend(&mut merged.tc_to_queue_maps, &self.tc_to_queue_maps);
        extend(&mut merged.tc_to_priority_group_maps, &self.tc_to_priority_group_maps);
        extend(&mut merged.pfc_priority_to_queue_maps, &self.pfc_priority_to_queue_maps);
        extend(
            &mut merged.pfc_priority_to_priority_group_maps,
            &self.pfc_priority_to_priority_group_maps,
        );
        merged.port_defaults = self.port_defaults.over(&merged.port_defaults);
        extend(&mut merged.ports, &self.ports);
        Ok(merged)
    }
}

/// Fields of `over` where present, otherwise those of `base`. A map replaces the other as a whole: its keys are ranges
/// and would overlap.
macro_rules! merged_fields {
    ($over:expr, $base:expr; $($option:ident),*) => {
        PortSection { $($option: $over.$option.clone().or_else(|| $base.$option.clone()),)* }
    };
}

impl PortSection {
    /// This section, with the values of `base` where it has none.
    pub(crate) fn over(&self, base: &PortSection) -> PortSection {
        merged_fields!(self, base;
            rate, preamble_and_gap, fcs, min_frame, max_catch_up, max_rate, max_burst, cable,
                mtu, lossless_mtu, headroom_formula, peer, peer_response, interface_delay,
                small_packet_percent, trust, default_tc, dscp_to_tc_map, dot1p_to_tc_map,
                tc_to_queue_map, tc_to_pg_map, pfc_to_queue_map, pfc_to_pg_map, flow_control,
                pfc_enable, pause_time, pause_response, pfcwd, pfcwd_sw_enable, priority_groups,
                queue_buffers, queue_wred, queue_schedulers)
    }
}
