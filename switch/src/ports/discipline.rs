//! The queueing discipline of an interface (tc(8)), by netlink (rtnetlink(7)).
//!
//! Live ports send past it: AF_XDP has none on its way, and packet sockets bypass it (PACKET_QDISC_BYPASS). What it would do, a rate
//! above all, has to be done by the switch's own queues; this finds out which that is. It changes nothing.

use std::io;

use netlink_packet_core::{NetlinkPayload, Nla as _, NlaBuffer, NlasIterator};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::netlink;
use super::sys::interface;
use crate::units::BitsPerSec;

/// Disciplines that the kernel attaches itself, which neither shape nor delay.
const OF_THE_KERNEL: [&str; 6] = ["noqueue", "pfifo_fast", "pfifo", "mq", "fq", "fq_codel"];
/// Attributes of `linux/pkt_sched.h`: TCA_HTB_INIT, TCA_HTB_RATE64; TCA_HTB_PARMS and TCA_TBF_PARMS; TCA_TBF_RATE64.
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
/// Size of `struct tc_netem_qopt`, with which the options of a netem begin, and its only word that neither delays nor loses a frame: `limit`.
const NETEM_BYTES: usize = 24;
const NETEM_LIMIT: std::ops::Range<usize> = 4..8;
/// Attributes behind it that do: TCA_NETEM_REORDER, CORRUPT, LOSS, RATE, RATE64, LATENCY64, JITTER64, SLOT.
const NETEM_EFFECTS: [u16; 8] = [3, 4, 5, 6, 8, 10, 11, 12];
/// Where `struct tc_htb_glob` has the number of its default class.
const DEFAULT_CLASS_AT: usize = 8;
/// Where `struct tc_ratespec`, with which tc_htb_opt and tc_tbf_qopt begin, has the rate in bytes a second.
const RATE_AT: usize = 8;

/// A discipline that an administrator gave an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// Its kind, as in `tc qdisc show`.
    pub kind: String,
    /// The rate of a token bucket (tbf), or of the default class of a hierarchical one (htb).
    pub rate: Option<BitsPerSec>,
}

/// The root discipline of an interface; `None` for one of the kernel's own, and for a netem that does nothing (Mininet's `delay='0ms'`).
///
/// # Errors
/// ENODEV, and errors of the netlink socket.
pub fn of(name: &str) -> io::Result<Option<Discipline>> {
    let index = interface::look_up(name)?.index;
    let is_root = |one: &TcMessage| one.header.parent == TcHandle::ROOT;
    let request = TcMessage::with_index(index as i32);
    let found = dump(RouteNetlinkMessage::GetQueueDiscipline(request.clone()))?;
    let mut found = found.into_iter().filter(|one| one.header.index == index as i32);
    let Some(root) = found.find(is_root) else { return Ok(None) };
    let Some(kind) = kind_of(&root).filter(|kind| !OF_THE_KERNEL.contains(kind)) else {
        return Ok(None);
    };
    if kind == "netem" && options_of(&root).is_some_and(|options| is_idle_netem(&options)) {
        return Ok(None);
    }
    let rate = match kind {
        "tbf" => rate_of(&root, TBF_RATE64),
        "htb" => {
            let class = default_class(&root);
            let classes = dump(RouteNetlinkMessage::GetTrafficClass(request))?;
            let is_it = |one: &&TcMessage| class == Some(one.header.handle);
            classes.iter().find(is_it).and_then(|class| rate_of(class, HTB_RATE64))
        }
        _ => None,
    };
    Ok(Some(Discipline { kind: kind.to_owned(), rate }))
}

fn kind_of(message: &TcMessage) -> Option<&str> {
    message.attributes.iter().find_map(|one| match one {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    })
}

/// The options of a discipline or a class.
fn options_of(message: &TcMessage) -> Option<Vec<u8>> {
    let options = message.attributes.iter().find_map(|one| match one {
        TcAttribute::Options(options) => options.first(),
        _ => None,
    })?;
    let TcOption::Other(options) = options else { return None };
    let mut bytes = vec![0; options.value_len()];
    options.emit_value(&mut bytes);
    Some(bytes)
}

