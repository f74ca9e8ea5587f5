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

/// The root discipline of an interface; `None` for one of the kernel's own.
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

/// An attribute inside the options of a discipline or a class.
fn option_of(message: &TcMessage, wanted: u16) -> Option<Vec<u8>> {
    let options = message.attributes.iter().find_map(|one| match one {
        TcAttribute::Options(options) => options.first(),
        _ => None,
    })?;
    let TcOption::Other(options) = options else { return None };
    let mut bytes = vec![0; options.value_len()];
    options.emit_value(&mut bytes);
    let mut inside = NlasIterator::new(bytes.as_slice()).flatten();
    let is_it = |one: &NlaBuffer<&[u8]>| one.kind() == wanted;
    inside.find(is_it).map(|one| one.value().to_vec())
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
