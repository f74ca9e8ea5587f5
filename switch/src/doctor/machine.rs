//! Properties of the system: kernel, processors, capabilities, limits, interfaces.

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use super::{Finding, NoInterface};
use crate::ports::sys::interface::{self, HARDWARE_ETHERNET};
use crate::ports::sys::netns::is_in_first_user_namespace;
use crate::ports::sys::status_mask;
use crate::ports::{SETCAP, bridge};
use crate::program::{self, DeviceOptions, EngineKind};
use crate::report::unit::Unit;

/// The program that is compiled to test machine code.
const PROBE_PROGRAM: &str = "l2_switch";
/// Capabilities of live ports: name, number (include/uapi/linux/capability.h), its purpose.
const CAPABILITIES: [(&str, u32, &str); 3] = [
    ("CAP_NET_RAW", 13, "raw:, pnet: and xdp: ports"),
    ("CAP_NET_ADMIN", 12, "xdp: and tap: ports"),
    ("CAP_BPF", 39, "xdp: ports"),
];
/// CAP_SYS_ADMIN, which includes CAP_BPF.
const SYS_ADMIN: u32 = 21;
/// CAP_IPC_LOCK: with it the limit of locked memory does not apply.
const IPC_LOCK: u32 = 14;
/// Locked memory that two `xdp:` ports with queues need, in bytes.
const LOCKED_BYTES: u64 = 64 << 20;

pub(super) fn system() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = available_parallelism().map_or(1, NonZero::get);
    let found = format!("Linux {}, {processors} processors", release.trim());
    if processors > 1 {
        return Finding::good("system", found);
    }
    Finding::limited("system", found).advise(
        "with one processor a switch waits for its senders, and a lossless class loses packets at high load",
    )
}

pub(super) fn machine_code() -> Finding {
    let options = DeviceOptions { engine: EngineKind::Jit, ..DeviceOptions::small() };
    let loaded = match program::embedded(PROBE_PROGRAM) {
        Some(Ok(loaded)) => loaded,
        Some(Err(rejected)) => return Finding::missing("machine code", rejected.to_string()),
        None => return Finding::missing("machine code", "no program to try it with"),
    };
    match loaded.workers(options, 1) {
        Ok(_) => Finding::good("machine code", format!("{PROBE_PROGRAM} was compiled")),
        Err(why) => Finding::limited("machine code", why.to_string())
            .advise("the interpreter runs programs instead, some 50 times slower: allow the process executable memory"),
    }
}

pub(super) fn privileges() -> Finding {
    let Some(effective) = status_mask("CapEff:") else {
        return Finding::limited("privileges", "/proc/self/status does not list the capabilities");
    };
    let has = |number: u32| effective >> number & 1 != 0;
    let lacks = |(name, number, _): &(&str, u32, &str)| {
        !(has(*number) || *name == "CAP_BPF" && has(SYS_ADMIN))
    };
    let lacking: Vec<String> = CAPABILITIES
        .iter()
        .filter(|capability| lacks(capability))
        .map(|(name, _, what)| format!("{name} ({what})"))
        .collect();
    if lacking.is_empty() && !is_in_first_user_namespace() {
        return Finding::limited(
            "privileges",
            "those of a user namespace: they are enough for raw:, pnet: and tap: ports in its networks",
        )
        .advise("for xdp: ports start the switch outside of it");
    }
    if lacking.is_empty() {
        return Finding::good("privileges", "all that ports need");
    }
    Finding::missing("privileges", format!("lacks {}", lacking.join(", "))).advise(format!(
        "run as root, or: sudo {SETCAP}; demo, lab, replay, test and trace need none of them"
    ))
}

pub(super) fn locked_memory() -> Finding {
    const SUBJECT: &str = "locked memory";
    if !is_in_first_user_namespace() {
        return Finding::good(SUBJECT, "no port of a user namespace locks any");
    }
    if status_mask("CapEff:").is_some_and(|effective| effective >> IPC_LOCK & 1 != 0) {
        return Finding::good(SUBJECT, "no limit for this user");
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next());
    match soft.map(str::parse::<u64>) {
        None => Finding::limited(SUBJECT, "the limit is not known"),
        Some(Err(_)) => Finding::good(SUBJECT, "no limit"),
        Some(Ok(bytes)) if bytes >= LOCKED_BYTES => {
            Finding::good(SUBJECT, format!("up to {}", Unit::Bytes.show(bytes as f64)))
        }
        Some(Ok(bytes)) => {
            let found = format!(
                "up to {}, and xdp: ports lock packet memory",
                Unit::Bytes.show(bytes as f64)
            );
            Finding::limited(SUBJECT, found)
                .advise("ulimit -l unlimited, LimitMEMLOCK=infinity in a unit, or CAP_IPC_LOCK")
        }
    }
}

pub(super) fn interfaces(wanted: &[String]) -> Result<Vec<Finding>, NoInterface> {
    let there = interface::names();
    if let Some(unknown) = wanted.iter().find(|name| !there.contains(name)) {
        return Err(NoInterface { name: unknown.clone(), there });
    }
    let names = if wanted.is_empty() { &there } else { wanted };
    let is_shown = |name: &&String| !wanted.is_empty() || *name != "lo";
    Ok(names.iter().filter(is_shown).filter_map(|name| about(name)).collect())
}

/// The finding about a port on this interface; `None` if it has disappeared meanwhile.
fn about(name: &str) -> Option<Finding> {
    let found = interface::look_up(name).ok()?;
    let subject = format!("interface {name}");
    let mut words = vec![format!("MTU {}", found.mtu_bytes)];
    words.extend(interface::driver(name));
    words.extend(interface::receive_queues(name).map(|queues| match queues {
        1 => "1 receive queue".to_owned(),
        _ => format!("{queues} receive queues"),
    }));
    if interface::strips_tags(name) {
        words.push("takes VLAN tags out, which ports put back".into());
    }
    if found.hardware != HARDWARE_ETHERNET {
        return Some(Finding::limited(&subject, "no Ethernet: it cannot be a port"));
    }
    words.insert(0, if found.running { "up".into() } else { "no carrier".into() });
    let text = words.join(", ");
    Some(if !found.up {
        Finding::limited(&subject, text).advise(format!("ip link set {name} up"))
    } else if !found.running {
        Finding::limited(&subject, text).advise("its cable or its peer is down")
    } else if bridge::has(name) {
        Finding::limited(&subject, text).advise(format!(
            "it belongs to a Linux bridge, which forwards its frames beside a raw: or pnet: port: ip link set {name} nomaster"
        ))
    } else {
        Finding::good(&subject, text)
    })
}