/// An attribute inside these options.
fn option_of(message: &TcMessage, wanted: u16) -> Option<Vec<u8>> {
    let bytes = options_of(message)?;
    let mut inside = NlasIterator::new(bytes.as_slice()).flatten();
    let is_it = |one: &NlaBuffer<&[u8]>| one.kind() == wanted;
    inside.find(is_it).map(|one| one.value().to_vec())
}

/// Whether a netem with these options neither delays, loses, changes nor paces frames (`netem_dump` of net/sched/sch_netem.c).
fn is_idle_netem(options: &[u8]) -> bool {
    let Some((fixed, attributes)) = options.split_at_checked(NETEM_BYTES) else { return false };
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let has_effect =
        |one: NlaBuffer<&[u8]>| NETEM_EFFECTS.contains(&one.kind()) && !is_zero(one.value());
    is_zero(&fixed[..NETEM_LIMIT.start])
        && is_zero(&fixed[NETEM_LIMIT.end..])
        && !NlasIterator::new(attributes).flatten().any(has_effect)
}

/// The class of an htb for frames that no filter picks.
fn default_class(root: &TcMessage) -> Option<TcHandle> {
    let bytes = option_of(root, HTB_INIT)?;
    let minor = u32::from_ne_bytes(*bytes.get(DEFAULT_CLASS_AT..)?.first_chunk()?);
    Some(TcHandle { major: root.header.handle.major, minor: u16::try_from(minor).ok()? })
}

/// The rate of a discipline or a class: a wide attribute where it does not fit the narrow one.
fn rate_of(message: &TcMessage, wide: u16) -> Option<BitsPerSec> {
    let bytes_per_sec = match option_of(message, wide) {
        Some(bytes) => u64::from_ne_bytes(*bytes.first_chunk()?),
        None => {
            let bytes = option_of(message, PARMS)?;
            u32::from_ne_bytes(*bytes.get(RATE_AT..)?.first_chunk()?).into()
        }
    };
    BitsPerSec::new(bytes_per_sec.checked_mul(8)?)
}

/// The disciplines or classes that the kernel lists for a request.
fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<TcMessage>> {
    let mut found = Vec::new();
    netlink::dump(request, |message| {
        use RouteNetlinkMessage::{NewQueueDiscipline, NewTrafficClass};
        let payload = &message.payload;
        if let NetlinkPayload::InnerMessage(NewQueueDiscipline(one) | NewTrafficClass(one)) =
            payload
        {
            found.push(one.clone());
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options of a netem in the kernel's order: latency, limit, loss, gap, duplicate, jitter, then attributes.
    fn netem(fixed: [u32; 6], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut options: Vec<u8> = fixed.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for (kind, value) in attributes {
            options.extend((value.len() as u16 + 4).to_ne_bytes());
            options.extend(kind.to_ne_bytes());
            options.extend(*value);
        }
        options
    }

    #[test]
    fn a_netem_of_0_ms_does_nothing() {
        const LATENCY64: u16 = 10;
        const PRNG_SEED: u16 = 14;
        let usual: [(u16, &[u8]); 4] =
            [(1, &[0; 12]), (LATENCY64, &[0; 8]), (6, &[0; 16]), (PRNG_SEED, &[7; 8])];
        assert!(is_idle_netem(&netem([0, 1000, 0, 0, 0, 0], &usual)));
        for at in [0, 2, 3, 4, 5] {
            let mut fixed = [0, 1000, 0, 0, 0, 0];
            fixed[at] = 1;
            assert!(!is_idle_netem(&netem(fixed, &usual)), "word {at}");
        }
        for kind in NETEM_EFFECTS {
            let options = netem([0, 1000, 0, 0, 0, 0], &[(kind, &[0, 0, 0, 1])]);
            assert!(!is_idle_netem(&options), "attribute {kind}");
        }
        assert!(!is_idle_netem(&[0; 8]), "no whole options");
    }
}
