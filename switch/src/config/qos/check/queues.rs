//! Queues: trimming, marking and rates against what they can hold and what their port has.

use crate::tm::{CLASSES, NotEct};
use crate::units::BitsPerSec;

use super::super::report::QueueReport;
use super::super::resolve::{PortPlan, Resolver};
use super::b;

/// Whether packets of this class wait in this queue and their priority group is lossless.
fn is_lossless(plan: &PortPlan, tc: usize, queue: usize) -> bool {
    let group = usize::from(plan.classifier.tc_to_group[tc]);
    usize::from(plan.classifier.tc_to_queue[tc]) == queue
        && plan.groups[group].config.lossless.is_some()
}

impl Resolver<'_> {
    /// Checks that packets of a lossless class are never trimmed.
    pub(super) fn check_trim(&mut self, place: &str, plan: &PortPlan, number: usize) {
        if plan.tm.queues[number].trim.is_none() {
            return;
        }
        if plan.tm.rate.is_none() {
            let message = "trims, but its port has no rate: nothing waits there by itself, so nothing is trimmed";
            self.warn(place, message.to_owned());
        }
        let lossless = (0..CLASSES).find(|tc| is_lossless(plan, *tc, number));
        if let Some(tc) = lossless {
            let message = format!(
                "takes traffic class {tc}, whose priority group {} is lossless, and its profile has discard: \
                 trim: payload would be cut off where the class promises that none is lost; give the queue a \
                 profile without, or the group one without headroom",
                plan.classifier.tc_to_group[tc]
            );
            self.refuse(place, message);
        }
    }

    /// Checks the curves of a queue against what it can hold, and against the thresholds of its lossless groups.
    pub(super) fn check_curves(&mut self, plan: &PortPlan, number: usize) {
        let queue = &plan.tm.queues[number];
        let (Some(wred), Some(name)) = (&queue.wred, &plan.wred_names[number]) else { return };
        let place = format!("port {}, queue {number}, wred profile \"{name}\"", plan.number);
        let (pool, config) = self.pool_of(queue.account.pool.0);
        let holds = queue.account.alone(config.shared_bytes);
        if plan.tm.rate.is_none() {
            let message = format!(
                "has the curve {name}, but its port has no rate: nothing waits there by itself, so nothing is marked"
            );
            self.warn(&format!("port {}, queue {number}, queue_wred", plan.number), message);
        }
        let xoff_at = self.first_xoff(plan, number);
        for curve in wred.curves.iter().flatten() {
            let (kmin, kmax, _) = curve.parts();
            if kmin >= holds {
                let message = format!(
                    "kmin {} is not below the {} the queue can hold (pool {pool}): nothing is ever marked",
                    b(kmin),
                    b(holds)
                );
                self.refuse(&place, message);
            } else if kmax > holds {
                let message = format!(
                    "kmax {} is over the {} the queue can hold: it is never reached",
                    b(kmax),
                    b(holds)
                );
                self.warn(&place, message);
            }
            if let Some(xoff_at) = xoff_at.filter(|xoff_at| kmin >= *xoff_at) {
                let message = format!(
                    "kmin {} is not below XOFF at {} of its priority group: a single sender is paused before it is \
                     marked, so that PFC acts in place of ECN; lower kmin, or raise the group's threshold",
                    b(kmin),
                    b(xoff_at)
                );
                self.warn(&place, message);
            }
        }
        if xoff_at.is_some() && wred.not_ect == NotEct::Drop {
            let message =
                "drops packets without ECT although the class is lossless; use not_ect: pass";
            self.warn(&format!("{place}, not_ect"), message.to_owned());
        }
        if let Some((kmin, kmax, pmax)) = wred.curves[0].map(|curve| curve.parts()) {
            self.report.queues.push(QueueReport {
                port: plan.number.to_string(),
                queue: number as u8,
                wred_profile: name.clone(),
                kmin_bytes: kmin,
                kmax_bytes: kmax,
                pmax_ppm: pmax.ppm(),
                limit_bytes: holds,
            });
        }
    }

    /// Lowest XOFF of the lossless groups whose packets wait in this queue, while their pools are empty.
    fn first_xoff(&self, plan: &PortPlan, queue: usize) -> Option<u64> {
        let classes = (0..CLASSES).filter(|tc| is_lossless(plan, *tc, queue));
        let accounts = classes
            .map(|tc| plan.groups[usize::from(plan.classifier.tc_to_group[tc])].config.account);
        let levels = accounts.map(|account| {
            let (_, pool) = self.pool_of(account.pool.0);
            account.alone(pool.shared_bytes)
        });
        levels.min()
    }

    /// Checks the guarantees and limits of a port's queues against its rate.
    pub(super) fn check_rates(&mut self, plan: &PortPlan) {
        let Some(rate) = plan.tm.rate else { return };
        let most = plan.tm.max.map_or(rate, |max| max.rate.min(rate));
        let mut sum = 0u128;
        for (number, queue) in plan.tm.queues.iter().enumerate() {
            sum += queue.service.min.map_or(0, |min| u128::from(min.rate.get()));
            let Some(max) = queue.service.max.filter(|max| max.rate > rate) else { continue };
            let name = plan.scheduler_names[number].as_deref().unwrap_or_default();
            let message =
                format!("max_rate {} is above the port's {rate}: it never limits", max.rate);
            let port = plan.number;
            self.warn(
                &format!("port {port}, queue {number}, scheduler \"{name}\", max_rate"),
                message,
            );
        }
        if sum > u128::from(most.get())
            && let Some(sum) = BitsPerSec::new(u64::try_from(sum).unwrap_or(u64::MAX))
        {
            let message = format!(
                "min_rate of its queues adds up to {sum}, and the port has {most}: not all of it can be guaranteed; \
                 lower min_rate, or share by weights"
            );
            self.refuse(&format!("port {}, queue_schedulers", plan.number), message);
        }
    }
}
