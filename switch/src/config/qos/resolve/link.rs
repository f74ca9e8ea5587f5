//! The settings of a port about its link: maps, flow control, watchdog.

use wireyard_tables::time::Span;

use crate::tm::{CLASSES, FlowControl, FlowControlConfig, StormAction, WatchdogConfig};
use crate::units::{BitsPerSec, Quanta};

use super::super::{FlowControlWord, PortSection, StormActionWord};
use super::{Classifier, Resolver};

/// Keys of maps, with their plurals.
const CLASS: (&str, &str) = ("class", "classes");
const PRIORITY: (&str, &str) = ("priority", "priorities");

impl Resolver<'_> {
    pub(super) fn classifier(&mut self, place: &str, section: &PortSection) -> Classifier {
        let config = self.config;
        let named = |what: &str| format!("{place}, {what}");
        let default_tc = section.default_tc.unwrap_or(0);
        if usize::from(default_tc) >= CLASSES {
            self.refuse(&named("default_tc"), format!("{default_tc}: classes go from 0 to 7"));
        }
        Classifier {
            trust: section.trust.unwrap_or_default(),
            default_tc: default_tc % CLASSES as u8,
            dscp_to_tc: self.map(
                (&named("dscp_to_tc_map"), ("DSCP", "DSCPs")),
                &config.dscp_to_tc_maps,
                &section.dscp_to_tc_map,
                |_| default_tc,
            ),
            pcp_to_tc: self.map(
                (&named("dot1p_to_tc_map"), ("PCP", "PCPs")),
                &config.dot1p_to_tc_maps,
                &section.dot1p_to_tc_map,
                |_| default_tc,
            ),
            tc_to_queue: self.map(
                (&named("tc_to_queue_map"), CLASS),
                &config.tc_to_queue_maps,
                &section.tc_to_queue_map,
                |tc| tc as u8,
            ),
            tc_to_group: self.map(
                (&named("tc_to_pg_map"), CLASS),
                &config.tc_to_priority_group_maps,
                &section.tc_to_pg_map,
                |tc| tc as u8,
            ),
        }
    }

    pub(super) fn flow_control(
        &mut self,
        place: &str,
        section: &PortSection,
        rate: Option<BitsPerSec>,
    ) -> FlowControlConfig {
        let config = self.config;
        let enabled = self.mask(
            &format!("{place}, pfc_enable"),
            section.pfc_enable.as_deref().unwrap_or_default(),
        );
        let mode = match section.flow_control {
            Some(FlowControlWord::Off) => FlowControl::Off,
            Some(FlowControlWord::Pause) => FlowControl::Pause,
            Some(FlowControlWord::Pfc) => FlowControl::Pfc,
            None if enabled != 0 => FlowControl::Pfc,
            None => FlowControl::Off,
        };
        if mode == FlowControl::Pause && enabled != 0 {
            let message = "flow_control: pause stops the whole link, so pfc_enable means nothing here: leave out one of \
                           the two";
            self.warn(&format!("{place}, flow_control"), message.to_owned());
        }
        if mode != FlowControl::Off && rate.is_none() {
            self.refuse(
                place,
                "flow control is on, but without a rate a pause quantum (512 bit times) has no length; \
                 give the port a rate (\"25Gbit/s\", or the scaled rate of an emulated link) or set \
                 flow_control: off"
                    .to_owned(),
            );
        }
        if section.pause_time == Some(Quanta::ZERO) {
            let message = "a pause of 0 quanta resumes the peer in place of stopping it: give 1 to 65535 quanta";
            self.refuse(&format!("{place}, pause_time"), message.to_owned());
        }
        FlowControlConfig {
            mode,
            enabled,
            priority_to_queue: self.map(
                (&format!("{place}, pfc_to_queue_map"), PRIORITY),
                &config.pfc_priority_to_queue_maps,
                &section.pfc_to_queue_map,
                |priority| priority as u8,
            ),
            priority_to_group: self.map(
                (&format!("{place}, pfc_to_pg_map"), PRIORITY),
                &config.pfc_priority_to_priority_group_maps,
                &section.pfc_to_pg_map,
                |priority| priority as u8,
            ),
            quanta: section.pause_time.unwrap_or(Quanta::MAX),
            response: section.pause_response.map_or(Span::ZERO, |interval| interval.span()),
            honoured_within: Span::MAX,
            quantum_rate: None,
        }
    }

    pub(super) fn watchdog(
        &mut self,
        place: &str,
        section: &PortSection,
        flow: &FlowControlConfig,
    ) -> Option<WatchdogConfig> {
        let named = section.pfcwd_sw_enable.as_ref();
        let named = named.map(|queues| self.mask(&format!("{place}, pfcwd_sw_enable"), queues));
        let Some(watchdog) = section.pfcwd.as_ref() else {
            if named.is_some() {
                let message =
                    "pfcwd_sw_enable has the queues of the watchdog pfcwd, which is not given";
                self.refuse(&format!("{place}, pfcwd_sw_enable"), message.to_owned());
            }
            return None;
        };
        if flow.mode != FlowControl::Pfc {
            // A port that says that it has none means it.
            let is_meant = section.flow_control == Some(FlowControlWord::Off)
                || section.pfc_enable.as_ref().is_some_and(Vec::is_empty);
            if !is_meant {
                let message = "no priority has PFC, so pfcwd watches nothing: write pfc_enable, or leave pfcwd out";
                self.warn(&format!("{place}, pfcwd"), message.to_owned());
            }
            return None;
        }
        let dilation = u64::from(self.config.dilation.get());
        let or_ms = |interval: Option<crate::units::Interval>, ms: u64| {
            interval.map_or(Span::from_ms(ms * dilation), |interval| interval.span())
        };
        let detection = or_ms(watchdog.detection_time, 200);
        let restoration = or_ms(watchdog.restoration_time, 200);
        let watchdog = WatchdogConfig {
            queues: named,
            detection,
            restoration,
            poll: watchdog.poll_interval.map_or(
                Span::from_ms(100 * dilation).min(detection).min(restoration),
                |interval| interval.span(),
            ),
            action: match watchdog.action {
                StormActionWord::Drop => StormAction::Drop,
                StormActionWord::Forward => StormAction::Forward,
                StormActionWord::Alert => StormAction::Alert,
            },
        };
        let (least, times) =
            (Span::from_us(1), [("detection_time", detection), ("restoration_time", restoration)]);
        let mut has_time = true;
        for (key, time) in times.iter().filter(|(_, time)| *time < least) {
            has_time = false;
            self.refuse(&format!("{place}, pfcwd.{key}"), format!("{time}: give at least {least}"));
        }
        let (poll, most) = (watchdog.poll, detection.min(restoration));
        if has_time && (poll < least || poll > most) {
            let (key, what) = match detection <= restoration {
                true => ("detection_time", detection),
                false => ("restoration_time", restoration),
            };
            let message = format!("poll_interval {poll} is not between 1 us and {key} {what}");
            self.refuse(&format!("{place}, pfcwd.poll_interval"), message);
        }
        Some(watchdog)
    }
}
