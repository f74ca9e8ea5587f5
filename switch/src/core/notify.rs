//! CNPs that the device sends for congestion that its program reported.

use wireyard_pipeline::exec::{Intrinsic, flags};

use super::Core;
use super::manager::Wanted;
use crate::device::notify::{Notice, NoticeClass, Via};

impl Core {
    /// Sends the CNPs that are due.
    pub(super) fn send_notices(&mut self) {
        while let Some(notifier) = &mut self.device.notifier {
            if notifier.next_deadline() > self.now {
                return;
            }
            let Some(notice) = notifier.poll(self.now) else { return };
            self.send_notice(&notice);
        }
    }

    fn send_notice(&mut self, notice: &Notice) {
        let (Via::Out(number) | Via::In(number)) = notice.via;
        // The port may be gone, or the mark was on a packet of the CPU port.
        let Some(slot) = self.slot(number) else { return };
        if let Via::In(_) = notice.via {
            return self.enter(slot, notice.frame(), self.now);
        }
        let Some(mut packet) = self.own_packet(slot, notice.frame()) else { return };
        let mut intrinsic = Intrinsic::default();
        match notice.class {
            NoticeClass::Maps(class) => (intrinsic.dscp, intrinsic.pcp) = (class.dscp, class.pcp),
            NoticeClass::Lane(lane) => {
                packet.traffic_class = lane & 7;
                packet.flags |= flags::CLASS_ASSIGNED;
            }
        }
        self.manager.classify(Some(slot), &mut packet, &intrinsic);
        self.offer(slot, packet, Wanted::Now);
    }
}
