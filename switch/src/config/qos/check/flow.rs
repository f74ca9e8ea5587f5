//! Flow control: whether a pause goes out for the packets that it is about, and stops the queue that they wait in.

use crate::tm::{CLASSES, FlowControl};

use super::super::resolve::{PortPlan, Resolver};

impl Resolver<'_> {
    pub(super) fn check_flow_control(&mut self, plan: &PortPlan) {
        let flow = &plan.tm.flow_control;
        if flow.mode == FlowControl::Off {
            return;
        }
        let place = format!("port {}", plan.number);
        let is_pfc = flow.mode == FlowControl::Pfc;
        for p in (0..CLASSES).filter(|p| is_pfc && flow.enabled & 1 << p != 0) {
            let group = usize::from(flow.priority_to_group[p]);
            if plan.groups[group].config.lossless.is_none() {
                let profile = &plan.groups[group].profile;
                let message = format!(
                    "PFC is enabled for priority {p}, but its priority group {group} has the lossy profile \
                     \"{profile}\": XOFF would never be sent; give it a profile with headroom"
                );
                self.refuse(&format!("{place}, pfc_enable"), message);
            } else {
                self.check_classes_of(plan, p, group);
            }
        }
        if let Some(rate) = plan.tm.rate {
            let (pause, round) = (flow.quanta.span(rate), plan.loop_time);
            if pause < round + round {
                let message = format!(
                    "pause_time {} lasts {pause}, less than twice the {round} of the pause loop: a refresh \
                     may come too late",
                    flow.quanta
                );
                self.lossy(&format!("{place}, pause_time"), message);
            }
        }
    }

    /// Packets of a priority are those of the classes that its priority group takes: there must be one, and a pause
    /// that is received must stop its queue (IEEE 802.1Q 36.1.3).
    fn check_classes_of(&mut self, plan: &PortPlan, priority: usize, group: usize) {
        let of_group = |tc: &usize| usize::from(plan.classifier.tc_to_group[*tc]) == group;
        let classes: Vec<usize> = (0..CLASSES).filter(of_group).collect();
        let port = plan.number;
        if classes.is_empty() {
            let takes = plan.classifier.tc_to_group[priority];
            let message = format!(
                "PFC is enabled for priority {priority}, but no traffic class is charged to its priority group {group} \
                 (class {priority} goes to group {takes}): XOFF would never be sent; map a class to group {group} in \
                 tc_to_pg_map, or name another priority"
            );
            return self.lossy(&format!("port {port}, pfc_enable"), message);
        }
        let stopped = plan.tm.flow_control.priority_to_queue[priority];
        let mut queues = classes.iter().map(|tc| plan.classifier.tc_to_queue[*tc]);
        if !queues.clone().any(|queue| queue == stopped) {
            let queue = queues.next().unwrap_or_default();
            let message = format!(
                "a received pause of priority {priority} stops queue {stopped}, but packets of its priority group \
                 {group} wait in queue {queue}, which would go on sending: map priority {priority} to queue {queue} in \
                 pfc_to_queue_map"
            );
            self.lossy(&format!("port {port}, pfc_to_queue_map"), message);
        }
    }
}
