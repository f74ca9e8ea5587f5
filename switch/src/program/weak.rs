//! What a program makes of queues that cannot do what they are for: curves whose marks it ignores, trimming that it does not see, classes
//! that no packet gets. Such a switch runs, so that these are warnings.

use std::collections::BTreeSet;

use wireyard_pipeline::ir::StdField;

use super::Loaded;
use crate::config::qos::{Problem, Qos};
use crate::ports::PortNumber;
use crate::tm::NotEct;

impl Loaded {
    /// Weaknesses of the queues of a switch with these ports.
    pub fn queue_warnings(&self, numbers: &[PortNumber]) -> Vec<Problem> {
        let queues = self.config.as_ref().and_then(|config| config.queues(numbers));
        let Some(Ok(qos)) = queues else { return Vec::new() };
        let mut warnings = qos.report.warnings.clone();
        warnings.extend(self.weaknesses(&qos));
        warnings
    }

    /// Weaknesses of these queues with this program.
    pub fn weaknesses(&self, qos: &Qos) -> Vec<Problem> {
        let of_program = |message: &str| {
            Problem::new(&format!("program {}", self.program.name), message.to_owned())
        };
        let all = [self.unmarked(qos), self.untrimmed(qos), self.unclassified(qos)];
        all.into_iter().flatten().map(of_program).collect()
    }

    /// Queues that trim, and a program that ignores trimming.
    fn untrimmed(&self, qos: &Qos) -> Option<&'static str> {
        let trims = qos.ports.iter().flat_map(|port| &port.tm.queues).any(|q| q.trim.is_some());
        (trims && !self.program.reads(StdField::Trimmed)).then_some(
            "never reads std.trimmed: what a queue with discard: trim cuts leaves with the DSCP of \
             a whole packet, and its receiver takes it for a broken one",
        )
    }

    /// A marking curve whose marks the program ignores.
    fn unmarked(&self, qos: &Qos) -> Option<&'static str> {
        let queues = qos.ports.iter().flat_map(|port| &port.tm.queues);
        let wred: Vec<_> = queues.filter_map(|queue| queue.wred).collect();
        let marks = self.program.assigns(StdField::Ect);
        if wred.is_empty() || marks && self.program.reads(StdField::CongestionMark) {
            None
        } else if marks {
            Some(
                "never reads std.congestion_mark: what a curve decides to mark leaves unmarked (mark_decisions counts it, marked does not)",
            )
        } else if wred.iter().any(|wred| wred.not_ect == NotEct::Pass) {
            Some(
                "never assigns std.ect, so no packet may be marked: a curve with not_ect: pass does nothing",
            )
        } else {
            None
        }
    }

    /// Marking curves in queues that no packet gets into, because the program says nothing of its classes.
    fn unclassified(&self, qos: &Qos) -> Option<&'static str> {
        let has_classes = self.program.qos.dscp.is_some()
            || self.program.qos.pcp.is_some()
            || self.program.assigns(StdField::TrafficClass);
        // A class is by the port that receives a packet, its queue by the port that sends it.
        let classes: BTreeSet<u8> =
            qos.ports.iter().map(|port| port.classifier.default_tc).collect();
        let is_idle = qos.ports.iter().any(|port| {
            let is_used = |queue: usize| {
                classes.iter().any(|class| usize::from(port.classifier.queue(*class)) == queue)
            };
            let mut curves = port.tm.queues.iter().map(|queue| queue.wred.is_some()).enumerate();
            curves.any(|(queue, has_curve)| has_curve && !is_used(queue))
        });
        (is_idle && !has_classes).then_some(
            "gives no packet a class, so that all are of default_tc and other queues stay empty: declare qos: { dscp: ipv4.dscp }, or assign \
             std.traffic_class",
        )
    }
}
