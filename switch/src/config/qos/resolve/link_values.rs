//! The numbers of a link by themselves: lengths of frames, buckets, shares.

use crate::units::{BitsPerSec, Bytes};

use super::super::PortSection;
use super::Resolver;

/// The shortest frame of Ethernet with FCS (IEEE 802.3 3.2.8).
const MTU_MIN: Bytes = Bytes::new(64);

impl Resolver<'_> {
    /// Refuses numbers of a port that no link has, and keys without the one that they belong to.
    pub(super) fn link_values(
        &mut self,
        place: &str,
        section: &PortSection,
        rate: Option<BitsPerSec>,
    ) {
        let named = |key: &str| format!("{place}, {key}");
        let mtu = section.mtu.unwrap_or(super::MTU);
        if mtu < MTU_MIN {
            let message =
                format!("mtu {mtu} is below {MTU_MIN}, the shortest frame of Ethernet with FCS");
            self.refuse(&named("mtu"), message);
        }
        for (key, bytes) in
            [("lossless_mtu", section.lossless_mtu), ("min_frame", section.min_frame)]
        {
            if let Some(bytes) = bytes.filter(|bytes| *bytes > mtu) {
                let message = format!("{key} {bytes} is above mtu {mtu}, the longest frame");
                self.refuse(&named(key), message);
            }
        }
        let percent = section.small_packet_percent;
        if let Some(percent) = percent.filter(|percent| *percent > 100) {
            let message = format!("{percent} % of all packets: give 0 to 100");
            self.refuse(&named("small_packet_percent"), message);
        } else if percent.is_some() && self.config.cell.is_none() {
            let message = "it is about rounding to cells, and qos has no cell: it changes nothing";
            self.warn(&named("small_packet_percent"), message.to_owned());
        }
        self.burst_of_a_rate(&named("max_burst"), section.max_rate, section.max_burst);
        if let (Some(max), Some(rate)) = (section.max_rate, rate)
            && max > rate
        {
            let message =
                format!("max_rate {max} is above the port's rate {rate}: it never limits");
            self.warn(&named("max_rate"), message);
        }
    }

    /// Refuses a bucket without a rate.
    pub(super) fn burst_of_a_rate(
        &mut self,
        place: &str,
        rate: Option<BitsPerSec>,
        burst: Option<Bytes>,
    ) {
        if rate.is_none() && burst.is_some() {
            let key = place.rsplit(", ").next().unwrap_or(place);
            let rate = key.replace("burst", "rate");
            self.refuse(place, format!("{key} is the bucket of {rate}, which is not given"));
        }
    }
}
